from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partita.backends.host import numpy_kernels, reference
from partita.backends.host.interpreter import operator
from single import floats, one_node, only_node

UNARY = (
    ("Abs", 13),
    ("Neg", 13),
    ("Sign", 13),
    ("Relu", 14),
    ("Ceil", 13),
    ("Exp", 13),
    ("Floor", 13),
    ("Log", 13),
    ("Reciprocal", 13),
    ("Round", 11),
    ("Sigmoid", 13),
    ("Softplus", 13),
    ("Sqrt", 13),
    ("Tanh", 13),
    ("IsNaN", 13),
    ("Sin", 7),
    ("Atan", 7),
)
BINARY = (
    ("Add", 14),
    ("Sub", 14),
    ("Mul", 14),
    ("Div", 14),
    ("Max", 13),
    ("Min", 13),
    ("Equal", 19),
    ("Less", 13),
    ("GreaterOrEqual", 16),
)
NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True)


def both(op: str, opset: int, given_arrays: list[Any], outputs: int = 1, **attributes: Any) -> Any:
    """Returns what the host's own kernel and the reference evaluator give, as they are."""
    node = only_node(one_node(op, opset, given_arrays, outputs, **attributes))
    assert numpy_kernels.table.why_not(node) is None
    return numpy_kernels.call(node)(*given_arrays), reference.evaluated(node)(*given_arrays)


def identical(mine: Any, theirs: Any) -> None:
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert isinstance(a, np.ndarray)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


@settings(max_examples=150)
@given(
    case=st.sampled_from(UNARY),
    x=arrays.arrays(np.float32, arrays.array_shapes(min_dims=0, min_side=0), elements=NUMBERS),
)
def test_unary_kernels_are_the_reference_bit_by_bit(case: tuple[str, int], x: Any) -> None:
    identical(*both(*case, [x]))


@settings(max_examples=150)
@given(
    case=st.sampled_from(BINARY),
    shapes=arrays.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=4),
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8]),
    data=st.data(),
)
def test_binary_kernels_are_the_reference_bit_by_bit(
    case: tuple[str, int], shapes: Any, dtype: Any, data: st.DataObject
) -> None:
    if case[0] == "Div" and np.dtype(dtype).kind != "f":
        return  # left to the reference
    a, b = (data.draw(arrays.arrays(dtype, shape)) for shape in shapes.input_shapes)
    identical(*both(*case, [a, b]))


@settings(max_examples=60)
@given(shape=arrays.array_shapes(min_dims=1, max_dims=4, max_side=4), data=st.data())
def test_movements_are_the_reference_bit_by_bit(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    x, rank = floats(*shape), len(shape)
    axis = data.draw(st.integers(-rank, rank - 1))
    order = data.draw(st.permutations(range(rank)))
    begin, end = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
    step = data.draw(st.sampled_from([-2, -1, 1, 2]))
    places = np.array(data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), max_size=3)))
    places = places.astype(np.int64)
    one = np.array
    for op, opset, given_arrays, attributes in (
        ("Transpose", 13, [x], {"perm": order}),
        ("Flatten", 13, [x], {"axis": axis}),
        ("Reshape", 14, [x, one([-1])], {}),
        ("Reshape", 14, [x, one([0, -1])], {}),
        ("Unsqueeze", 13, [x, one([axis])], {}),
        ("Concat", 13, [x, x], {"axis": axis}),
        ("Gather", 13, [x, places], {"axis": axis}),
        ("Slice", 13, [x, one([begin]), one([end]), one([axis]), one([step])], {}),
        ("Shape", 15, [x], {}),
        ("Size", 13, [x], {}),
        ("Tile", 13, [x, one([2] * rank)], {}),
        ("Expand", 13, [x, one([2, *([1] * rank)])], {}),
        ("Identity", 14, [x], {}),
    ):
        identical(*both(op, opset, given_arrays, **attributes))


@settings(max_examples=40)
@given(size=st.integers(1, 9), pieces=st.integers(1, 4), opset=st.sampled_from([13, 18]))
def test_split_is_the_reference(size: int, pieces: int, opset: int) -> None:
    x = floats(2, size)
    lengths = [size // pieces] * (pieces - 1)
    given_arrays: list[Any] = [x, np.array([*lengths, size - sum(lengths)])]
    identical(*both("Split", opset, given_arrays, pieces, axis=1))


@pytest.mark.parametrize(
    ("op", "opset", "given_arrays", "attributes"),
    [
        ("Cast", 13, [floats(3, 4) * 5], {"to": 7}),
        ("Cast", 19, [np.array([True, False])], {"to": 11}),
        ("Where", 16, [np.array([True, False]), floats(2), floats(2, seed=1)], {}),
        ("Not", 1, [np.array([True, False])], {}),
        ("And", 7, [np.array([True, False]), np.array([True])], {}),
        ("BitwiseNot", 18, [np.array([5, -3])], {}),
        ("Squeeze", 13, [floats(1, 3, 1), np.array([0, -1])], {}),
        ("Squeeze", 13, [floats(1, 3, 1)], {}),
        ("Squeeze", 11, [floats(1, 3, 1)], {"axes": [0]}),
        ("Unsqueeze", 11, [floats(3)], {"axes": [0, 2]}),
        ("GatherElements", 13, [floats(3, 3), np.array([[0, -1, 2]])], {"axis": 0}),
        ("Shape", 15, [floats(2, 3, 4)], {"start": 1, "end": -1}),
    ],
)
def test_other_kernels_are_the_reference(
    op: str, opset: int, given_arrays: list[Any], attributes: dict[str, Any]
) -> None:
    identical(*both(op, opset, given_arrays, **attributes))


def test_scalars_stay_arrays() -> None:
    for op, opset, given_arrays in (
        ("Add", 14, [np.array(1.0), np.array(2.0)]),
        ("Exp", 13, [np.array(1.0)]),
        ("Gather", 13, [floats(3), np.array(1)]),
        ("ReduceSum", 13, [floats(3)]),
    ):
        node = only_node(
            one_node(op, opset, given_arrays, keepdims=0)
            if op[0] == "R"
            else one_node(op, opset, given_arrays)
        )
        (result,) = operator(node)(*given_arrays)
        assert isinstance(result, np.ndarray)
        assert result.shape == ()
