"""Outputs are judged and ratios summed up as the README of the folder says."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench"))
    import engines

    return engines


GOOD, OTHER, SHORT = [np.ones(3, np.float32)], [np.zeros(3, np.float32)], [np.ones(2, np.float32)]


@pytest.mark.parametrize(
    ("found", "raw", "recorded", "equal"),
    [
        (GOOD, GOOD, GOOD, True),
        (GOOD, OTHER, GOOD, True),
        (GOOD, GOOD, SHORT, True),
        (OTHER, GOOD, GOOD, False),
        (SHORT, GOOD, GOOD, False),
    ],
)
def test_outputs_are_equal_to_the_recorded_or_to_the_raw_ones(
    engines: ModuleType, found: Any, raw: Any, recorded: Any, equal: bool
) -> None:
    assert engines.checked(found, raw, recorded)["equal"] is equal


def test_a_lost_output_is_an_error(engines: ModuleType) -> None:
    with pytest.raises(ValueError, match="longer"):
        engines.checked([], GOOD, GOOD)


def test_ratio_is_the_median_of_the_rounds(engines: ModuleType) -> None:
    times = {"raw": [[1.0], [2.0], [4.0]], "partita": [[1.1], [2.0, 9.0, 2.0], [8.0]]}
    record = engines.compared(times)
    assert (record["ratio"], record["rounds"], record["raw_ms"]) == (1.1, 3, 2000.0)
    assert record["own_us"] == pytest.approx(1e5)


def test_summary_counts_whole_models_above_one_millisecond(engines: ModuleType) -> None:
    base = {"state": "measured", "equal": True, "whole": True, "raw_ms": 5.0, "own_us": 1.0}
    records = [
        base | {"model": "a", "ratio": 1.21},
        base | {"model": "b", "ratio": 1.0},
        base | {"model": "short", "ratio": 9.0, "raw_ms": 0.5},
        base | {"model": "cut", "ratio": 9.0, "whole": False},
        base | {"model": "wrong", "ratio": 1.1, "equal": False},
        {"model": "broken", "state": "failed"},
    ]
    summary = engines.summed(records)
    assert summary["over_1_ms"] == 3
    assert summary["geometric_mean"] == pytest.approx(1.1, abs=1e-3)
    assert (summary["max_ratio"], summary["max_model"]) == (1.21, "a")
    assert (summary["failed"], summary["not_equal"], summary["not_whole"]) == (
        ["broken"],
        ["wrong"],
        ["cut"],
    )
