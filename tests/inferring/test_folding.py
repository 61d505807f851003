from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from partita.inferring import folding
from partita.inferring.folding import fold_constants
from partita.inferring.shapes import infer_shapes
from partita.inferring.stage import infer
from partita.loading.stage import load

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def folded(text, **options):
    return infer(load(parse_model(f"{HEAD} {text}")), **options)


CHAIN = """g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}, float[1] unread = {1}> {
  k = Constant <value_float = 2.0> ()
  a = Mul (w, k) b = Neg (a)
  y = Add (x, b) }"""


def test_constants_are_computed_and_keep_their_names():
    model = folded(CHAIN)
    assert [n.op_type for n in model.graph] == ["Add"]
    assert list(model.parameters) == ["b"]
    np.testing.assert_array_equal(model.parameters["b"].const_value.numpy(), [-2, -4, -6])
    onnx.checker.check_model(ir.to_proto(model.ir))


def test_folding_may_be_switched_off():
    model = folded(CHAIN, fold=False)
    assert [n.op_type for n in model.graph] == ["Mul", "Neg", "Add"]
    assert set(model.parameters) == {"w", "k", "unread"}


def test_folding_says_shapes_that_were_unknown():
    text = """g (float[2, 3] x) => (float[] y) <float[2] f = {3.2, 1.7}> {
      c = Ceil (f) s = Cast <to = 7> (c) p = Mul (s, s)
      y = Expand (x, r) r = Reshape (q, m) m = Constant <value_ints = [-1]> ()
      q = Min (p, three) three = Constant <value_ints = [2, 3]> () }"""
    assert str(folded(text).outputs[0].shape) == "[2,3]"


def test_random_numbers_are_never_folded():
    model = folded(
        """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
          r = RandomUniformLike (w) b = Bernoulli (w) s = Add (r, b) y = Add (x, s) }"""
    )
    assert {n.op_type for n in model.graph} == {"RandomUniformLike", "Bernoulli", "Add"}


def test_sequences_and_bodies_are_never_folded():
    model = folded(
        """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, int64 i = {0}, bool c = {1}> {
          q = SequenceConstruct (w, w) s = SequenceAt (q, i)
          p = If (c) < then_branch = t () => (float[2] o) { o = Neg (w) },
                       else_branch = e () => (float[2] o) { o = Abs (w) }>
          t = Add (s, p) y = Add (x, t) }"""
    )
    assert [n.op_type for n in model.graph] == [
        "SequenceConstruct",
        "SequenceAt",
        "If",
        "Add",
        "Add",
    ]
    branches = [len(g) for path, g in model.graphs() if path]
    assert branches == [1, 1]  # what a body returns has to be computed there


def test_constants_inside_bodies_are_folded():
    model = folded(
        """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
          y = If (c) < then_branch = t () => (float[2] o) { n = Neg (w) o = Add (x, n) },
                       else_branch = e () => (float[2] o) { o = Abs (x) }> }"""
    )
    then = model.graph[0].attributes["then_branch"].as_graph()
    assert [n.op_type for n in then] == ["Add"]
    assert then.initializers["n"].const_value.numpy().tolist() == [-1, -2]


def test_an_output_stays_computed():
    model = folded("g () => (float[2] y) <float[2] w = {1, 2}> { y = Neg (w) }")
    assert [n.op_type for n in model.graph] == ["Neg"]


def test_nodes_of_a_region_stay():
    model = load(parse_model(f"{HEAD} {CHAIN}"))
    for node in model.graph:
        node.metadata_props["partita.region"] = "mine_0"
    assert [n.op_type for n in infer(model).graph] == ["Mul", "Neg", "Add"]


BOMBS = {
    "ConstantOfShape": ([[2**20]], {}),
    "Expand": ([np.float32([1]), np.int64([2**20])], {}),
    "Tile": ([np.float32([1]), np.int64([2**20])], {}),
    "Range": ([np.int64(0), np.int64(2**20), np.int64(1)], {}),
    "Pad": ([np.float32([1]), np.int64([0, 2**20])], {}),
}


