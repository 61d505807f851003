"""``partita compile``: compile every region and say how it went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partita.cli.answer import Answer
from partita.cli.opening import compiled, opened, planned, require_folder
from partita.cli.options import Choices, Display, ModelPath
from partita.cli.terminal import say
from partita.reporting.quantities import byte_text, plural, time_text
from partita.reporting.tables import Column, Table

if TYPE_CHECKING:
    from partita.running.report import Report

Strict = Annotated[
    bool, typer.Option("--strict", help="A region that cannot be compiled is an error.")
]


def compile(
    model: ModelPath,
    choices: Choices,
    display: Display,
    strict: Strict = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.onnx", help="Write the partitioned model."),
    ] = None,
) -> Answer:
    """Compile every region, say how long each took and which fell back, and write the model.

    Examples:
      partita compile model.onnx --backend openvino,onnxruntime --strict
      partita compile model.onnx -b onnxruntime -o partitioned.onnx
    """
    from partita.reporting.text import placement_line

    require_folder(output)
    plan = planned(opened(model), choices, display)
    report = compiled(plan, choices, display, strict).report
    files: list[str] = []
    if output is not None:
        files.append(str(plan.apply().save(output)))
        say(display, f"partita: wrote {output}")
    content = {"placement": placement_line(plan), **report.to_dict(), "files": files}
    return Answer("compile", content, tuple(_tables(report)))


def _tables(report: Report) -> list[Table]:
    columns = (
        Column("Region", whole=True),
        Column("Backend", whole=True),
        Column("Nodes", right=True),
        Column("Compiled in", right=True, whole=True),
        Column("Weights taken", right=True, whole=True),
    )
    rows = tuple(
        (r.name, r.backend, f"{r.nodes:,}", time_text(r.seconds), byte_text(r.owned_bytes))
        for r in report.regions
    )
    fallen = tuple((f.region, f.backend, f.to, f.error) for f in report.fallbacks)
    headings = (Column("Region"), Column("Failed on"), Column("Runs on"), Column("Error"))
    summary = (
        ("compiled", f"{plural(len(report.regions), 'region')} in {time_text(report.seconds)}"),
        ("run by the host", plural(report.host_steps, "operator")),
        ("weights the program holds", byte_text(report.held_bytes)),
    )
    tables = [Table("Compiled regions", columns, rows), Table("Fell back", headings, fallen)]
    return [t for t in tables if t.rows] + [Table("", (Column("Summary"), Column("")), summary)]
