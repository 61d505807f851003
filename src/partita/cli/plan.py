"""``partita plan``: where every node would go and why; nothing is compiled."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partita.cli.answer import Answer
from partita.cli.opening import coverage_text, opened, require_folder, unchecked_plan
from partita.cli.options import Choices, Display, ModelPath
from partita.cli.terminal import say

if TYPE_CHECKING:
    from partita.partitioning.plan import Plan, PlanDiff
    from partita.reporting.tables import Table


def plan(
    model: ModelPath,
    choices: Choices,
    display: Display,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", help="Write the plan file."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE.html", help="Write a report.")
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option("--apply", metavar="FILE.onnx", help="Write the partitioned model."),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            "--diff",
            metavar="OLD.json",
            help="Show what changes from this plan file.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> Answer:
    """Cut a model into regions and show where every node goes and why.

    Examples:
      partita plan model.onnx --backend openvino,onnxruntime --exclude-op Softmax
      partita plan model.onnx -b onnxruntime -o model.plan.json --html model.html
      partita plan model.onnx --plan model.plan.json --apply partitioned.onnx
    """
    from partita.partitioning.plan_file import to_json
    from partita.reporting.advice import advice, advice_table
    from partita.reporting.text import TABLE_ROWS, placement_line, plan_tables

    require_folder(output, html, apply)
    made = unchecked_plan(opened(model), choices, display)
    changes = _changes(diff, made)
    written = _written(made, output, html, apply)
    for path in written:
        say(display, f"partita: wrote {path}")
    unmet = choices.require_full_coverage and bool(made.host)
    content: dict[str, Any] = {"placement": placement_line(made), "plan": to_json(made)}
    content["mismatches"] = list(made.mismatches)
    if changes is not None:
        content["diff"] = {**dataclasses.asdict(changes), "changed": bool(changes)}
    helpful = advice(made)
    content["advice"] = [dataclasses.asdict(a) for a in helpful]
    body = plan_tables(made, None if display.verbose else TABLE_ROWS)
    if helpful:
        body.append(advice_table(helpful))
    return Answer(
        "plan",
        {**content, "files": [str(path) for path in written]},
        (*body, *([_diff_table(changes)] if changes is not None else [])),
        code=1 if unmet else 0,
        error=coverage_text(made) if unmet else "",
    )


def _changes(old: Path | None, new: Plan) -> PlanDiff | None:
    from partita import verbs

    return None if old is None else verbs.load_plan(old).diff(new)


def _written(made: Plan, output: Path | None, html: Path | None, apply: Path | None) -> list[Path]:
    from partita.files import write_text
    from partita.reporting.html import report_html

    written: list[Path] = []
    if output is not None:
        written.append(made.save(output))
    if html is not None:
        write_text(html, report_html(made, _command()))
        written.append(html)
    if apply is not None:
        written.append(made.apply().save(apply))
    return written


def _command() -> str:
    """Returns the command as typed, for the report; nothing when called from elsewhere."""
    is_command = Path(sys.argv[0]).stem in ("partita", "__main__")
    return shlex.join(["partita", *sys.argv[1:]]) if is_command else ""


def _diff_table(changes: PlanDiff) -> Table:
    from partita.reporting.tables import Column, Table

    first, *lines = str(changes).split("\n")
    rows = tuple((line.strip(),) for line in lines) or (("nothing moves",),)
    return Table(f"Changes: {first}", (Column("Node"),), rows)
