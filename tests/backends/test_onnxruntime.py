from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from made import model_of
from partita.backends.host import HostBackend
from partita.backends.onnxruntime import OnnxRuntimeBackend, shortened
from partita.errors import BackendUnavailableError, CompileError, OptionError
from partita.loading.stage import load
from single import floats, one_node, only_node, region_of

pytestmark = pytest.mark.engine("onnxruntime")


@pytest.fixture(scope="module")
def backend() -> OnnxRuntimeBackend:
    return OnnxRuntimeBackend(threads=1)


def agree(backend: OnnxRuntimeBackend, model: Any, *arrays: Any) -> None:
    region = region_of(model)
    for node in model.graph:
        assert backend.why_not(node) is None
    got = backend.compile(region)(*arrays)
    wanted = HostBackend().compile(region)(*arrays)
    for a, b in zip(got, wanted, strict=True):
        same(a, b)


def same(a: Any, b: Any) -> None:
    if b is None or isinstance(b, list):
        assert type(a) is type(b)
        for p, q in zip(a or [], b or [], strict=True):
            same(p, q)
        return
    assert a.shape == b.shape
    if b.dtype == object:
        assert a.tolist() == b.tolist()
        return
    assert a.dtype == b.dtype
    as_floats = [x.astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(*as_floats, rtol=1e-4, atol=1e-6)


# Claims


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "attributes", "sentence"),
    [
        ("Relu", 28, [floats(2)], {}, None),
        ("Gelu", 20, [floats(2)], {}, None),
        ("Mish", 26, [floats(2)], {}, None),
        ("Relu", 14, [floats(2).astype(np.float16)], {}, None),
        (
            "Softmax",
            13,
            [floats(2).astype(ml_dtypes.bfloat16)],
            {},
            "input 'i0' is bfloat16; ONNX Runtime's Softmax kernel takes float32 or float64",
        ),
        ("SwiGLU", 28, [floats(2, 4)] * 2, {}, "ONNX Runtime has no SwiGLU as of opset 26"),
        (
            "SpaceToDepth",
            28,
            [floats(1, 1, 4, 4)],
            {"blocksize": 2, "mode": "CRD"},
            "attribute 'mode' = 'CRD' has no place in SpaceToDepth as of opset 13, and ONNX",
        ),
        (
            "LSTM",
            14,
            [floats(1, 2, 3), floats(1, 16, 3), floats(1, 16, 4)],
            {"hidden_size": 4, "layout": 1},
            "attribute 'layout' is 1; ONNX Runtime's LSTM kernel takes 0 alone",
        ),
        (
            "Mod",
            13,
            [floats(2), floats(2)],
            {},
            "attribute 'fmod' is 0; ONNX Runtime's Mod kernel takes floats with fmod = 1 alone",
        ),
        (
            "Div",
            14,
            [np.array([4]), np.array([2])],
            {},
            "input 'i1' may hold 0 or -1; ONNX Runtime's Div kernel can stop the process then",
        ),
        ("LRN", 13, [floats(1, 3, 4, 4)], {"size": 4}, "attribute 'size' is 4; ONNX Runtime's LRN"),
    ],
)
def test_claims_come_with_sentences(
    backend: OnnxRuntimeBackend,
    op: str,
    opset: int,
    arrays: list[Any],
    attributes: dict[str, Any],
    sentence: str | None,
) -> None:
    refusal = backend.why_not(only_node(one_node(op, opset, arrays, **attributes)))
    assert (refusal or "").startswith(sentence or "")
    assert (refusal is None) == (sentence is None)


def test_an_unknown_op_gets_near_matches(backend: OnnxRuntimeBackend) -> None:
    node = only_node(one_node("Relu", 14, [floats(2)]))
    node.op_type = "Rleu"
    assert "did you mean 'Relu'" in (backend.why_not(node) or "")


def test_a_body_is_asked_node_by_node(backend: OnnxRuntimeBackend) -> None:
    text = """<ir_version: 10, opset_import: ["": 18]> g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Mod(x, x) }>
    }"""
    model = load(onnx.parser.parse_model(text))
    refusal = backend.why_not(model.graph[0]) or ""
    assert "else_branch' holds Mod" in refusal
    assert "attribute 'fmod' is 0" in refusal


