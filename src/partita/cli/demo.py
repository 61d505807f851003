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
EXCLUDED = "Add"
"""Kept from the engine, so that there is something to see: residual connections go to the host."""
RUNS, SECONDS = 50, 2.0
"""Measured runs of each way, or fewer once this time is over."""


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
    ways = {f"{ENGINE} alone": lambda: original(images), "partita": lambda: program(images)}
    scores = [np.asarray(way()[0]) for way in ways.values()]
    outcome = _outcome(scores, labels, interleaved(ways, runs=RUNS, warmup=2, seconds=SECONDS))
    content = {"model": str(path), "placement": placement_line(plan), **outcome}
    head = f"{path.name}: a classifier of hand-written digits; {EXCLUDED} is kept from {ENGINE}"
    same = outcome["same_predictions"]
    return Answer(
        "demo",
        {**content, "plan": to_json(plan)},
        (head, *plan_tables(plan), _table(outcome)),
        code=0 if same else 1,
        error="" if same else "the partitioned model predicts something else",
    )


def _outcome(
    scores: list[np.ndarray[Any, Any]], labels: np.ndarray[Any, Any], timings: list[Timing]
) -> dict[str, Any]:
    """Returns how both ways did on the images: what is right, what differs, how long it took."""
    first, second = scores
    guesses = [np.argmax(table, axis=1) for table in scores]
    return {
        "images": len(labels),
        "correct": {
            t.name: int(np.sum(guess == labels)) for t, guess in zip(timings, guesses, strict=True)
        },
        "same_predictions": bool(np.array_equal(*guesses)),
        "largest_difference": float(np.max(np.abs(first - second))),
        "times": [t.to_dict() for t in timings],
    }


def _table(outcome: dict[str, Any]) -> Table:
    total: int = outcome["images"]
    columns = (
        Column("Held-out images", whole=True),
        Column("Correct", right=True, whole=True),
        Column("Accuracy", right=True),
        Column(f"Time for all {total:,}", right=True, whole=True),
    )
    rows = tuple(
        (
            times["name"],
            f"{outcome['correct'][times['name']]:,} of {total:,}",
            f"{outcome['correct'][times['name']] / total:.4f}",
            time_text(times["median"]),
        )
        for times in outcome["times"]
    )
    note = f"largest difference of an output: {outcome['largest_difference']:.3g}"
    note += f"; times: medians of {outcome['times'][0]['runs']} runs, in turns"
    return Table("Original and partitioned", columns, rows, note)