@pytest.mark.parametrize("op", BOMBS)
def test_what_would_be_large_is_not_computed(op, monkeypatch):
    def explode(*_arguments, **_options):
        raise AssertionError("it was computed")

    monkeypatch.setattr(folding, "ReferenceEvaluator", explode)
    arrays, attributes = BOMBS[op]
    names = [f"w{i}" for i in range(len(arrays))]
    weights = [
        onnx.numpy_helper.from_array(np.array(a), n) for a, n in zip(arrays, names, strict=True)
    ]
    nodes = [
        helper.make_node(op, names, ["big"], **attributes),
        helper.make_node("Identity", ["big"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = infer(load(proto))
    assert model.graph[0].op_type == op
    assert model.graph[0].outputs[0].shape[0] >= 2**20


def test_the_cap_is_on_bytes_of_one_output():
    text = (
        "g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { n = Neg (w) y = Add (x, n) }"
    )
    assert len(folded(text, folded_bytes=15).graph) == 2
    assert len(folded(text, folded_bytes=16).graph) == 1


def test_a_large_product_is_not_computed(monkeypatch):
    monkeypatch.setattr(folding, "MOST_WORK", 10_000)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [32, 32], [1.0] * 1024)
    nodes = [
        helper.make_node("MatMul", ["w", "w"], ["p"]),
        helper.make_node("Add", ["x", "p"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [32, 32])], [value("y", 1, None)], [weight]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    assert len(infer(load(proto)).graph) == 2


def test_no_more_nodes_are_folded_than_allowed(monkeypatch):
    monkeypatch.setattr(folding, "MOST_NODES", 1)
    model = load(parse_model(f"{HEAD} {CHAIN}"))
    infer_shapes(model)
    assert fold_constants(model) == 1


def test_a_fold_that_fails_stays_a_node():
    model = folded(
        """g (float[2] x) => (float[3] y) <float[2] w = {1, 2}, int64[1] i = {7}> {
          n = Gather (w, i) y = Concat <axis = 0> (x, n) }"""
    )
    assert [n.op_type for n in model.graph] == ["Gather", "Concat"]


def test_quantised_weights_stay_small():
    model = folded(
        """g (float[2] x) => (float[2] y)
        <int8[2] w = {1, 2}, float s = {0.5}, int8 z = {0}> {
          d = DequantizeLinear (w, s, z) y = Add (x, d) }"""
    )
    assert [n.op_type for n in model.graph] == ["DequantizeLinear", "Add"]


def test_folded_models_compute_the_same(node_cases):
    """Examples whose inputs become weights: folding gives what running gives."""
    checked = 0
    for case in node_cases[::3]:
        if (
            case.model.graph.node[0].op_type not in folding._FOLDED
            or len(case.model.graph.node) > 1
        ):
            continue
        inputs, outputs = case.data_sets[0]
        if not all(isinstance(a, np.ndarray) for a in (*inputs, *outputs)):
            continue
        proto = onnx.ModelProto()
        proto.CopyFrom(case.model)
        names = [i.name for i in proto.graph.input]
        weights = [onnx.numpy_helper.from_array(a, n) for a, n in zip(inputs, names, strict=True)]
        proto.graph.initializer.extend(weights)
        made = [o.name for o in proto.graph.output]
        for name in made:
            proto.graph.node.add(op_type="Identity", input=[name], output=[f"{name}_again"])
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=f"{n}_again") for n in made)
        model = infer(load(proto))
        for name, wanted in zip(made, outputs, strict=True):
            weight = model.parameters.get(name)
            if weight is not None:
                checked += 1
                np.testing.assert_allclose(
                    weight.const_value.numpy(), wanted, rtol=1e-3, atol=1e-5, err_msg=case.name
                )
        results = ReferenceEvaluator(ir.to_proto(model.ir)).run(None, {})
        assert len(results) == len(outputs)
    assert checked > 100