def test_answers_do_not_depend_on_what_was_asked_before(backend: OnnxRuntimeBackend) -> None:
    small = only_node(one_node("LRN", 13, [floats(1, 3, 4, 4)], size=4))
    odd = only_node(one_node("LRN", 13, [floats(1, 3, 4, 4)], size=3))
    assert backend.why_not(small)
    assert backend.why_not(odd) is None
    assert backend.why_not(small)


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimization": "most"}, "option 'optimization' of backend 'onnxruntime' is 'most'; it"),
        ({"provider": "tpu"}, "it takes cpu, cuda, auto"),
        ({"config": ("loud",)}, "holds 'loud'; write session settings as key=value"),
        ({"threads": "few"}, "option 'threads' of backend 'onnxruntime' is 'few'; it needs a int"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        OnnxRuntimeBackend(**options)


@pytest.mark.parametrize("optimization", ["disable", "basic", "extended", "all"])
def test_every_optimization_level_computes_the_same(optimization: str) -> None:
    made = OnnxRuntimeBackend(
        threads="1",
        optimization=optimization,
        spinning="false",
        deterministic=True,
        config="session.intra_op.allow_spinning=0",
    )
    agree(made, model_of("[a] h = Exp(x) [b] y = Softmax(h)"), floats(2, 3))


def test_an_absent_provider_is_named() -> None:
    import onnxruntime

    made = OnnxRuntimeBackend(provider="cuda")
    node = only_node(one_node("Relu", 14, [floats(2)]))
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        assert made.why_not(node) is None
        return
    with pytest.raises(BackendUnavailableError, match="no CUDA provider"):
        made.why_not(node)
    assert OnnxRuntimeBackend(provider="auto").why_not(node) is None


# Values


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "attributes"),
    [
        ("Cast", 19, [floats(3, 4).astype(ml_dtypes.bfloat16)], {"to": 1}),
        ("Cast", 19, [floats(3, 4)], {"to": 16}),
        ("Cast", 19, [floats(3, 4)], {"to": 17}),
        ("Cast", 19, [floats(3, 4).astype(ml_dtypes.float8_e5m2)], {"to": 10}),
        ("Cast", 21, [np.arange(-8, 7).astype(ml_dtypes.int4)], {"to": 1}),
        ("Cast", 21, [np.arange(0, 15).astype(np.float32)], {"to": 21}),
        ("Cast", 13, [np.array(["1.5", "-2"], object)], {"to": 1}),
        ("StringConcat", 20, [np.array(["a", "bc"], object), np.array(["d", ""], object)], {}),
        ("Identity", 21, [floats(2).astype(np.float16)], {}),
        ("Identity", 21, [np.array(2.5)], {}),
        ("Identity", 21, [floats(0, 3)], {}),
        ("Not", 1, [np.array([True, False])], {}),
    ],
)
def test_every_dtype_passes_both_ways(
    backend: OnnxRuntimeBackend, op: str, opset: int, arrays: list[Any], attributes: dict[str, Any]
) -> None:
    agree(backend, one_node(op, opset, arrays, **attributes), *arrays)


def test_bytes_and_fixed_width_text_are_read_as_text(backend: OnnxRuntimeBackend) -> None:
    arrays = [np.array(["ab", "cde"], object)]
    run = backend.compile(region_of(one_node("Identity", 21, arrays)))
    for given in (np.array(["ab", "cde"]), np.array([b"ab", b"cde"], object), arrays[0]):
        assert run(given)[0].tolist() == ["ab", "cde"]


