from __future__ import annotations

import pytest

from partita.cli.timing import interleaved


def test_ways_are_measured_in_turns() -> None:
    calls: list[str] = []
    timings = interleaved(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, runs=3, warmup=2
    )
    assert calls == ["a", "b"] * 5
    assert [(t.name, t.runs) for t in timings] == [("a", 3), ("b", 3)]
    for t in timings:
        assert 0 <= t.least <= t.median <= t.p90 <= t.p99 <= t.greatest
        assert t.to_dict()["per_second"] == t.per_second


def test_each_way_is_measured_at_least_once() -> None:
    (timing,) = interleaved({"a": lambda: None}, runs=1000, warmup=1, seconds=0)
    assert timing.runs == 1


def test_an_error_of_a_way_comes_through() -> None:
    def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        interleaved({"a": broken}, runs=1, warmup=1)
