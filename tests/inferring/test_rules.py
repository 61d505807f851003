"""Rules against the operators' own examples, and against onnx's inference in C++."""

from __future__ import annotations

import copy
import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from partita.inferring.rules import RULES
from partita.inferring.stage import infer
from partita.loading.stage import load
from partita.ops import schemas

WITHOUT_A_RULE = {
    ("", "RandomNormalLike"): False,
    ("ai.onnx.ml", "CastMap"): "its input is a map",
    ("ai.onnx.ml", "DictVectorizer"): "its input is a map",
    ("ai.onnx.ml", "ZipMap"): "its output is a map",
    ("ai.onnx.preview.training", "Gradient"): "differentiates another part of the graph",
}


def test_every_operator_has_a_rule():
    lacking = {
        (domain, op)
        for domain in schemas.known_domains()
        for op in schemas.known_ops(domain)
        if (domain, op) not in RULES
    }
    assert lacking == {key for key, reason in WITHOUT_A_RULE.items() if reason}


def outcome(array):
    if isinstance(array, onnx.TensorProto):
        return list(array.dims), array.data_type
    if isinstance(array, np.ndarray):
        return list(array.shape), int(ir.DataType.from_numpy(array.dtype))
    return None


def told(value):
    return None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]


def test_no_rule_contradicts_an_example(node_cases):
    """Every example's output has the inferred type and shape, where the file declares neither."""
    wrong, exact, partial = [], 0, 0
    for case in node_cases:
        proto = copy.deepcopy(case.model)
        declared = [copy.deepcopy(o.type) for o in proto.graph.output]
        for output in proto.graph.output:
            output.ClearField("type")
        loaded = infer(load(proto))
        for value, array, kind in zip(loaded.outputs, case.data_sets[0][1], declared, strict=True):
            wanted_type = ir.from_proto(kind).type
            if value.type is not None and value.type != wanted_type:
                wrong.append((case.name, value.type, wanted_type))
            real = outcome(array)
            dims = told(value)
            if real is None or dims is None:
                continue
            shape, dtype = real
            fits = len(dims) == len(shape) and all(
                d in (None, s) for d, s in zip(dims, shape, strict=True)
            )
            if not fits or (value.dtype is not None and int(value.dtype) != dtype):
                wrong.append((case.name, value, shape, dtype))
            exact += None not in dims
            partial += None in dims
    assert not wrong
    assert exact >= 1_700, "rules tell fewer shapes than they did"
    assert partial < 400


CEILED = re.compile("ceil_(last_window|output_size)")


def test_no_rule_knows_less_than_onnx_s_own_inference(node_cases):
    """The second opinion: C++ on the same models. Its ranks and numbers are all known here too."""
    behind = []
    for case in node_cases:
        proto = copy.deepcopy(case.model)
        for output in proto.graph.output:
            output.ClearField("type")
        other = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        loaded = infer(load(proto))
        for value, theirs in zip(loaded.outputs, other.graph.output, strict=True):
            second = ir.from_proto(theirs.type) if theirs.HasField("type") else None
            tensor = second is not None and isinstance(second.type, ir.TensorType)
            if not tensor or second.shape is None or CEILED.search(case.name):
                continue
            dims = told(value)
            numbers = [d if isinstance(d, int) else None for d in second.shape]
            if (
                dims is None
                or len(dims) != len(numbers)
                or any(d is None and n is not None for d, n in zip(dims, numbers, strict=True))
            ):
                behind.append((case.name, dims, numbers))
    assert not behind


def shape_after(op, shapes, opset=17, weights=(), outputs=1, domain="", **attributes):
    """The shapes that one node makes of inputs of given shapes (``None``: left out)."""
    names = ["" if s is None else f"x{i}" for i, s in enumerate(shapes)]
    inputs = [
        helper.make_tensor_value_info(n, 1, s)
        for n, s in zip(names, shapes, strict=True)
        if s is not None
    ]
    names += [f"w{index}" for index in range(len(weights))]
    tensors = [onnx.numpy_helper.from_array(np.array(a), f"w{i}") for i, a in enumerate(weights)]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in made], tensors
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    loaded = infer(load(helper.make_model(graph, opset_imports=imports, ir_version=9)), fold=False)
    found = [None if v.shape is None else str(v.shape) for v in loaded.outputs]
    return found[0] if outputs == 1 else found


