"""Whole graphs: shape arithmetic, bodies, and what the file declares."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from partita.inferring.dims import evaluate, parse
from partita.inferring.stage import infer
from partita.loading.stage import load

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def inferred(text, fold=True):
    return infer(load(parse_model(f"{HEAD} {text}")), fold=fold)


def shapes(model):
    return {
        str(v.name): None if v.shape is None else str(v.shape)
        for _, graph in model.graphs()
        for node in graph
        for v in node.outputs
    }


def test_shape_gather_concat_reshape_keeps_the_names():
    """The way exporters of old flatten: the batch is read off the input and put back."""
    model = inferred(
        """g (float[batch, 12, seq, 64] x) => (float[] y) {
          s = Shape (x)
          zero = Constant <value_int = 0> () two = Constant <value_int = 2> ()
          b = Gather (s, zero) t = Gather (s, two)
          axes = Constant <value_ints = [0]> ()
          b1 = Unsqueeze (b, axes) t1 = Unsqueeze (t, axes)
          width = Constant <value_ints = [768]> ()
          target = Concat <axis = 0> (b1, t1, width)
          p = Transpose <perm = [0, 2, 1, 3]> (x)
          y = Reshape (p, target) }"""
    )
    found = shapes(model)
    assert found["target"] == "[3]"
    assert found["y"] == "[batch,seq,768]"


def test_arithmetic_on_sizes_is_followed():
    model = inferred(
        """g (float[N, H] x, float[M] z) => (float[] y, float[] r, float[] c, float[] s) {
          a = Shape (x) b = Shape (z)
          i0 = Constant <value_ints = [0]> () i1 = Constant <value_ints = [1]> ()
          n = Slice (a, i0, i1)
          h = Slice (a, i1, big)
          big = Constant <value_ints = [9223372036854775807]> ()
          doubled = Mul (n, two) two = Constant <value_ints = [2]> ()
          more = Add (doubled, b)
          y = ConstantOfShape (more)
          all = ReduceProd <keepdims = 1> (a)
          r = ConstantOfShape (all)
          half = Div (h, two)
          c = ConstantOfShape (half)
          minus = Constant <value_ints = [-1]> ()
          same = Equal (a, minus)
          ones = ConstantOfShape <value = int64[1] {1}> (rank)
          rank = Shape (a)
          picked = Where (same, ones, a)
          s = Expand (one, picked) one = Constant <value_floats = [1.0]> () }"""
    )
    found = shapes(model)
    assert found["y"] == "[2*N + M]" or found["y"] == "[M + 2*N]"
    assert found["r"] == "[H*N]"
    assert found["c"] == "[floor(H/2)]"
    assert found["s"] == "[N,H]"


def test_sizes_through_floats_are_followed():
    """Upsampling as PyTorch once exported it: Shape → Cast → Mul → Floor → Cast."""
    model = inferred(
        """g (float[1, 3, 8, 9] x) => (float[] y) {
          s = Shape (x) i2 = Constant <value_ints = [2]> () i4 = Constant <value_ints = [4]> ()
          hw = Slice (s, i2, i4)
          f = Cast <to = 1> (hw) k = Constant <value_floats = [1.5, 2.0]> ()
          g = Mul (f, k) h = Floor (g) sizes = Cast <to = 7> (h)
          i0 = Constant <value_ints = [0]> () head = Slice (s, i0, i2)
          target = Concat <axis = 0> (head, sizes)
          y = Resize (x, "", "", target) }"""
    )
    assert shapes(model)["y"] == "[1,3,12,18]"


def test_both_branches_agree_or_nothing_is_said():
    model = inferred(
        """g (float[N, 4] x, bool c) => (float[] y, float[] z) {
          y, z = If (c) <
            then_branch = t () => (float[] a, float[] b) {
              a = Relu (x) b = Flatten <axis = 0> (x) },
            else_branch = e () => (float[] d, float[] f) {
              d = Neg (x) f = Concat <axis = 0> (x, x) }> }"""
    )
    found = shapes(model)
    assert (found["y"], found["z"]) == ("[N,4]", "[None,None]")
    assert (found["b"], found["f"]) == ("[1,4*N]", "[2*N,4]")


LOOP = """g (float[N, 4] x, int64 n) => (float[] y, float[] s) {{
  y, s = Loop (n, "", x) <
    body = b (int64 i, bool c, float[] v) => (bool again, float[] w, float[] k) {{
      again = Identity (c) w = {carried} k = ReduceSum <keepdims = 0> (v) }}> }}"""


def test_a_loop_that_keeps_its_shape():
    found = shapes(inferred(LOOP.format(carried="Relu (v)")))
    assert found["y"] == "[N,4]"
    assert found["s"] == "[None]"
    assert found["w"] == "[N,4]"


def test_a_loop_that_changes_its_shape_keeps_what_stays():
    found = shapes(inferred(LOOP.format(carried="Concat <axis = 0> (v, v)")))
    assert found["y"] == "[None,4]"
    assert found["w"] == "[None,4]"


def test_a_loop_that_changes_its_rank_says_nothing():
    found = shapes(inferred(LOOP.format(carried="Flatten <axis = 0> (v)")))
    assert found["y"] == "[None,None]"
    axes = "Unsqueeze (v, axes) axes = Constant <value_ints = [0]> ()"
    assert shapes(inferred(LOOP.format(carried=axes)))["y"] is None


def test_scan_slices_and_stacks():
    found = shapes(
        inferred(
            """g (float[4] s, float[T, 4] x) => (float[] f, float[] y) {
              f, y = Scan <num_scan_inputs = 1,
                body = b (float[] a, float[] e) => (float[] n, float[] o) {
                  n = Add (a, e) o = Concat <axis = 0> (n, n) }> (s, x) }"""
        )
    )
    assert (found["f"], found["y"]) == ("[4]", "[T,8]")


def test_sequences_carry_the_shape_of_their_elements():
    model = inferred(
        """g (float[N, 4] x, float[M, 4] z) => (float[] y, float[] w) {
          q = SequenceConstruct (x, z)
          zero = Constant <value_int = 0> ()
          y = SequenceAt (q, zero)
          w = ConcatFromSequence <axis = 0> (q) }"""
    )
    found = shapes(model)
    assert (found["y"], found["w"]) == ("[None,4]", "[None,4]")
    sequence = model.graph[0].outputs[0].type
    assert sequence == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))


def declared(shape, value_info, op="Relu", dtype=1, **attributes):
    nodes = [
        helper.make_node(op, ["x"], ["m"], **attributes),
        helper.make_node("Identity", ["m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [onnx.ValueInfoProto(name="y")],
    )
    graph.value_info.append(helper.make_tensor_value_info("m", dtype, value_info))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.x", 1)]
    model = infer(load(helper.make_model(graph, opset_imports=imports, ir_version=9)))
    return model.graph[0].outputs[0]


@pytest.mark.parametrize(
    ("given_input", "value_info", "wanted"),
    [
        ([2, 3], [None, None], "[2,3]"),
        ([2, 3], None, "[2,3]"),
        ([2, 3], ["a", "b"], "[2,3]"),
        (["N", 3], [None, 3], "[N,3]"),
        (["N", 3], [7, 3], "[N,3]"),
        ([None, 3], [7, 3], "[7,3]"),
        ([None, 3], ["K", 3], "[K,3]"),
        ([4, 3], [2, 3], "[4,3]"),
        ([4, 3], [4, 3, 1], "[4,3]"),
        (None, [2, "K"], "[2,K]"),
    ],
)
def test_the_better_of_declared_and_inferred_is_kept(given_input, value_info, wanted):
    value = declared(given_input, value_info)
    assert (None if value.shape is None else str(value.shape)) == wanted


def test_what_a_custom_op_declares_is_all_there_is():
    value = declared([2, 3], [5, "K"], op="Foo", domain="com.x")
    assert str(value.shape) == "[5,K]"
    assert value.dtype == ir.DataType.FLOAT


def test_a_type_that_contradicts_the_op_gives_way():
    value = declared([2, 3], [2, 3], op="Cast", dtype=1, to=7)
    assert value.dtype == ir.DataType.INT64


def test_types_are_not_shared_between_values():
    model = inferred("g (float[2] x) => (float[] y) { a = Relu (x) y = Neg (a) }")
    model.graph[0].outputs[0].dtype = ir.DataType.INT8
    assert model.graph[1].outputs[0].dtype == ir.DataType.FLOAT
    assert model.inputs[0].dtype == ir.DataType.FLOAT


def test_inferring_twice_changes_nothing():
    model = inferred(
        "g (float[N, 4] x) => (float[] y) { a = Concat <axis = 0> (x, x) y = Neg (a) }"
    )
    before = shapes(model)
    assert shapes(infer(model)) == before


OPS = st.sampled_from(
    [
        ("Relu", {}),
        ("Transpose", {}),
        ("Flatten", {"axis": 0}),
        ("Flatten", {"axis": 2}),
        ("Concat", {"axis": 0}),
        ("Concat", {"axis": -1}),
        ("ReduceMean", {"axes": [0], "keepdims": 1}),
        ("ReduceSum", {"keepdims": 0}),
        ("Add", {}),
        ("MatMul", {}),
        ("Softmax", {"axis": -1}),
        ("Shape", {}),
        ("Size", {}),
        ("Cast", {"to": 1}),
        ("GlobalAveragePool", {}),
        ("MaxPool", {"kernel_shape": [2], "strides": [2]}),
        ("DepthToSpace", {"blocksize": 2}),
    ]
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(OPS, st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=7),
    st.lists(st.sampled_from([1, 2, 4, "A", "B"]), min_size=1, max_size=4),
    st.fixed_dictionaries({"A": st.integers(1, 5), "B": st.integers(1, 5)}),
)
def test_a_run_has_the_inferred_shapes(steps, shape, sizes):
    """Random graphs, run by onnx's evaluator: each formula, evaluated, is the real size."""
    nodes, kinds = [], {"v0": 1}
    for index, ((op, attributes), left, right) in enumerate(steps):
        inputs = [f"v{left % (index + 1)}"]
        if op in ("Concat", "Add", "MatMul"):
            inputs.append(f"v{right % (index + 1)}")
        nodes.append(helper.make_node(op, inputs, [f"v{index + 1}"], **attributes))
    names = [f"v{i + 1}" for i in range(len(steps))]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("v0", kinds["v0"], shape)],
        [onnx.ValueInfoProto(name=name) for name in names],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = infer(load(proto))
    real = [sizes.get(d, d) for d in shape]
    feeds = {"v0": np.ones(real, np.float32)}
    for count in range(len(nodes), 0, -1):
        part = onnx.ModelProto()
        part.CopyFrom(proto)
        del part.graph.node[count:]
        del part.graph.output[count:]
        try:
            results = ReferenceEvaluator(part).run(None, feeds)
        except Exception:
            continue  # the ops do not fit each other; a shorter graph may
        for value, array in zip(model.outputs, results, strict=False):
            if value.shape is None:
                continue
            assert len(value.shape) == array.ndim
            for dim, size in zip(value.shape, array.shape, strict=True):
                name = dim if isinstance(dim, int) else dim.value
                wanted = evaluate(parse(str(name)), sizes) if name is not None else None
                assert wanted in (None, size)
        return


def test_all_shapes_of_the_recorded_models_are_known(zoo):
    """Also where the file says nothing: declared shapes are taken out first."""
    for path in sorted(zoo.glob("*.onnx")):
        model = load(path)
        for node in model.graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = value.type = None
        infer(model)
        unknown = [
            v.name for n in model.graph for v in n.outputs if v.shape is None or v.type is None
        ]
        assert not unknown, path.name


@pytest.mark.engine("onnxruntime")
def test_shapes_are_those_of_a_run(zoo):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    for path in sorted(zoo.glob("*.onnx")):
        model = infer(load(path))
        proto = ir.to_proto(model.ir)
        inner = [v for n in model.graph for v in n.outputs if not v.is_graph_output()]
        proto.graph.output.extend(ir.to_proto(value) for value in inner)
        session = ort.InferenceSession(proto.SerializeToString(), options)
        results = session.run(None, dict(np.load(path.with_suffix(".inputs.npz"))))
        for value, array in zip([*model.outputs, *inner], results, strict=True):
            assert value.dtype.numpy() == array.dtype
            assert len(value.shape) == array.ndim
            for dim, size in zip(value.shape, array.shape, strict=True):
                assert not isinstance(dim, int) or dim == size
