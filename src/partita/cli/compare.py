"""``partita compare``: do two ways of running a model agree, and if not, who is at fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partita.cli.answer import Answer
from partita.cli.compile import Strict
from partita.cli.opening import compiled, opened, planned
from partita.cli.options import Choices, Display, Feeds, ModelPath, split
from partita.cli.terminal import say
from partita.reporting.tables import Column, Table

if TYPE_CHECKING:
    from partita.compiling.verify import Culprit
    from partita.model import Model
    from partita.partitioning.plan import Plan
    from partita.running.compare import Comparison

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
    from partita.reporting.text import placement_line

    loaded = opened(model)
    plan = planned(loaded, choices, display)
    inputs = fed(loaded, feeds, display)
    program = compiled(plan, choices, display, strict)
    reference, other = _reference(loaded, against, choices, display)
    comparison = verbs.compare(program, other, inputs, rtol=rtol, atol=atol)
    content: dict[str, Any] = {
        "placement": placement_line(plan),
        "against": against,
        **comparison.to_dict(),
        "culprit": None,
    }
    if comparison.passed:
        return Answer("compare", content, (_table(comparison),))
    folder = repro or Path(f"{model.stem}.repro")
    say(display, "partita: the outputs differ; looking for the first region that does")
    culprit = _culprit(plan, inputs, reference, folder, rtol, atol)
    if culprit is not None:
        content["culprit"] = {
            "region": culprit.region,
            "backend": culprit.backend,
            "nodes": list(culprit.nodes),
            "folder": str(culprit.folder) if culprit.folder else None,
            **culprit.comparison.to_dict(),
        }
    found = str(culprit) if culprit is not None else "every region agrees when run alone"
    failed = [o.name for o in comparison.outputs if not o.passed]
    return Answer(
        "compare",
        content,
        (_table(comparison), found),
        code=1,
        error=f"{len(failed)} of {len(comparison.outputs)} outputs differ: {', '.join(failed[:5])}",
    )


def _reference(model: Model, against: str, choices: Choices, display: Display) -> tuple[Any, Any]:
    """Returns the backend that is right (``None``: the host), and what runs the model by it."""
    from partita import verbs
    from partita.reporting.text import placement_line

    names = split([against])
    if names in ([], [HOST]):
        return None, model
    plan = verbs.partition(model, names)
    say(display, f"against {placement_line(plan)}")
    reference = plan.backends[0] if plan.backends else None
    return reference, verbs.compile(plan)


def _culprit(
    plan: Plan,
    inputs: Mapping[str, Any],
    reference: Any,
    folder: Path,
    rtol: float,
    atol: float,
) -> Culprit | None:
    from partita.compiling.verify import bisect

    arrays = list(inputs.values())
    return bisect(plan, arrays, reference=reference, rtol=rtol, atol=atol, folder=folder)


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
