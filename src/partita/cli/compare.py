"""``partita compare``: do two ways of running a model agree, and if not, who is at fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partita.cli.answer import Answer
from partita.cli.compile import Strict
from partita.cli.opening import compiled, opened, planned, say_other
from partita.cli.options import Choices, Display, Feeds, ModelPath, split
from partita.cli.terminal import say
from partita.reporting.tables import Column, Table

if TYPE_CHECKING:
    from partita.backends.contract import Backend
    from partita.compiling.verify import Culprit
    from partita.model import Model
    from partita.running.compare import Comparison
    from partita.running.program import Program

HOST = "host"


def compare(
    model: ModelPath,
    choices: Choices,
    feeds: Feeds,
    display: Display,
    against: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Backends to compare with, or 'host': op by op."),
    ] = HOST,
    rtol: Annotated[float, typer.Option(metavar="X", help="Relative tolerance.", min=0)] = 1e-4,
    atol: Annotated[float, typer.Option(metavar="X", help="Absolute tolerance.", min=0)] = 1e-5,
    repro: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where a minimal model that differs is written; MODEL.repro if not given.",
        ),
    ] = None,
    strict: Strict = False,
) -> Answer:
    """Compare every output with another way of running the model; exit with 1 if they differ.

    On a difference the first region that computes something else is found and cut out.

    Examples:
      partita compare model.onnx --backend openvino
      partita compare model.onnx -b openvino --against onnxruntime --rtol 1e-3
    """
    from partita import verbs
    from partita.cli.arrays import fed
    from partita.compiling.verify import bisect
    from partita.reporting.text import placement_line

    loaded = opened(model)
    plan = planned(loaded, choices, display)
    inputs = fed(loaded, feeds, display)
    program = compiled(plan, choices, display, strict)
    reference, other = _reference(loaded, against, display)
    comparison = verbs.compare(program, other, inputs, rtol=rtol, atol=atol)
    content: dict[str, Any] = {
        "placement": placement_line(plan),
        "against": against,
        **comparison.to_dict(),
        "culprit": None,
    }
    if comparison.passed:
        return Answer("compare", content, (_table(comparison),))
    say(display, "partita: the outputs differ; looking for the first region that does")
    folder = repro or Path(f"{model.stem}.repro")
    culprit = bisect(
        plan, list(inputs.values()), reference=reference, rtol=rtol, atol=atol, folder=folder
    )
    failed = [o.name for o in comparison.outputs if not o.passed]
    return Answer(
        "compare",
        {**content, "culprit": _culprit(culprit)},
        (_table(comparison), str(culprit or "every region agrees when it is run alone")),
        code=1,
        error=f"{len(failed)} of {len(comparison.outputs)} outputs differ: {', '.join(failed[:5])}",
    )


def _reference(model: Model, against: str, display: Display) -> tuple[Backend | None, Program]:
    """Returns the backend that is right (``None``: the host), and what runs the model by it."""
    from partita import verbs

    names = split([against]) or [HOST]
    plan = verbs.partition(model, names)
    if names != [HOST]:
        say_other(plan, display)
    # Regions are judged by that backend only if it can be asked about all of them.
    judge = plan.backends[0] if plan.backends and not plan.host else None
    return judge, verbs.compile(plan)


def _culprit(found: Culprit | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "region": found.region,
        "backend": found.backend,
        "nodes": list(found.nodes),
        "folder": str(found.folder) if found.folder else None,
        **found.comparison.to_dict(),
    }


def _table(comparison: Comparison) -> Table:
    columns = (
        Column("Output"),
        Column("Verdict", whole=True),
        Column("Passes with atol", right=True),
        Column("or with rtol", right=True),
        Column("Outside", right=True),
        Column("Problem"),
    )
    rows = tuple(
        (
            o.name,
            "PASSED" if o.passed else "FAILED",
            f"{o.max_absolute:.3g}",
            f"{o.max_relative:.3g}",
            f"{o.differing:,} of {o.elements:,}",
            o.problem,
        )
        for o in comparison.outputs
    )
    title = f"Outputs, within rtol {comparison.rtol:g} and atol {comparison.atol:g}"
    return Table(title, columns, rows)
