from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.parser import parse_model

from partita.errors import PartitaError, UsageError
from partita.inferring.stage import infer
from partita.loading import stage
from partita.loading.stage import load

REAL = parse_model(
    """<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
    g (float[N, 3, 8, 8] x, bool c) => (float[N, 256] y)
    <float[4] b = {1, 2, 3, 4}, int64[2] s = {0, -1}> {
      h = Conv <pads = [1, 1, 1, 1], kernel_shape = [3, 3]> (x, w, b)
      r = f.Act <alpha = 0.5> (h)
      p = If (c) <
        then_branch = t () => (float[N, 4, 8, 8] o) {
          k = Constant <value_float = 2.0> () o = Mul (r, k) },
        else_branch = e () => (float[N, 4, 8, 8] o) { o = Neg (r) }>
      q = Reshape (p, s)
      y = Identity (q)
    }
    <opset_import: ["" : 17], domain: "f"> Act <alpha> (a) => (b)
    { b = LeakyRelu <alpha: float = @alpha> (a) }"""
)
REAL.graph.initializer.append(helper.make_tensor("w", 1, [4, 3, 3, 3], [0.5] * 108))
DATA = REAL.SerializeToString()


def test_the_real_model_loads():
    loaded = infer(load(DATA))
    assert [n.op_type for n in loaded.graph] == ["Conv", "LeakyRelu", "If", "Reshape", "Identity"]


def loaded_or_refused(data):
    """A model, or nothing if there was an error of partita's that names where it stands."""
    refusal = ""
    try:
        return infer(load(data))
    except PartitaError as error:
        refusal = str(error)
    assert refusal.startswith("<bytes>: ")
    return None


