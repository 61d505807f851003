"""``partita bench``: how long a run takes, side by side with other ways of running the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partita.cli.answer import Answer
from partita.cli.compile import Strict
from partita.cli.opening import compiled, opened, planned, say_other
from partita.cli.options import Choices, Display, Feeds, ModelPath, split
from partita.errors import UsageError
from partita.reporting.quantities import time_text
from partita.reporting.tables import Column, Table

if TYPE_CHECKING:
    from partita.cli.timing import Timing
    from partita.model import Model
    from partita.partitioning.plan import Plan

ALONE = "alone"


def bench(
    model: ModelPath,
    choices: Choices,
    feeds: Feeds,
    display: Display,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Also measure a plan for these backends; 'alone' is the first backend's engine on "
            "the whole model, without partita. Repeatable. Without it: alone, if possible.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(metavar="N", help="Measured runs.", min=1)] = 100,
    warmup: Annotated[int, typer.Option(metavar="N", help="Runs before them.", min=1)] = 5,
    seconds: Annotated[
        float, typer.Option(metavar="S", help="Stop after so many seconds.", min=0)
    ] = 20.0,
    strict: Strict = False,
) -> Answer:
    """Measure runs, in turns with other ways of running the same model on the same inputs.

    Examples:
      partita bench model.onnx --backend onnxruntime --exclude-op Softmax
      partita bench model.onnx -b openvino,onnxruntime --against openvino --against onnxruntime
    """
    from partita.cli.arrays import fed
    from partita.cli.timing import interleaved
    from partita.reporting.text import placement_line

    loaded = opened(model)
    plan = planned(loaded, choices, display)
    inputs = list(fed(loaded, feeds, display).values())
    program = compiled(plan, choices, display, strict)
    ways: dict[str, Callable[[], Any]] = {"partita": lambda: program(*inputs)}
    for names in against if against is not None else [ALONE]:
        name, way = _other(loaded, plan, names, inputs, display)
        if way is not None:
            ways[name] = way
        elif against is not None:
            raise UsageError(f"--against {ALONE}: {name} does not take the whole model")
    timings = interleaved(ways, runs=runs, warmup=warmup, seconds=seconds)
    content = {
        "placement": placement_line(plan),
        "warmup": warmup,
        "configurations": [t.to_dict() for t in timings],
        "fallbacks": program.report.to_dict()["fallbacks"],
    }
    return Answer("bench", content, (_table(timings),))


def _other(
    model: Model, plan: Plan, names: str, inputs: list[Any], display: Display
) -> tuple[str, Callable[[], Any] | None]:
    """Returns the name of another way of running the model, and the way if it is possible."""
    from partita import verbs
    from partita.cli.engine_alone import engine_alone

    if names != ALONE:
        other = verbs.partition(model, split([names]))
        say_other(other, display)
        program = verbs.compile(other)
        return f"partita {names}", lambda: program(*inputs)
    if not plan.backends:
        return "no engine", None
    backend = plan.backends[0]
    call = engine_alone(verbs.partition(model, [backend]))
    return f"{backend.name} alone", None if call is None else lambda: call(*inputs)


def _table(timings: list[Timing]) -> Table:
    headings = ("First run", "Median", "p90", "p99", "Min", "Max", "Runs/s", "Runs", "of partita")
    columns = (Column("Way"), *(Column(h, right=True, whole=True) for h in headings))
    base = timings[0].median
    rows = tuple(
        (
            t.name,
            *map(time_text, (t.first, t.median, t.p90, t.p99, t.least, t.greatest)),
            f"{t.per_second:,.1f}",
            f"{t.runs:,}",
            f"{t.median / base:.3f}" if base else "-",
        )
        for t in timings
    )
    return Table("Times of one run, measured in turns", columns, rows)
