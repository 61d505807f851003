from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import AttributeProto, helper

from partita.errors import InvalidModelError, UnsupportedModelError
from partita.loading.stage import load

IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("com.x", 1)]


def model(attribute: AttributeProto, op_type="Foo", domain="com.x", inputs=("x",)):
    value = helper.make_tensor_value_info
    node = helper.make_node(op_type, list(inputs), ["y"], domain=domain, name="n")
    node.attribute.append(attribute)
    outputs = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "g", [value("x", 1, [2])], outputs)
    return helper.make_model(graph, opset_imports=IMPORTS, ir_version=9)


def attribute(**fields) -> AttributeProto:
    return AttributeProto(name="a", **fields)


VALUES = [
    (attribute(type=AttributeProto.INT, i=3), 3),
    (attribute(type=AttributeProto.FLOAT, f=0.5), 0.5),
    (attribute(type=AttributeProto.STRING, s="é".encode()), "é"),
    (attribute(type=AttributeProto.STRING, s=b"\xff\0"), b"\xff\0"),
    (attribute(type=AttributeProto.INTS, ints=[1, 2]), (1, 2)),
    (attribute(type=AttributeProto.INTS), ()),
    (attribute(type=AttributeProto.FLOATS, floats=[1, 2]), (1.0, 2.0)),
    (attribute(type=AttributeProto.STRINGS, strings=[b"a", b""]), ("a", "")),
]


@pytest.mark.parametrize(("proto", "wanted"), VALUES)
def test_attributes_keep_their_values(proto, wanted):
    (node,) = load(model(proto)).graph
    assert node.attributes["a"].value == wanted


def test_types_and_lists_of_tensors_are_read():
    kind = helper.make_tensor_type_proto(1, [2, "N"])
    (node,) = load(model(attribute(type=AttributeProto.TYPE_PROTO, tp=kind))).graph
    assert node.attributes["a"].value == ir.TypeAndShape(
        ir.TensorType(ir.DataType.FLOAT), ir.Shape([2, "N"])
    )
    tensors = [helper.make_tensor("", 1, [1], [i]) for i in (1, 2)]
    (node,) = load(model(attribute(type=AttributeProto.TENSORS, tensors=tensors))).graph
    assert [t.numpy().item() for t in node.attributes["a"].as_tensors()] == [1, 2]


FAULTS = [
    (attribute(), "attribute 'a' has no type"),
    (attribute(type=AttributeProto.TENSOR), "attribute 'a' is of type TENSOR, but holds none"),
    (attribute(type=AttributeProto.GRAPH), "attribute 'a' is of type GRAPH, but holds none"),
    (
        attribute(type=AttributeProto.STRINGS, strings=[b"\xff"]),
        r"attribute 'a' is not UTF-8: b'\\xff'",
    ),
    (
        attribute(type=AttributeProto.INT, g=onnx.GraphProto(output=[onnx.ValueInfoProto()])),
        "holds a graph but is not of type GRAPH",
    ),
]


@pytest.mark.parametrize(("proto", "words"), FAULTS)
def test_attributes_that_hold_nothing_legal_are_refused(proto, words):
    with pytest.raises(InvalidModelError, match=f"node 'n': .*{words}"):
        load(model(proto))


def test_text_of_a_standard_op_must_be_text():
    proto = AttributeProto(name="auto_pad", type=AttributeProto.STRING, s=b"\xff")
    with pytest.raises(InvalidModelError, match="attribute 'auto_pad' is not UTF-8"):
        load(model(proto, "Conv", "", ("x", "x")))


def sparse_value() -> onnx.SparseTensorProto:
    values = helper.make_tensor("", 1, [1], [5.0])
    indices = helper.make_tensor("", onnx.TensorProto.INT64, [1], [1])
    return helper.make_sparse_tensor(values, indices, [3])


def test_a_sparse_constant_becomes_a_dense_weight():
    value = helper.make_tensor_value_info
    constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse_value())
    add = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([constant, add], "g", [value("x", 1, [3])], [value("y", 1, [3])])
    loaded = load(helper.make_model(graph, opset_imports=IMPORTS, ir_version=9))
    np.testing.assert_array_equal(loaded.parameters["w"].const_value.numpy(), [0, 5, 0])


def test_a_sparse_weight_becomes_a_dense_one():
    value = helper.make_tensor_value_info
    add = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([add], "g", [value("x", 1, [3])], [value("y", 1, [3])])
    graph.sparse_initializer.append(sparse_value())
    graph.sparse_initializer[0].values.name = "w"
    loaded = load(helper.make_model(graph, opset_imports=IMPORTS, ir_version=9))
    np.testing.assert_array_equal(loaded.parameters["w"].const_value.numpy(), [0, 5, 0])


def test_sparse_attributes_of_other_ops_are_refused():
    proto = attribute(type=AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse_value())
    with pytest.raises(UnsupportedModelError, match="attribute 'a' holds a sparse tensor"):
        load(model(proto))