@settings(max_examples=400)
@given(st.data())
def test_damaged_files_give_a_model_or_a_typed_error(data):
    """Random flips, cuts and insertions in a real file."""
    damaged = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "drop", "insert", "byte"]))
        if kind == "flip":
            damaged[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del damaged[place:]
        elif kind == "drop":
            del damaged[place : place + data.draw(st.integers(1, 9))]
        elif kind == "insert":
            damaged[place:place] = data.draw(st.binary(min_size=1, max_size=4))
        else:
            damaged[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        if not damaged:
            break
    loaded = loaded_or_refused(bytes(damaged))
    if loaded is None:
        return
    nodes = [n.name for _, graph in loaded.graphs() for n in graph]
    assert len(set(nodes)) == len(nodes)
    assert len(ir.to_proto(loaded.ir).SerializeToString())


@pytest.mark.parametrize("length", [*range(0, 64), len(DATA) // 2, len(DATA) - 1])
def test_truncated_files_give_a_model_or_a_typed_error(length):
    loaded_or_refused(DATA[:length])


def test_the_source_may_be_path_text_bytes_message_or_model(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DATA)
    sources = [path, str(path), DATA, bytearray(DATA), memoryview(DATA), REAL, ir.from_proto(REAL)]
    hashes = {load(source).hash for source in sources}
    assert len(hashes) == 1
    assert load(path).source == str(path)


def test_a_message_is_not_edited():
    before = REAL.SerializeToString(deterministic=True)
    infer(load(REAL))
    assert REAL.SerializeToString(deterministic=True) == before


def test_loading_a_model_again_copies_it():
    first = load(DATA)
    second = load(first)
    assert second.ir is not first.ir
    assert second.hash == first.hash


def test_what_is_no_model_is_refused():
    with pytest.raises(UsageError, match=r"a model cannot be loaded from a int; give the path"):
        load(3)


def test_a_format_is_a_row_in_a_table(tmp_path, monkeypatch):
    def load_symbol(path: Path, _limits):
        return f"symbol {path.name}"

    monkeypatch.setitem(stage.FORMATS, "-symbol.json", load_symbol)
    assert load(tmp_path / "lenet-symbol.json") == "symbol lenet-symbol.json"


def test_the_cycle_collector_is_as_it_was():
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        load(DATA)
        assert gc.isenabled() is enabled
    gc.enable()


def test_long_chains_load_without_deep_recursion():
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20_000)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes[::-1], "g", [value("v0", 1, ["N"])], [value("v20000", 1, ["N"])]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    loaded = infer(load(proto))
    assert loaded.graph[0].inputs[0].name == "v0"
    assert str(loaded.graph[-1].outputs[0].shape) == "[N]"


def test_after_loading_the_form_is_the_promised_one():
    loaded = load(DATA)
    values = []
    for _, graph in loaded.graphs():
        assert not set(graph.inputs) & set(graph.initializers.values())
        for node in graph:
            assert node.name
            assert node.version == 17
            assert node.op_type != "Constant"
            values += [v.name for v in node.outputs if v.name]
        values += [v.name for v in (*graph.inputs, *graph.initializers.values())]
    assert len(set(values)) == len(values)
    assert not loaded.ir.functions
    onnx.checker.check_model(ir.to_proto(loaded.ir))


HOSTILE = """
import resource, sys
import onnx
from onnx import TensorProto, helper
from partita.errors import PartitaError
from partita.inferring.stage import infer
from partita.loading.stage import load

start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
node, value = helper.make_node, helper.make_tensor_value_info

def refused(name, proto):
    try:
        infer(load(proto))
    except PartitaError as error:
        print(name, type(error).__name__)
    else:
        print(name, "loaded")

def model(nodes, inputs=(), weights=(), functions=(), more=()):
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [2]), *inputs], [onnx.ValueInfoProto(name="y")], list(weights)
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1), *more]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)

huge = helper.make_tensor("n", TensorProto.INT64, [1], [2**40])
twice = helper.make_tensor("n", TensorProto.INT64, [2], [2**31, 2**31])
scalars = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in
           (("start", 0), ("limit", 2**40), ("delta", 1))]
refused("constant-of-shape bomb", model([node("ConstantOfShape", ["n"], ["y"])], weights=[huge]))
refused("range bomb", model([node("Range", ["start", "limit", "delta"], ["y"])], weights=scalars))
refused("expand bomb", model([node("Expand", ["x", "n"], ["y"])], weights=[twice]))
one = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
refused("tile bomb", model([node("Tile", ["w", "n"], ["y"])], weights=[one, huge]))
pads = helper.make_tensor("p", TensorProto.INT64, [2], [2**40, 2**40])
refused("pad bomb", model([node("Pad", ["w", "p"], ["y"])], weights=[one, pads]))
vector = [value("v", TensorProto.INT64, [2**30])]
refused("long shape", model([node("Reshape", ["x", "v"], ["y"])], inputs=vector))
refused("blocks", model([node("DepthToSpace", ["x"], ["y"], blocksize=2**32)]))
refused("batch", model([node("GatherND", ["x", "x"], ["y"], batch_dims=-(2**31))]))
imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
levels = [helper.make_function("f", "L0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], imports)]
for i in range(1, 40):
    calls = [node(f"L{i-1}", ["a"], ["c"], domain="f"), node(f"L{i-1}", ["c"], ["b"], domain="f")]
    levels.append(helper.make_function("f", f"L{i}", ["a"], ["b"], calls, imports))
refused("laughs", model([node("L39", ["x"], ["y"], domain="f")], functions=levels))
print("megabytes", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) // 1024)
"""


def test_bombs_are_refused_or_stay_folded_up():
    """What would be gigabytes once it ran is neither computed nor allocated by loading it."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HOSTILE)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert int(lines.pop("megabytes")) < 100
    assert lines.pop("laughs") == "LimitError"
    assert len(lines) == 8
    assert set(lines.values()) == {"loaded"}


LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_the_light_models_of_onnx_load(path):
    loaded = load(path)
    assert len(loaded.graph) > 20
    assert len(loaded.inputs) == 1


def test_there_are_nine_light_models():
    assert len(LIGHT) == 9


@pytest.mark.engine("onnxruntime")
def test_recorded_numbers_stay(zoo):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 2
    for path in sorted(zoo.glob("*.onnx")):
        loaded = infer(load(path))
        feeds = dict(np.load(path.with_suffix(".inputs.npz")))
        recorded = dict(np.load(path.with_suffix(".outputs.npz")))
        session = ort.InferenceSession(ir.to_proto(loaded.ir).SerializeToString(), options)
        names = [output.name for output in session.get_outputs()]
        for name, found in zip(names, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, recorded[name], rtol=1e-4, atol=1e-5)
