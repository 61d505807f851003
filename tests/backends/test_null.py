from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from made import CHAIN, model_of
from partita.backends.null import NullBackend
from partita.errors import RunError
from single import floats, one_node, only_node, region_of


def test_zeros_have_the_outputs_shapes_and_dtypes() -> None:
    model = one_node("TopK", 11, [floats(4, 6), np.array([2])], outputs=2, weights=(1,))
    values, places = NullBackend().compile(region_of(model))(floats(4, 6))
    assert (values.shape, values.dtype) == ((4, 2), np.float32)
    assert (places.shape, places.dtype) == ((4, 2), np.int64)
    assert not values.any()


def test_symbolic_dimensions_are_read_off_the_inputs() -> None:
    model = one_node("Relu", 14, [floats(3, 5)], shapes={0: ["batch", 5]})
    run = NullBackend().compile(region_of(model))
    assert run(floats(7, 5))[0].shape == (7, 5)


@pytest.mark.parametrize(
    ("options", "op", "arrays", "sentence"),
    [
        ({}, "Relu", [floats(2)], None),
        ({"claims": ("Relu", "Exp")}, "Exp", [floats(2)], None),
        ({"claims": ("Relu",)}, "Exp", [floats(2)], "Exp is not among option 'claims' (Relu)"),
        ({}, "SequenceConstruct", [floats(2)], "output 'o0' is seq(tensor(float))"),
        ({}, "NonZero", [floats(2, 2)], "output 'o0' has dimension"),
    ],
)
def test_claims(options: Any, op: str, arrays: list[Any], sentence: str | None) -> None:
    refusal = NullBackend(**options).why_not(only_node(one_node(op, 18, arrays)))
    assert (refusal is None) == (sentence is None)
    assert (refusal or "").startswith(sentence or "")


def test_cost_is_launch_and_operations_and_bytes() -> None:
    region = region_of(model_of(CHAIN))
    base = NullBackend(launch=1.0, flops=1e30, bandwidth=1e30).cost(region)
    assert base == pytest.approx(1.0)
    moved = NullBackend(launch=0.0, flops=1e30, bandwidth=1.0).cost(region)
    assert moved == 5 * 2 * 6 * 4
    assert NullBackend(launch=0.0, flops=1.0, bandwidth=1e30).cost(region) > 0


def test_a_shape_that_no_array_gives_is_an_error() -> None:
    model = one_node("Relu", 14, [floats(3)], shapes={0: ["n"]})
    region = region_of(model)
    run = NullBackend().compile(region)
    with pytest.raises(RunError, match="null cannot tell the shape"):
        run()
