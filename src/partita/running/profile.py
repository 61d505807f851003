"""Time per step, measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from partita.errors import InputError, printable
from partita.files import write_text
from partita.running.schedule import Step
from partita.running.straight_line import Run
from partita.running.trace import chrome_trace

KEPT_RUNS = 100
"""Runs whose time stamps are kept for the trace."""


@final
@dataclass(frozen=True)
class StepTime:
    """How long one step takes.

    Attributes:
        name: Name of the region or node.
        backend: Who runs it.
        nodes: How many nodes it computes.
        seconds: Median time of one run.
        least: Shortest time.
        share: Part of the time of all steps, from 0 to 1.
    """

    name: str
    backend: str
    nodes: int
    seconds: float
    least: float
    share: float


@final
@dataclass(frozen=True)
class Profile:
    """Times of a program's steps; ``print`` shows a table.

    Attributes:
        steps: One row a step, in order of execution.
        seconds: Median time of a whole run, measured around it.
        runs: How many runs were measured.
        records: The steps themselves.
        stamps: For the runs kept: nanoseconds before the first step and after each.
    """

    steps: tuple[StepTime, ...]
    seconds: float
    runs: int
    records: tuple[Step, ...]
    stamps: tuple[tuple[int, ...], ...]

    @property
    def by_backend(self) -> dict[str, float]:
        """Seconds of one run by backend."""
        totals: dict[str, float] = {}
        for step in self.steps:
            totals[step.backend] = totals.get(step.backend, 0.0) + step.seconds
        return totals

    def __str__(self) -> str:
        width = max([4, *(len(_short(s.name)) for s in self.steps)])
        backend = max([7, *(len(s.backend) for s in self.steps)])
        lines = [f"{'step':<{width}}  {'backend':<{backend}}  nodes    median       least  share"]
        lines += [
            f"{_short(s.name):<{width}}  {s.backend:<{backend}}  {s.nodes:5d}  "
            f"{_time(s.seconds)}  {_time(s.least)}  {s.share:5.1%}"
            for s in self.steps
        ]
        totals = ", ".join(f"{name} {_time(t).strip()}" for name, t in self.by_backend.items())
        lines.append(
            f"one run {_time(self.seconds).strip()} (median of {self.runs}); {totals or 'no steps'}"
        )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as plain data for JSON; times are in seconds."""
        return {
            "seconds": self.seconds,
            "runs": self.runs,
            "steps": [asdict(step) for step in self.steps],
            "backends": self.by_backend,
        }

    def save_trace(self, path: str | Path) -> Path:
        """Writes a Chrome trace, whole or not at all; open it in Perfetto or ``chrome://tracing``."""
        write_text(path, chrome_trace(self.records, self.stamps))
        return Path(path)


def measured(
    steps: tuple[Step, ...], timed: Run, arrays: Sequence[Any], runs: int, warmup: int
) -> Profile:
    """Returns the profile of a timed function; see ``straight_line(timed=True)``."""
    if runs < 1:
        raise InputError(f"a profile of {runs} runs is asked for; it needs at least one")
    for _ in range(warmup):
        timed(*arrays)
    stamps: list[tuple[int, ...]] = []
    totals: list[int] = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        _, marks = timed(*arrays)
        totals.append(time.perf_counter_ns() - start)
        stamps.append(tuple(marks))
    return Profile(
        steps=_step_times(steps, stamps),
        seconds=statistics.median(totals) / 1e9,
        runs=runs,
        records=steps,
        stamps=tuple(stamps[-KEPT_RUNS:]),
    )


def _step_times(steps: tuple[Step, ...], stamps: list[tuple[int, ...]]) -> tuple[StepTime, ...]:
    spans = [[marks[i + 1] - marks[i] for marks in stamps] for i in range(len(steps))]
    medians = [statistics.median(span) for span in spans]
    whole = sum(medians) or 1
    return tuple(
        StepTime(
            step.name, step.backend, len(step.nodes), median / 1e9, min(span) / 1e9, median / whole
        )
        for step, span, median in zip(steps, spans, medians, strict=True)
    )


def _short(name: str) -> str:
    return printable(name, 48)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:8.1f} µs"
    return f"{seconds * 1e3:8.2f} ms"
