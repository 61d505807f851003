"""Recorded models are read whole, and an error is relative to what was wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def _bench_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench"))


def relative_error(found: object, wanted: object) -> float:
    from recorded import relative_error

    return relative_error(np.asarray(found), np.asarray(wanted))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1), st.floats(2**-10, 0.5, width=32))
def test_error_is_relative_to_the_largest_wanted_value(values: list[float], part: float) -> None:
    wanted = np.array([*values, 1e6], np.float32)
    found = wanted.copy()
    found[-1] *= np.float32(1 + part)
    assert relative_error(found, wanted) == pytest.approx(part, rel=1e-2)
    assert relative_error(wanted, wanted) == 0


def test_error_is_infinite_where_shape_dtype_or_nan_differ() -> None:
    assert relative_error(np.zeros(2), np.zeros(3)) == float("inf")
    assert relative_error(np.zeros(2, np.float32), np.zeros(2)) == float("inf")
    assert relative_error([np.nan, 1.0], [1.0, 1.0]) == float("inf")
    assert relative_error([np.nan, 1.0], [np.nan, 1.0]) == 0
    assert relative_error([True], [False]) == float("inf")


def test_nine_light_models_have_inputs_and_outputs() -> None:
    from recorded import light_models

    found = light_models()
    assert len(found) == 9
    for model in found:
        assert [array.shape for array in model.inputs.values()] == [(1, 3, 224, 224)]
        assert [array.size for array in model.outputs.values()] == [1000]


def test_models_without_records_are_left_out(tmp_path: Path) -> None:
    from recorded import models

    (tmp_path / "alone.onnx").write_bytes(b"")
    assert models(tmp_path) == []


def test_zoo_folder_reads_in_order_of_names(zoo: Path) -> None:
    from recorded import models

    found = models(zoo)
    assert [model.name for model in found] == sorted(path.stem for path in zoo.glob("*.onnx"))
    assert all(model.inputs and model.outputs for model in found)
