from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import UnknownNameError, UnsupportedModelError
from partita.model import Model
from partita.testing import chain, feeds, hazard, random_dag, random_model, residual_blocks
from partita.testing.agreement import disagreement
from partita.testing.cases import reference
from partita.testing.graphs import MOVES, SUPPORTED_OPS, UNSUPPORTED_OP
from partita.testing.hazards import HAZARDS
from partita.testing.strategies import models, structures


def values_of(model: Model) -> list[ir.Value]:
    return [
        value
        for _, graph in model.graphs()
        for value in (
            *graph.inputs,
            *graph.initializers.values(),
            *(output for node in graph for output in node.outputs),
        )
    ]


def check_names(model: Model) -> None:
    nodes = [node.name for _, graph in model.graphs() for node in graph]
    names = [value.name for value in values_of(model) if value.name]
    assert len(set(nodes)) == len(nodes)
    assert len(set(names)) == len(names)
    assert all(nodes)
    assert all(node.version for _, graph in model.graphs() for node in graph)


@given(models(1, 40))
def test_a_random_model_is_valid_and_its_names_are_unique(model: Model) -> None:
    check_names(model)
    onnx.checker.check_model(ir.to_proto(model.ir), full_check=True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_the_same_seed_gives_the_same_model(seed: int, nodes: int) -> None:
    assert random_model(seed, nodes).hash == random_model(seed, nodes).hash


@given(models(5, 30))
def test_every_value_is_finite_and_bounded(model: Model) -> None:
    inner = [v.name for node in model.graph for v in node.outputs if v.name]
    for array in reference(model, feeds(model), inner):
        assert np.all(np.abs(np.asarray(array, np.float64)) <= 100)


@pytest.mark.engine("onnxruntime")
@given(models(5, 30))
def test_two_right_engines_agree_on_a_random_model(model: Model) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        ir.to_proto(model.ir).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(None, feeds(model, 3))
    names = [str(v.name) for v in model.outputs]
    assert disagreement(names, found, reference(model, feeds(model, 3))) == ""


def test_every_move_is_drawn_and_no_other_op() -> None:
    drawn = {
        node.op_type
        for seed in range(120)
        for _, graph in random_model(seed, 30).graphs()
        for node in graph
    }
    assert set(MOVES) <= drawn


def test_a_random_model_has_what_the_brief_of_a_partitioner_fears() -> None:
    seen = [random_model(seed, 30) for seed in range(60)]
    nodes = [node for model in seen for _, graph in model.graphs() for node in graph]
    values = [value for model in seen for value in values_of(model)]
    assert any(None in node.inputs for node in nodes)
    assert any(len(node.outputs) > 2 for node in nodes)
    assert any(0 in (value.shape or ()) for value in values)
    assert any(isinstance(d, ir.SymbolicDim) for value in values for d in value.shape or ())
    assert any(len(value.uses()) > 1 and value.const_value is not None for value in values)
    assert any(not str(value.name).isidentifier() for value in values)
    assert any(len(set(node.inputs)) < len(node.inputs) for node in nodes)


@given(st.integers(0, 1000), st.sets(st.sampled_from(["float32", "int32", "int64"]), min_size=1))
def test_only_the_wanted_element_types_are_drawn(seed: int, dtypes: set[str]) -> None:
    model = random_model(
        seed, 20, dtypes=sorted(dtypes), ops=["Add", "Mul", "Neg", "Concat", "Cast", "Where"]
    )
    made = {value.dtype for node in model.graph for value in node.outputs}
    assert {str(d.numpy()) for d in made if d is not None} <= dtypes


def test_only_the_wanted_ops_are_drawn() -> None:
    model = random_model(1, 20, ops=["Relu", "MatMul"])
    assert {node.op_type for node in model.graph} == {"Relu", "MatMul"}


def test_unknown_ops_and_types_are_refused_with_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'Relu'"):
        random_model(1, ops=["Rellu"])
    with pytest.raises(UnknownNameError, match="did you mean 'float32'"):
        random_model(1, dtypes=["float23"])


@given(structures())
def test_structures_are_valid_with_all_shapes_known(model: Model) -> None:
    check_names(model)
    onnx.checker.check_model(ir.to_proto(model.ir), full_check=True)
    assert all(v.shape is not None and v.shape.is_static() for v in values_of(model))


@pytest.mark.parametrize("size", [1, 8, 10, 333])
def test_growth_models_have_as_many_nodes_as_asked(size: int) -> None:
    for model in (chain(size), random_dag(size), residual_blocks(size)):
        assert len(model.graph) == size


def test_growth_models_hold_the_share_of_unsupported_nodes_that_was_asked() -> None:
    ops = [node.op_type for node in random_dag(5000, supported=0.7, seed=4).graph]
    assert set(ops) == {*SUPPORTED_OPS, UNSUPPORTED_OP}
    assert ops.count(UNSUPPORTED_OP) == pytest.approx(1500, rel=0.1)
    blocks = [node.op_type for node in residual_blocks(800).graph]
    assert blocks.count(UNSUPPORTED_OP) == 100
    assert [n.op_type for n in chain(4).graph] == ["Relu", "Tanh", "Relu", "Tanh"]


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_valid_and_runs(name: str) -> None:
    model = hazard(name)
    check_names(model)
    onnx.checker.check_model(ir.to_proto(model.ir), full_check=True)
    assert len(reference(model, feeds(model))) == len(model.outputs)


def test_an_unknown_hazard_is_refused_with_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="'duplicate_inputs'"):
        hazard("duplicate_input")


def test_feeds_follow_types_shapes_and_sizes() -> None:
    arrays = feeds(hazard("symbolic_batch"), sizes={"n": 7})
    assert arrays["x"].shape == (7, 3)
    assert feeds(hazard("symbolic_batch"))["x"].shape == (3, 3)
    mixed = feeds(hazard("integers_and_truth"))
    assert [str(a.dtype) for a in mixed.values()] == ["int64", "int32", "bool"]
    same, other = feeds(hazard("scalar"), 1)["x"], feeds(hazard("scalar"), 2)["x"]
    assert same == feeds(hazard("scalar"), 1)["x"]
    assert same != other


def test_feeds_refuse_what_they_cannot_draw() -> None:
    text = ir.Value(name="t", type=ir.TensorType(ir.DataType.STRING), shape=ir.Shape([2]))
    graph = ir.Graph([text], [text], nodes=[], opset_imports={"": 18}, name="text")
    with pytest.raises(UnsupportedModelError, match="value 't'"):
        feeds(Model(ir.Model(graph, ir_version=10)))
