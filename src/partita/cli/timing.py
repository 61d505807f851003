"""Times of several ways of doing the same thing, taken in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class Timing:
    """How long one way takes; all in seconds.

    Attributes:
        name: The way.
        runs: How many runs were measured.
        first: The very first run, before any warm-up.
        median: Median of the measured runs.
        p90: 90th percentile.
        p99: 99th percentile.
        least: Shortest run.
        greatest: Longest run.
    """

    name: str
    runs: int
    first: float
    median: float
    p90: float
    p99: float
    least: float
    greatest: float

    @property
    def per_second(self) -> float:
        """Runs in one second, at the median."""
        return 1 / self.median if self.median else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as plain data for JSON; times are in seconds."""
        return {**asdict(self), "per_second": self.per_second}


def interleaved(
    ways: Mapping[str, Callable[[], Any]], *, runs: int, warmup: int, seconds: float | None = None
) -> list[Timing]:
    """Measures several ways in turns, so that a busy moment of the machine strikes all alike.

    Args:
        ways: What to call, by name.
        runs: Measured runs of each way.
        warmup: Runs before them that do not count; the very first run is one of them.
        seconds: Stop early once measuring took this long (at least one run of each counts).
    """
    clock = time.perf_counter
    first = {name: _once(way, clock) for name, way in ways.items()}
    for _ in range(warmup - 1):
        for way in ways.values():
            way()
    spans: dict[str, list[float]] = {name: [] for name in ways}
    end = None if seconds is None else clock() + seconds
    for _ in range(max(runs, 1)):
        for name, way in ways.items():
            spans[name].append(_once(way, clock))
        if end is not None and clock() > end:
            break
    return [_timing(name, first[name], spans[name]) for name in ways]


def _once(way: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    way()
    return clock() - start


def _timing(name: str, first: float, spans: list[float]) -> Timing:
    median, p90, p99 = (float(v) for v in np.percentile(spans, (50, 90, 99)))
    return Timing(name, len(spans), first, median, p90, p99, min(spans), max(spans))
