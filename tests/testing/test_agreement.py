from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partita.testing.agreement import disagreement

NUMBERS = arrays.arrays(
    np.float32,
    arrays.array_shapes(max_dims=3, max_side=4),
    elements=st.floats(-10, 10, width=32),
)


@given(NUMBERS)
def test_equal_outputs_agree_and_moved_ones_do_not(array: np.ndarray) -> None:
    assert disagreement(["y"], [array], [array.copy()]) == ""
    assert "y" in disagreement(["y"], [array + np.float32(1)], [array])


@pytest.mark.parametrize(
    ("found", "wanted", "word"),
    [
        ([np.zeros(2)], [np.zeros(3)], "shape"),
        ([np.zeros(2, np.float32)], [np.zeros(2)], "float32"),
        ([], [np.zeros(2)], "0 outputs"),
        ([[np.zeros(2)]], [[np.zeros(2), np.zeros(2)]], "items"),
        ([None], [np.zeros(2)], "one"),
        ([np.array(["a"], object)], [np.array(["b"], object)], "text"),
        ([np.array([3])], [np.array([4])], "y"),
    ],
)
def test_a_difference_is_told(found: list, wanted: list, word: str) -> None:
    assert word in disagreement(["y"], found, wanted)


def test_tolerances_go_by_element_type() -> None:
    near = [np.array([3], np.uint8)]
    assert disagreement(["y"], near, [np.array([4], np.uint8)]) != ""
    assert disagreement(["y"], near, [np.array([4], np.uint8)], {"uint8": (0, 1)}) == ""


def test_without_numbers_types_and_ranks_still_count() -> None:
    zeros, ones = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    assert disagreement(["y"], [zeros], [ones], numbers=False) == ""
    assert disagreement(["y"], [[zeros], None], [[ones], None][:1], numbers=False) != ""
    assert disagreement(["y"], [zeros[:1]], [ones], numbers=False) == ""
    assert disagreement(["y"], [zeros[0]], [ones], numbers=False) != ""
    assert disagreement(["y"], [zeros.astype(float)], [ones], numbers=False) != ""
