from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.parser import parse_model

from partita.errors import InvalidModelError, LimitError
from partita.loading.limits import Limits
from partita.loading.skeleton import Skeleton
from partita.loading.stage import load

FLOAT = ir.TensorType(ir.DataType.FLOAT)


def weight(name, tensor):
    return ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))


def one_node(tensor, name="w"):
    """A model that adds a weight to its input."""
    x = ir.Value(name="x", type=FLOAT, shape=ir.Shape([2, "N"]))
    w = weight(name, tensor)
    node = ir.Node("", "Add", [x, w], name="add", metadata_props={"k": "v"})
    node.outputs[0].name = "y"
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[w], opset_imports={"": 17})
    return ir.Model(graph, ir_version=9, metadata_props={"m": "1"})


def test_weights_are_shared_and_the_model_is_not_edited():
    array = np.ones((2, 1), np.float32)
    source = one_node(ir.Tensor(array, name="its own name"))
    loaded = load(source)
    assert loaded.ir is not source
    assert np.shares_memory(loaded.parameters["w"].const_value.numpy(), array)
    assert loaded.graph[0].metadata_props == {"k": "v"}
    assert loaded.ir.metadata_props == {"m": "1"}
    assert source.graph.initializers["w"].const_value.name == "its own name"
    assert source.graph[0].version is None
    assert source.graph[0].outputs[0].shape is None


def test_no_byte_of_a_weight_enters_the_message():
    large = ir.Tensor(np.zeros(10**6, np.float32))
    skeleton = Skeleton(one_node(large), Limits())
    assert skeleton.proto.ByteSize() < 500


@pytest.mark.parametrize(
    "tensor",
    [
        ir.tensor(np.arange(2, dtype=np.int64)),
        ir.StringTensor([b"a", b"b"], shape=ir.Shape([2])),
        ir.PackedTensor(np.uint8([0x21]), ir.DataType.INT4, shape=[2]),
        ir.LazyTensor(lambda: ir.tensor([1.0, 2.0]), ir.DataType.FLOAT, ir.Shape([2])),
        ir.serde.TensorProtoTensor(ir.to_proto(ir.tensor([1.0, 2.0]))),
    ],
)
def test_every_kind_of_tensor_comes_through(tensor):
    found = load(one_node(tensor)).parameters["w"].const_value
    assert found.dtype == tensor.dtype
    np.testing.assert_array_equal(found.numpy(), tensor.numpy())


def test_the_same_model_by_object_and_by_file_is_the_same():
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[2] x, bool c) => (float[2] y)
      <float[2] w = {1, 2}> {
        y = If (c) <
          then_branch = t () => (float[2] o) { k = Constant <value_float = 1.0> () o = Add (x, k) },
          else_branch = e () => (float[2] o) { o = Mul (x, w) }> }"""
    proto = parse_model(text)
    assert load(ir.from_proto(proto)).hash == load(proto).hash


def test_functions_come_through():
    text = """<ir_version: 9, opset_import: ["" : 17, "f" : 1]> g (float[2] x) => (float[2] y)
      { y = f.Act <alpha = 0.5> (x) }
      <opset_import: ["" : 17], domain: "f"> Act <alpha> (a) => (b)
      { b = LeakyRelu <alpha: float = @alpha> (a) }"""
    (node,) = load(ir.from_proto(parse_model(text))).graph
    assert node.attributes["alpha"].as_float() == 0.5


def test_a_value_of_nobody_is_refused():
    stray = ir.Value(name="x")
    node = ir.Node("", "Relu", [stray], name="r")
    node.outputs[0].name = "y"
    graph = ir.Graph([], node.outputs, nodes=[node], opset_imports={"": 17})
    with pytest.raises(
        InvalidModelError, match=r"<onnx_ir.Model>: node 'r': value 'x': is read, but no node"
    ):
        load(ir.Model(graph, ir_version=9))


def test_a_weight_without_data_is_refused():
    source = one_node(ir.tensor([1.0]))
    source.graph.initializers["w"].const_value = None
    with pytest.raises(InvalidModelError, match="value 'w': is a weight without data"):
        load(source)


def test_two_values_of_one_name_in_a_graph_are_refused():
    source = one_node(ir.tensor([1.0]), name="x")
    with pytest.raises(InvalidModelError, match="'x': two values of one graph have this name"):
        load(source)


def test_an_inner_value_that_hides_an_outer_one_is_told_apart():
    """In memory, values are told apart by identity: a body may read both of one name."""
    outer = ir.Value(name="v", type=FLOAT)
    negated = ir.Node("", "Neg", [outer], outputs=[ir.Value(name="v")])
    both = ir.Node("", "Sub", [outer, negated.outputs[0]])
    both.outputs[0].name = "o"
    body = ir.Graph([], both.outputs, nodes=[negated, both])
    condition = ir.Value(name="c", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    branches = [ir.AttrGraph("then_branch", body)]
    plain = ir.Node("", "Neg", [outer])
    plain.outputs[0].name = "p"
    branches.append(ir.AttrGraph("else_branch", ir.Graph([], plain.outputs, nodes=[plain])))
    chosen = ir.Node("", "If", [condition], branches)
    chosen.outputs[0].name = "y"
    graph = ir.Graph([outer, condition], chosen.outputs, nodes=[chosen], opset_imports={"": 17})
    loaded = load(ir.Model(graph, ir_version=9))
    subtract = loaded.graph[0].attributes["then_branch"].as_graph()[1]
    assert subtract.inputs[0] is loaded.graph.inputs[0]
    assert subtract.inputs[1].producer().op_type == "Neg"


def test_endless_nesting_is_refused():
    graph = one_node(ir.tensor([1.0])).graph
    for _ in range(40):
        node = ir.Node("com.x", "Holder", [], [ir.AttrGraph("body", graph)])
        graph = ir.Graph([], node.outputs, nodes=[node], opset_imports={"": 17, "com.x": 1})
    with pytest.raises(LimitError, match="nested deeper than 32"):
        load(ir.Model(graph, ir_version=9))
