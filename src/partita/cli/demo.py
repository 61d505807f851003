"""``partita demo``: the main job on real data, in a few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from partita.cli.answer import Answer
from partita.cli.options import Display
from partita.cli.terminal import say
from partita.errors import BackendUnavailableError
from partita.reporting.quantities import time_text
from partita.reporting.tables import Column, Table

if TYPE_CHECKING:
    from partita.cli.timing import Timing

ENGINE = "onnxruntime"
EXCLUDED = "Softmax"
RUNS = 50


def demo(display: Display) -> Answer:
    """Partition a small digit classifier, run it both ways on held-out images, and compare.

    The images are scikit-learn's hand-written digits; nothing is downloaded.
    """
    from partita import verbs
    from partita.cli import digits
    from partita.cli.engine_alone import engine_alone
    from partita.cli.timing import interleaved
    from partita.partitioning.plan_file import to_json
    from partita.reporting.text import placement_line, plan_tables

    images, labels = digits.held_out()
    path = digits.model_path()
    model = verbs.load(str(path))
    original = engine_alone(verbs.partition(model, [ENGINE]))
    if original is None:
        raise BackendUnavailableError(f"the installed {ENGINE} does not take the whole demo model")
    plan = verbs.partition(model, [ENGINE], excluded_ops=[EXCLUDED])
    say(display, placement_line(plan))
    program = verbs.compile(plan)
    (wanted,), (found,) = original(images), program(images)
    difference = float(np.max(np.abs(np.asarray(wanted) - np.asarray(found))))
    names = (f"{ENGINE} alone", "partita")
    ways = {names[0]: lambda: original(images), names[1]: lambda: program(images)}
    timings = interleaved(ways, runs=RUNS, warmup=3)
    correct = [_correct(wanted, labels), _correct(found, labels)]
    content: dict[str, Any] = {
        "model": str(path),
        "images": len(labels),
        "placement": placement_line(plan),
        "accuracy": {n: c / len(labels) for n, c in zip(names, correct, strict=True)},
        "same_predictions": bool(np.array_equal(np.argmax(wanted, 1), np.argmax(found, 1))),
        "largest_difference": difference,
        "times": [t.to_dict() for t in timings],
        "plan": to_json(plan),
    }
    head = f"{path.name}: a classifier of hand-written digits; {EXCLUDED} is kept from {ENGINE}"
    table = _table(correct, len(labels), difference, timings)
    same = content["same_predictions"]
    return Answer(
        "demo",
        content,
        (head, *plan_tables(plan), table),
        code=0 if same else 1,
        error="" if same else "the partitioned model predicts something else",
    )


def _correct(scores: Any, labels: np.ndarray[Any, Any]) -> int:
    return int(np.sum(np.argmax(scores, axis=1) == labels))


def _table(correct: list[int], total: int, difference: float, timings: list[Timing]) -> Table:
    columns = (
        Column("Held-out images", whole=True),
        Column("Correct", right=True, whole=True),
        Column("Accuracy", right=True),
        Column(f"Time for all {total:,}", right=True, whole=True),
    )
    rows = tuple(
        (t.name, f"{c:,} of {total:,}", f"{c / total:.4f}", time_text(t.median))
        for t, c in zip(timings, correct, strict=True)
    )
    note = f"largest difference of an output: {difference:.3g}; times are medians of {RUNS} runs"
    return Table("Original and partitioned", columns, rows, note)