SYMBOLIC = [
    ("Add", [["N", 1], [1, "M"]], {}, "[N,M]"),
    ("MatMul", [["B", "S", 8], [8, 4]], {}, "[B,S,4]"),
    ("MatMul", [[8], [8]], {}, "[]"),
    ("Gemm", [["N", 8], [4, 8]], {"transB": 1}, "[N,4]"),
    ("Concat", [["N", 2], ["M", 2]], {"axis": 0}, "[M + N,2]"),
    ("Flatten", [["N", 3, 4]], {}, "[N,12]"),
    ("Flatten", [["N", "C", "H"]], {}, "[N,C*H]"),
    ("Transpose", [["N", "C", 4]], {"perm": [2, 0, 1]}, "[4,N,C]"),
    ("Conv", [["N", 3, "H", 8], [4, 3, 3, 3]], {"pads": [1, 1, 1, 1]}, "[N,4,H,8]"),
    ("Conv", [["N", 3, 9], [4, 3, 3]], {"strides": [2]}, "[N,4,4]"),
    ("Conv", [["N", 3, "H"], [4, 3, 3]], {"strides": [2]}, "[N,4,floor((H - 3)/2) + 1]"),
    ("Conv", [["N", 3, "H"], [4, 3, 3]], {"auto_pad": "SAME_UPPER"}, "[N,4,H]"),
    ("ConvTranspose", [["N", 3, "H"], [3, 4, 2]], {"strides": [2]}, "[N,4,2*H]"),
    ("GlobalAveragePool", [["N", "C", 7, 7]], {}, "[N,C,1,1]"),
    ("DepthToSpace", [["N", 8, "H", 2]], {"blocksize": 2}, "[N,2,2*H,4]"),
    ("SpaceToDepth", [["N", 2, 4, 4]], {"blocksize": 2}, "[N,8,2,2]"),
    ("ReduceMean", [["N", "C", 4]], {"axes": [-1], "keepdims": 0}, "[N,C]"),
    (
        "Einsum",
        [["B", "H", "Q", 8], ["B", "H", "K", 8]],
        {"equation": "bhqd,bhkd->bhqk"},
        "[B,H,Q,K]",
    ),
    ("Einsum", [["B", 4, "S"], ["S", 6]], {"equation": "...i, ij"}, "[B,4,6]"),
    ("Gather", [[10, "D"], ["N", "S"]], {}, "[N,S,D]"),
    ("ArgMax", [["N", 5]], {"axis": 1}, "[N,1]"),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "wanted"), SYMBOLIC)
def test_names_of_dimensions_are_kept(op, shapes, attributes, wanted):
    assert shape_after(op, shapes, **attributes) == wanted


WEIGHTED = [
    ("Reshape", [["N", 6]], [np.int64([0, 2, -1])], {}, "[N,2,3]"),
    ("Reshape", [["N", 4, "C"]], [np.int64([-1, 2])], {}, "[2*C*N,2]"),
    ("Reshape", [["N", 3]], [np.int64([-1, 2])], {}, "[None,2]"),
    ("Slice", [["N", 8]], [np.int64([1]), np.int64([2**63 - 1]), np.int64([0])], {}, "[N - 1,8]"),
    ("Slice", [["N", 8]], [np.int64([0]), np.int64([-1]), np.int64([0])], {}, "[N - 1,8]"),
    (
        "Slice",
        [["N", 8]],
        [np.int64([7]), np.int64([-9]), np.int64([1]), np.int64([-2])],
        {},
        "[N,4]",
    ),
    ("Tile", [["N", 2]], [np.int64([3, 2])], {}, "[3*N,4]"),
    ("Expand", [["N", 1]], [np.int64([1, 5])], {}, "[N,5]"),
    ("Pad", [["N", 2]], [np.int64([1, 0, 1, 3])], {}, "[N + 2,5]"),
    ("Unsqueeze", [["N"]], [np.int64([0, 2])], {}, "[1,N,1]"),
    ("Squeeze", [[1, "N"]], [np.int64([0])], {}, "[N]"),
    ("TopK", [["N", 9]], [np.int64([4])], {"outputs": 2}, ["[N,4]", "[N,4]"]),
    ("Split", [["N", 9]], [np.int64([4, 5])], {"outputs": 2, "axis": 1}, ["[N,4]", "[N,5]"]),
    ("Resize", [["N", 3, "H", 5], None], [np.float32([1, 1, 2, 0.5])], {}, "[N,3,2*H,2]"),
    ("OneHot", [["N"]], [np.int64(7), np.float32([0, 1])], {}, "[N,7]"),
]


@pytest.mark.parametrize(("op", "shapes", "weights", "attributes", "wanted"), WEIGHTED)
def test_constants_say_shapes(op, shapes, weights, attributes, wanted):
    assert shape_after(op, shapes, weights=weights, **attributes) == wanted


def test_even_parts_of_a_split():
    assert shape_after("Split", [[7, 2]], opset=18, outputs=3, num_outputs=3) == [
        "[3,2]",
        "[3,2]",
        "[1,2]",
    ]
    assert shape_after("Split", [[6]], outputs=2) == ["[3]", "[3]"]


IMPOSSIBLE = [
    ("MatMul", [[2, 3], [4, 5]], {}),
    ("Transpose", [[2, 3]], {"perm": [0, 5]}),
    ("Concat", [[2, 3], [2]], {"axis": 0}),
    ("Conv", [[1, 3, 8], [4, 3, 3]], {"strides": [0]}),
    ("Conv", [[1, 3, 2], [4, 3, 9]], {}),
    ("Flatten", [[2, 3]], {"axis": 9}),
    ("Einsum", [[2, 3], [3, 4]], {"equation": "ijk,jk->ik"}),
    ("DepthToSpace", [[1, 8, 2, 2]], {"blocksize": 0}),
]


@pytest.mark.parametrize(("op", "shapes", "attributes"), IMPOSSIBLE)
def test_what_cannot_be_stays_unknown(op, shapes, attributes):
    assert shape_after(op, shapes, **attributes) is None


def test_versions_of_ceil_mode_agree_or_nothing_is_said():
    pool = {"kernel_shape": [1], "strides": [2], "ceil_mode": 1, "pads": [0, 0]}
    assert shape_after("MaxPool", [[1, 1, 4]], opset=21, **pool) == "[1,1,None]"
    assert shape_after("MaxPool", [[1, 1, 4]], opset=22, **pool) == "[1,1,2]"
    pool["kernel_shape"] = [2]
    assert shape_after("MaxPool", [[1, 1, 5]], opset=12, **pool) == "[1,1,3]"


def test_scaling_that_depends_on_rounding_is_not_guessed():
    scales = [np.float32([1, 0.7])]
    assert shape_after("Resize", [[1, 10], None], weights=scales) == "[1,None]"
