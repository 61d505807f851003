from __future__ import annotations

import json
import math

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partita.errors import InputError, MismatchError
from partita.model import Model
from partita.running.compare import compare, compare_outputs

NUMBERS = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
    elements=st.floats(-1e3, 1e3, width=32),
)


@given(NUMBERS, st.data())
def test_the_smallest_tolerances_pass_and_smaller_ones_do_not(wanted, data) -> None:
    noise = data.draw(arrays.arrays(np.float32, wanted.shape, elements=st.floats(-1, 1, width=32)))
    found = (wanted + noise).astype(np.float32)
    (row,) = compare_outputs(["y"], [found], [wanted], rtol=0, atol=0).outputs
    gap = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    assert row.max_absolute == gap.max(initial=0)
    loose = np.nextafter(row.max_absolute, np.inf)
    assert compare_outputs(["y"], [found], [wanted], rtol=0, atol=loose)
    if row.max_absolute > 0:
        assert not compare_outputs(["y"], [found], [wanted], rtol=0, atol=row.max_absolute * 0.999)
    if math.isfinite(row.max_relative):
        assert compare_outputs(["y"], [found], [wanted], rtol=row.max_relative * 1.001, atol=0)
        if row.max_relative > 0:
            tight = row.max_relative * 0.999
            assert not compare_outputs(["y"], [found], [wanted], rtol=tight, atol=0)


@given(NUMBERS)
def test_the_same_arrays_are_equal_within_nothing(array) -> None:
    assert compare_outputs(["y"], [array], [array.copy()], rtol=0, atol=0).passed


@pytest.mark.parametrize(
    ("found", "wanted", "problem"),
    [
        (np.float32([1]), np.float64([1]), "float32, float64 wanted"),
        (np.float32([1]), np.float32([[1]]), r"shape (1,), (1, 1) wanted"),
        (np.float32([np.nan]), np.float32([1]), "NaN or infinity on one side only"),
        (np.float32([np.inf]), np.float32([-np.inf]), "NaN or infinity on one side only"),
        (np.array(["a"], object), np.array(["b"], object), "texts differ"),
        ([np.float32([1])], [], "1 items, 0 wanted"),
        (None, np.float32([1]), "only one side has a value"),
        ({"a": np.float32(1)}, {"b": np.float32(1)}, "the keys differ"),
    ],
)
def test_what_no_tolerance_mends_is_said(found, wanted, problem) -> None:
    comparison = compare_outputs(["y"], [found], [wanted], rtol=1e9, atol=1e9)
    assert not comparison
    assert comparison.outputs[0].problem == problem
    assert comparison.outputs[0].max_absolute == math.inf
    assert json.loads(json.dumps(comparison.to_dict()))["outputs"][0]["max_absolute"] is None


@pytest.mark.parametrize(
    "value",
    [
        np.float32([np.nan, np.inf, -np.inf, 1]),
        np.array([2**63 - 1, -(2**63)]),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array(["a", "b"], object),
        np.array([1, 2], ml_dtypes.bfloat16),
        np.array([1, 2], ml_dtypes.int4),
        [np.float32([1]), np.float32([])],
        None,
        {1: np.float32(2)},
    ],
)
def test_equal_values_of_every_kind_pass(value) -> None:
    assert compare_outputs(["y"], [value], [value], rtol=0, atol=0)


def test_integers_beyond_float64_are_told_apart() -> None:
    found, wanted = np.array([2**62 + 1]), np.array([2**62])
    assert not compare_outputs(["y"], [found], [wanted], rtol=0, atol=0)


def test_text_objects_and_numpy_text_are_the_same() -> None:
    assert compare_outputs(["y"], [np.array(["a"])], [np.array(["a"], object)])


def test_another_number_of_outputs_fails() -> None:
    assert compare_outputs(["y"], [1, 2], [1]).outputs[0].problem == "2 outputs, 1 wanted"


def test_differing_elements_are_counted_and_printed() -> None:
    found, wanted = np.float32([1, 2, 3]), np.float32([1, 2.5, 4])
    comparison = compare_outputs(["y\n"], [found], [wanted], rtol=0, atol=0.5)
    text = str(comparison)
    assert "NOT equal within rtol 0, atol 0.5" in text
    assert "y\\x0a: DIFFERS; passes with atol 1 (rtol 0) or rtol 0.25 (atol 0)" in text
    assert "1 of 3 elements outside" in text
    with pytest.raises(MismatchError, match="DIFFERS"):
        comparison.require()


def negation() -> Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    node = ir.Node("", "Neg", [x], name="neg", version=17)
    node.outputs[0].name = "y"
    node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([2])
    graph = ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 17})
    return Model(ir.Model(graph, ir_version=10))


def test_a_model_is_the_host_and_names_its_outputs() -> None:
    model = negation()
    good = compare(lambda x: [-x], model, {"x": np.float32([1, 2])})
    assert good
    assert good.outputs[0].name == "y"
    assert not compare(lambda x: [x], model, [np.float32([1, 2])])
    assert compare(lambda x: [-x], model)


def test_inputs_by_name_are_checked() -> None:
    with pytest.raises(InputError, match="no input is named 'X'"):
        compare(lambda x: [x], negation(), {"X": np.float32([1, 2])})
    with pytest.raises(InputError, match="input 'x' is missing"):
        compare(lambda x: [x], negation(), {})
    with pytest.raises(InputError, match="give a sequence"):
        compare(lambda x: [x], lambda x: [x], {"x": 1})
    with pytest.raises(InputError, match="only a plan or a model"):
        compare(lambda x: [x], lambda x: [x])