def test_sequences_and_optionals_pass(backend: OnnxRuntimeBackend) -> None:
    text = """<ir_version: 10, opset_import: ["": 18]>
    g (seq(float[2]) s, float[2] t, optional(float[2]) o) => (seq(float[2]) y, bool z) {
        y = SequenceInsert(s, t)
        z = OptionalHasElement(o)
    }"""
    model = load(onnx.parser.parse_model(text))
    run = backend.compile(region_of(model))
    sequence, holds = run([floats(2)], floats(2, seed=1), None)
    assert [x.tolist() for x in sequence] == [floats(2).tolist(), floats(2, seed=1).tolist()]
    assert not holds.any()
    assert run([], floats(2), floats(2))[1].all()


def test_results_belong_to_the_caller(backend: OnnxRuntimeBackend) -> None:
    x = floats(4)
    (y,) = backend.compile(region_of(one_node("Identity", 14, [x])))(x)
    y[...] = 9
    assert (x == floats(4)).all()


def test_weights_are_handed_over_without_a_copy_in_the_model(backend: OnnxRuntimeBackend) -> None:
    weight = floats(64, 64)
    model = one_node("MatMul", 13, [floats(2, 64), weight], weights=(1,))
    run = backend.compile(region_of(model))
    np.testing.assert_allclose(run(floats(2, 64))[0], floats(2, 64) @ weight, rtol=1e-4, atol=1e-4)
    tensor = weakref.ref(model.graph.initializers["i1"])
    del model
    gc.collect()
    assert tensor() is None
    np.testing.assert_allclose(run(floats(2, 64))[0], floats(2, 64) @ weight, rtol=1e-4, atol=1e-4)


def test_dynamic_shapes_change_from_call_to_call(backend: OnnxRuntimeBackend) -> None:
    model = one_node("Softmax", 13, [floats(3, 5)], shapes={0: ["n", 5]})
    run = backend.compile(region_of(model))
    for n in (1, 7, 0, 3):
        assert run(floats(n, 5))[0].shape == (n, 5)


@pytest.mark.parametrize("opset", [7, 13, 21, 26, 27, 28])
def test_every_opset_compiles(backend: OnnxRuntimeBackend, opset: int) -> None:
    agree(backend, one_node("Tanh", opset, [floats(3)]), floats(3))


def test_a_failure_is_one_line_without_source_paths(backend: OnnxRuntimeBackend) -> None:
    model = one_node("LRN", 13, [floats(1, 3, 4, 4)], size=4)
    with pytest.raises(CompileError, match=r"^ONNX Runtime: .*false") as caught:
        backend.compile(region_of(model))
    assert "/onnxruntime_src" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_messages_are_shortened() -> None:
    raw = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find it\nsecond line"
    assert shortened(raw) == "Could not find it"
    assert shortened("") == "unknown error"


# Calls


@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_bound_call_equals_the_plain_one(backend: OnnxRuntimeBackend, given: int) -> None:
    model = one_node("Add", 14, [floats(3, 4), floats(4)])
    executable = backend.compile(region_of(model))
    a, b, y = floats(3, 4), floats(4, seed=1), np.empty((3, 4), np.float32)
    inputs = [a if given & 1 else None, b if given & 2 else None]
    for outputs in ([y], [None]):
        call = executable.bind(inputs, outputs)
        assert call is not None
        for _ in range(3):
            a += 1
            free = [x for x, bound in zip((a, b), inputs, strict=True) if bound is None]
            got = call(*free)
            result = y if outputs[0] is not None else got[0]
            assert len(got) == (outputs[0] is None)
            np.testing.assert_array_equal(result, a + b)


def test_text_and_sequences_cannot_be_bound(backend: OnnxRuntimeBackend) -> None:
    model = one_node("Identity", 14, [np.array(["a"], object)])
    assert backend.compile(region_of(model)).bind([None], [None]) is None
    model = one_node("SequenceConstruct", 11, [floats(2)])
    assert backend.compile(region_of(model)).bind([None], [None]) is None


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_threads_share_one_executable(backend: OnnxRuntimeBackend, dtype: Any) -> None:
    model = one_node("Identity", 21, [floats(8).astype(dtype)])
    run = backend.compile(region_of(model))
    arrays = [np.full(8, i, np.float32).astype(dtype) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for given, (got,) in zip(arrays, pool.map(run, arrays), strict=True):
            assert got.tolist() == given.tolist()
