from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from partita.inferring.costs import node_cost, value_bytes
from partita.inferring.stage import infer
from partita.loading.stage import load

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"

PUBLISHED = {
    "light_vgg19": 19.6,
    "light_resnet50": 4.1,
    "light_densenet121": 2.87,
    "light_inception_v2": 2.0,
    "light_inception_v1": 1.5,
    "light_bvlc_alexnet": 0.66,
    "light_squeezenet": 0.36,
    "light_shufflenet": 0.14,
}
"""Billion multiply-adds of one image, as papers and model zoos give them (AlexNet: at 224)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_operations_of_known_networks(name):
    model = infer(load(LIGHT / f"{name}.onnx"))
    flops = [node_cost(node).flops for node in model.graph]
    assert sum(flops) / 2e9 == pytest.approx(PUBLISHED[name], rel=0.05)


def cost(op, shapes, outputs=1, opset=17, dtype=1, domain="", **attributes):
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(n, dtype, s) for n, s in zip(names, shapes, strict=True)
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in made])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.x", 1)]
    model = infer(load(helper.make_model(graph, opset_imports=imports, ir_version=10)))
    return node_cost(model.graph[0])


ANALYTIC = [
    ("MatMul", [[2, 8, 16], [16, 4]], {}, 2 * 2 * 8 * 4 * 16),
    ("MatMul", [[16], [16]], {}, 2 * 16),
    ("Gemm", [[8, 16], [16, 4], [4]], {}, 2 * 8 * 4 * 16 + 32),
    ("Gemm", [[16, 8], [16, 4]], {"transA": 1}, 2 * 8 * 4 * 16),
    ("Conv", [[1, 4, 8, 8], [6, 4, 3, 3]], {}, 2 * (6 * 6 * 6) * 4 * 9),
    ("Conv", [[1, 4, 8, 8], [4, 1, 3, 3]], {"group": 4}, 2 * (4 * 6 * 6) * 9),
    ("ConvTranspose", [[1, 4, 8], [4, 6, 3]], {}, 2 * 4 * 8 * 6 * 3),
    ("Relu", [[3, 5]], {}, 15),
    ("Add", [[3, 5], [5]], {}, 15),
    ("ReduceSum", [[3, 5]], {}, 15),
    ("Reshape", [[3, 5], [2]], {"dtype": 7}, 0),
    ("Transpose", [[3, 5]], {}, 0),
    ("MaxPool", [[1, 2, 8]], {"kernel_shape": [2], "strides": [2]}, 2 * 4 * 2),
    ("GlobalAveragePool", [[1, 2, 8]], {}, 16),
    ("Einsum", [[3, 4], [4, 5]], {"equation": "ij,jk->ik"}, 2 * 3 * 4 * 5),
    (
        "LSTM",
        [[7, 2, 4], [1, 12, 4], [1, 12, 3]],
        {"hidden_size": 3, "outputs": 3},
        14 * (2 * 48 + 2 * 36 + 4 * 4 * 3),
    ),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "wanted"), ANALYTIC)
def test_operations_of_one_node(op, shapes, attributes, wanted):
    assert cost(op, shapes, **attributes).flops == wanted


def test_bytes_are_those_of_inputs_and_outputs():
    found = cost("Add", [[3, 5], [5]])
    assert (found.bytes_read, found.bytes_written) == (4 * 20, 4 * 15)
    half = cost("Relu", [[7]], dtype=10)
    assert (half.bytes_read, half.bytes_written) == (14, 14)


@pytest.mark.parametrize(
    ("dtype", "count", "wanted"),
    [
        (ir.DataType.INT4, 3, 2),
        (ir.DataType.UINT2, 5, 2),
        (ir.DataType.FLOAT6E2M3, 3, 3),
        (ir.DataType.BFLOAT16, 3, 6),
        (ir.DataType.BOOL, 3, 3),
        (ir.DataType.COMPLEX128, 3, 48),
        (ir.DataType.STRING, 3, None),
    ],
)
def test_bytes_of_small_types_are_rounded_up(dtype, count, wanted):
    value = ir.Value(name="v", type=ir.TensorType(dtype), shape=ir.Shape([count]))
    assert value_bytes(value) == wanted


def test_bytes_of_sequences_and_open_shapes_are_unknown():
    kind = ir.TensorType(ir.DataType.FLOAT)
    assert value_bytes(ir.Value(type=ir.SequenceType(kind), shape=ir.Shape([2]))) is None
    assert value_bytes(ir.Value(type=kind, shape=ir.Shape(["N"]))) is None
    assert value_bytes(ir.Value(type=kind)) is None
    assert value_bytes(ir.Value(shape=ir.Shape([2]))) is None


def test_unknown_shapes_and_custom_ops_cost_unknown():
    assert cost("Relu", [["N", 3]]).flops is None
    assert cost("MatMul", [["N", 3], [3, 4]]).flops is None
    custom = cost("Foo", [[3]], domain="com.x")
    assert (custom.flops, custom.bytes_read, custom.bytes_written) == (None, 12, None)


def test_ranks_that_do_not_fit_cost_unknown():
    found = cost("Attention", [[2], [2], [2]], opset=24, q_num_heads=1, kv_num_heads=1)
    assert found.flops is None


def branch(factor):
    nodes = [helper.make_node("MatMul", ["x", "x"], [f"m{factor}"])]
    nodes += [helper.make_node("Relu", [f"m{factor}"], [f"o{factor}"])] * 1
    if factor == 2:
        nodes.insert(1, helper.make_node("MatMul", ["m2", "x"], ["n"]))
        nodes[-1].input[0] = "n"
    return helper.make_graph(nodes, "b", [], [onnx.ValueInfoProto(name=f"o{factor}")])


def test_the_dearer_branch_and_what_it_reads_count():
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [value("x", 1, [4, 4]), value("c", 9, [])], [value("y", 1, [4, 4])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    found = node_cost(infer(load(proto)).graph[0])
    assert found.flops == 2 * (2 * 64) + 16
    assert found.bytes_read == 1 + 64
