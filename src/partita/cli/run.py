"""``partita run``: run a model once and show what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partita.cli.answer import Answer
from partita.cli.compile import Strict
from partita.cli.opening import compiled, opened, planned, require_folder
from partita.cli.options import Choices, Display, Feeds, ModelPath
from partita.cli.terminal import say


def run(
    model: ModelPath,
    choices: Choices,
    feeds: Feeds,
    display: Display,
    strict: Strict = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.npz", help="Write the outputs."),
    ] = None,
) -> Answer:
    """Run a model on given or random inputs and show its outputs.

    Examples:
      partita run model.onnx --input x=x.npy -o outputs.npz
      partita run model.onnx --backend openvino --dim batch=4 --seed 1
    """
    from partita.cli.arrays import fed, write_arrays
    from partita.reporting.text import placement_line
    from partita.reporting.values import summaries, value_table

    require_folder(output)
    loaded = opened(model)
    plan = planned(loaded, choices, display)
    inputs = fed(loaded, feeds, display)
    program = compiled(plan, choices, display, strict)
    outputs = program.run(inputs)
    files: list[str] = []
    if output is not None:
        write_arrays(output, outputs)
        files.append(str(output))
        say(display, f"partita: wrote {output}")
    given, made = summaries(inputs), summaries(outputs)
    content = {
        "placement": placement_line(plan),
        "inputs": [s.to_dict() for s in given],
        "outputs": [s.to_dict() for s in made],
        "fallbacks": program.report.to_dict()["fallbacks"],
        "files": files,
    }
    return Answer("run", content, (value_table("Outputs", made),))
