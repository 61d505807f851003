from __future__ import annotations

import numpy as np
import pytest

from partita.testing import hazard, random_model
from partita.testing.agreement import disagreement
from partita.testing.cases import (
    Case,
    of_model,
    onnx_cases,
    random_case,
    reference,
    sample,
    weighted,
    weighted_cases,
)
from partita.testing.graphs import feeds


def test_onnx_cases_hold_everything_that_onnx_tests() -> None:
    cases = onnx_cases()
    assert len(cases) > 1800
    assert all(name == case.name for name, case in cases.items())
    assert {"test_conv_with_strides_padding", "test_loop13_seq"} <= cases.keys()


def test_every_case_loads_and_keeps_its_inputs_and_outputs() -> None:
    for case in {**sample(onnx_cases()), **sample(weighted_cases())}.values():
        model = case.load()
        assert len(model.inputs) == len(case.inputs), case.name
        assert len(model.outputs) == len(case.expected()), case.name


def test_weights_are_the_inputs_after_the_first() -> None:
    case = onnx_cases()["test_gemm_all_attributes"]
    turned = weighted(case)
    assert turned is not None
    assert turned.name == "test_gemm_all_attributes:weights"
    model = turned.load()
    assert [v.name for v in model.inputs] == ["a"]
    assert list(model.parameters) == ["b", "c"]
    assert np.array_equal(model.parameters["b"].const_value.numpy(), case.inputs[1])


@pytest.mark.parametrize("name", ["test_relu", "test_if", "test_sequence_insert_at_back"])
def test_what_cannot_have_weights_stays_as_it_is(name: str) -> None:
    assert weighted(onnx_cases()[name]) is None


def test_with_weights_the_reference_says_the_same() -> None:
    for name in (
        "test_conv_with_strides_padding",
        "test_clip",
        "test_top_k",
        "test_prelu_broadcast",
    ):
        turned = weighted(onnx_cases()[name])
        assert turned is not None
        fresh = Case(name, turned.source, turned.inputs, None, turned.ops).expected()
        names = [f"output {i}" for i in range(len(fresh))]
        assert disagreement(names, fresh, turned.expected()) == ""


def test_drawn_numbers_are_known_to_be_drawn() -> None:
    cases = onnx_cases()
    assert cases["test_bernoulli_expanded"].drawn
    assert cases["test_training_dropout"].drawn
    assert not cases["test_dropout_default"].drawn


def test_inner_values_can_be_asked_of_the_reference() -> None:
    model = hazard("chain_interrupted")
    x = feeds(model)
    a, y = reference(model, x, ["a", "y"])
    assert np.array_equal(a, np.maximum(x["x"], 0))
    assert np.allclose(y, np.tanh(a))


def test_random_cases_and_models_of_ones_own_are_cases() -> None:
    assert random_case(3).name == "random/3"
    own = of_model("own/mine", random_model(3, 15), 3).expected()
    names = [f"output {i}" for i in range(len(own))]
    assert disagreement(names, own, random_case(3).expected()) == ""
    assert of_model("p", hazard("scalar").ir).ops == {"Relu", "Tanh", "Add"}
