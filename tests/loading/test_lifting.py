from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from partita.errors import InvalidModelError
from partita.loading.stage import load

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'
value = helper.make_tensor_value_info


@pytest.mark.parametrize(
    ("attribute", "wanted"),
    [
        ("value_float = 0.5", np.float32(0.5)),
        ("value_floats = [0.5, 2.0]", np.float32([0.5, 2])),
        ("value_int = 7", np.int64(7)),
        ("value_ints = [7, 8]", np.int64([7, 8])),
        ("value = float[2] {1, 2}", np.float32([1, 2])),
        ('value_string = "é"', np.array("é".encode(), object)),
        ('value_strings = ["a", "bc"]', np.array([b"a", b"bc"], object)),
    ],
)
def test_constants_become_weights(attribute, wanted):
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2] x) => (float y, float z) {{
              w = Constant <{attribute}> () y = Identity (w) z = Relu (x) }}"""
        )
    )
    assert [n.op_type for n in loaded.graph] == ["Identity", "Relu"]
    weight = loaded.parameters["w"]
    assert weight.producer() is None
    found = weight.const_value.numpy()
    assert found.tolist() == wanted.tolist()
    assert list(weight.shape) == list(wanted.shape)


def test_a_constant_that_is_an_output_stays_a_node():
    loaded = load(
        parse_model(
            f"{HEAD} g () => (float[2] y) {{ y = Constant <value_floats = [1.0, 2.0]> () }}"
        )
    )
    (node,) = loaded.graph
    assert node.op_type == "Constant"
    assert node.outputs[0].const_value.numpy().tolist() == [1, 2]


def test_a_constant_nobody_reads_goes():
    loaded = load(
        parse_model(
            f"{HEAD} g (float x) => (float y) {{ w = Constant <value_int = 1> () y = Relu (x) }}"
        )
    )
    assert not loaded.parameters


def test_constants_of_bodies_become_weights_of_the_body():
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2] x, bool c) => (float[2] y) {{
              y = If (c) <
                then_branch = t () => (float[2] o) {{
                  w = Constant <value_floats = [1.0, 2.0]> () o = Add (x, w) }},
                else_branch = e () => (float[2] o) {{
                  w = Constant <value_floats = [3.0, 4.0]> () o = Add (x, w) }}> }}"""
        )
    )
    weights = {
        name: v.const_value.numpy().tolist()
        for _, graph in loaded.graphs()
        for name, v in graph.initializers.items()
    }
    assert sorted(weights.values()) == [[1, 2], [3, 4]]
    assert len(weights) == 2


@pytest.mark.parametrize("attributes", [{}, {"value_int": 1, "value_float": 1.0}])
def test_a_constant_holds_exactly_one_value(attributes):
    nodes = [
        helper.make_node("Constant", [], ["w"], name="k", **attributes),
        helper.make_node("Identity", ["w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(InvalidModelError, match="node 'k': a Constant holds exactly one value"):
        load(proto)


@pytest.mark.parametrize("ir_version", [3, 9])
def test_weights_are_no_inputs(ir_version):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("w", 1, [2]), value("x", 1, [2])],
        [value("y", 1, [2])],
        [weight],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=ir_version
    )
    loaded = load(proto)
    assert [v.name for v in loaded.graph.inputs] == ["x"]
    assert list(loaded.parameters) == ["w"]
    assert not loaded.parameters["w"].is_graph_input()
    onnx.checker.check_model(ir.to_proto(loaded.ir))


def test_a_weight_of_another_type_than_its_input_is_refused():
    weight = helper.make_tensor("w", TensorProto.INT64, [2], [1, 2])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["w"], ["y"])],
        "g",
        [value("w", 1, [2])],
        [value("y", 1, [2])],
        [weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(
        InvalidModelError, match="'w': is declared FLOAT, but its stored data are INT64"
    ):
        load(proto)


def test_the_input_of_a_body_wins_over_its_default():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["cond"], ["again"]),
            helper.make_node("Add", ["v", "v"], ["w"]),
        ],
        "b",
        [value("i", 7, []), value("cond", 9, []), value("v", 1, [2])],
        [value("again", 9, []), value("w", 1, [2])],
        [helper.make_tensor("v", TensorProto.FLOAT, [2], [9, 9])],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    graph = helper.make_graph(
        [loop], "g", [value("x", 1, [2]), value("n", 7, [])], [value("y", 1, [2])]
    )
    loaded = load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    )
    inner = loaded.graph[0].attributes["body"].as_graph()
    assert not inner.initializers
    assert len(inner.inputs) == 3
    assert all(v.const_value is None for v in inner.inputs)
