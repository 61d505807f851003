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

from made import CHAIN, HAZARD, model_of
from partita.backends.host import HostBackend
from partita.backends.openvino import OpenVinoBackend
from partita.backends.openvino_claims import shortened
from partita.errors import OptionError
from partita.inferring.stage import infer
from partita.loading.stage import load
from partita.model import Model
from single import floats, one_node, only_node, region_of

pytestmark = pytest.mark.engine("openvino")


@pytest.fixture(scope="module")
def backend() -> OpenVinoBackend:
    return OpenVinoBackend(threads=1)


def parsed(text: str) -> Model:
    return infer(load(onnx.parser.parse_model(text)), fold=False)


def agree(backend: OpenVinoBackend, model: Model, *arrays: Any, rtol: float = 1e-4) -> None:
    region = region_of(model)
    judge = backend.judge(model)
    assert [judge(node) for node in model.graph] == [None] * len(model.graph)
    got = backend.compile(region)(*arrays)
    for a, b in zip(got, HostBackend().compile(region)(*arrays), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5)


# Claims


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "attributes", "sentence"),
    [
        ("Relu", 28, [floats(2)], {}, None),
        ("LRN", 13, [floats(1, 3, 4, 4)], {"size": 3}, None),
        (
            "Add",
            14,
            [floats(2).astype(np.float64)] * 2,
            {},
            "input 'i0' is float64; OpenVINO's CPU plugin computes it in float32",
        ),
        (
            "Add",
            14,
            [floats(2).astype(np.int8)] * 2,
            {},
            "input 'i0' is int8; OpenVINO's Add saturates where ONNX wraps around",
        ),
        (
            "Identity",
            14,
            [np.array([2**40])],
            {},
            "input 'i0' is int64 of any size; OpenVINO's CPU plugin computes in int32",
        ),
        (
            "Identity",
            14,
            [floats(2).astype(ml_dtypes.bfloat16)],
            {},
            "input 'i0' is bfloat16; OpenVINO's Python binding hands it over as float16",
        ),
        ("Relu", 14, [floats(0, 3)], {}, "input 'i0' has shape [0,3]; OpenVINO's CPU plugin stops"),
        ("TopK", 11, [floats(4), np.array([2])], {}, "OpenVINO's TopK does not keep the order"),
        (
            "Tile",
            13,
            [floats(2), np.array([2])],
            {},
            "input 'i1' is not constant; OpenVINO's Tile then returns random memory",
        ),
        (
            "SpaceToDepth",
            28,
            [floats(1, 1, 4, 4)],
            {"blocksize": 2, "mode": "CRD"},
            "attribute 'mode' = 'CRD' has no place in SpaceToDepth as of opset 13, the newest that",
        ),
        ("ReduceMax", 18, [floats(2)], {}, "OpenVINO's ReduceMax gives the largest number instead"),
        ("Det", 11, [floats(2, 2)], {}, "OpenVINO has no conversion for Det"),
        (
            "GridSample",
            20,
            [floats(1, 1, 2, 3, 4), floats(1, 1, 2, 2, 3)],
            {},
            "OpenVINO refuses GridSample: GridSample is only supported for 4D input tensors",
        ),
    ],
)
def test_claims_come_with_sentences(
    backend: OpenVinoBackend,
    op: str,
    opset: int,
    arrays: list[Any],
    attributes: dict[str, Any],
    sentence: str | None,
) -> None:
    outputs = 2 if op == "TopK" else 1
    model = one_node(op, opset, arrays, outputs, **attributes)
    for answer in (backend.why_not(only_node(model)), backend.judge(model)(only_node(model))):
        assert (answer or "").startswith(sentence or "")
        assert (answer is None) == (sentence is None)


def test_the_engine_is_asked_once_a_model(
    backend: OpenVinoBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = OpenVinoBackend(threads=1)
    queries: list[int] = []
    claims = fresh._claims
    original = claims._answers
    monkeypatch.setattr(claims, "_answers", lambda n: queries.append(len(n)) or original(n))
    model = model_of("""
        [a] va = Relu(x) [b] vb = Relu(va) [c] vc = Relu(vb) [d] vd = Exp(vc) [e] y = Softmax(vd)
    """)
    judge = fresh.judge(model)
    assert [judge(node) for node in model.graph] == [None] * 5
    assert queries == [3]  # three nodes differ
    fresh.judge(model)
    assert queries == [3]


def test_a_node_that_spoils_the_conversion_spoils_no_other(backend: OpenVinoBackend) -> None:
    model = parsed("""<ir_version: 10, opset_import: ["": 18]> g (float[2,2] x) => (float[2,2] y) {
        [first] a = Relu(x)
        [det] b = Det(a)
        [second] c = Exp(a)
        [third] y = Mul(c, b)
    }""")
    judge = backend.judge(model)
    answers = {str(node.name): judge(node) for node in model.graph}
    assert answers.pop("det") == "OpenVINO has no conversion for Det"
    assert set(answers.values()) == {None}


def test_a_query_that_raises_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = OpenVinoBackend(threads=1)
    claims = fresh._claims
    original = claims._answers

    def fragile(nodes: Any) -> Any:
        if any(node.op_type == "Exp" for node in nodes):
            raise RuntimeError("Check 'x' failed at y.cpp:1:\nthe bad one")
        return original(nodes)

    monkeypatch.setattr(claims, "_answers", fragile)
    model = model_of(CHAIN)
    judge = fresh.judge(model)
    answers = [judge(node) for node in model.graph]
    assert answers == [None, "OpenVINO refuses Exp: the bad one", None, None, None]


def test_large_weights_are_not_shown_to_the_query(backend: OpenVinoBackend) -> None:
    from partita.backends.openvino_claims import _side_by_side

    model = one_node("MatMul", 13, [floats(2, 512), floats(512, 512)], weights=(1,))
    assert len(_side_by_side([only_node(model)])) < 1000


def test_sizes_and_places_are_small_integers(backend: OpenVinoBackend) -> None:
    model = parsed("""<ir_version: 10, opset_import: ["": 18]>
    g (float[n, 4] x, int64[k] ids, int64[k] raw) => (float[m, p] y, int64[k] z)
    <int64[1] one = {1}> {
        s = Shape<start = 0, end = 1>(x)
        t = Add(s, one)
        u = Concat<axis = 0>(t, one)
        w = Unsqueeze(ids, one)
        f = Squeeze(w, one)
        g = Gather<axis = 0>(x, f)
        y = Expand(g, u)
        z = Add(raw, one)
    }""")
    judge = backend.judge(model)
    answers = {node.op_type + str(i): judge(node) for i, node in enumerate(model.graph)}
    assert answers.pop("Add7") == (
        "input 'raw' is int64 of any size; OpenVINO's CPU plugin computes in int32"
    )
    assert set(answers.values()) == {None}


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "f64"}, "option 'precision' of backend 'openvino' is 'f64'; it takes f32,"),
        ({"hint": "fast"}, "it takes latency, throughput"),
        ({"config": ("LOUD",)}, "holds 'LOUD'; write engine settings as KEY=value"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        OpenVinoBackend(**options)


def test_an_absent_device_is_named() -> None:
    made = OpenVinoBackend(device="QPU")
    with pytest.raises(OptionError, match=r"is 'QPU'; this machine has .*CPU"):
        made.why_not(only_node(one_node("Relu", 14, [floats(2)])))


def test_float32_is_pinned() -> None:
    made = OpenVinoBackend(threads=1)
    assert made.precision() == "float32"
    assert OpenVinoBackend(precision="bf16").precision() == "bfloat16"
    weight = floats(256, 256)
    model = one_node("MatMul", 13, [floats(8, 256), weight], weights=(1,))
    (got,) = made.compile(region_of(model))(floats(8, 256))
    exact = floats(8, 256).astype(np.float64) @ weight.astype(np.float64)
    assert np.abs(got - exact).max() < 1e-4  # bfloat16 errs by about 0.1 here


# Calls


@pytest.mark.parametrize("text", [CHAIN, HAZARD])
def test_regions_compute_what_the_host_computes(backend: OpenVinoBackend, text: str) -> None:
    agree(backend, model_of(text), floats(2, 3))


@pytest.mark.parametrize(
    "node",
    ["Sum(x)", "Max(x)", "Dropout(x)", "Identity(x)", "Cast<to = 1>(x)", "Concat<axis = 0>(x)"],
)
def test_nodes_that_hand_their_input_through(backend: OpenVinoBackend, node: str) -> None:
    agree(backend, model_of(f"[a] h = {node} [b] g = Exp(x) [c] y = Add(h, g)"), floats(2, 3))
    agree(backend, model_of(f"[a] y = {node}"), floats(2, 3))


def test_values_read_for_their_shape_alone(backend: OpenVinoBackend) -> None:
    model = model_of("[a] h = Exp(x) [b] s = Shape(h) [c] y = Expand(x, s)")
    region = region_of(model)
    (got,) = backend.compile(region)(floats(2, 3))
    np.testing.assert_array_equal(got, floats(2, 3))


@pytest.mark.parametrize("size", [4, 20000])
def test_inputs_of_every_kind_of_memory(backend: OpenVinoBackend, size: int) -> None:
    run = backend.compile(region_of(one_node("Abs", 13, [floats(2, size)])))
    plain = floats(2, size)
    frozen = floats(2, size)
    frozen.flags.writeable = False
    for given in (plain, frozen, np.asfortranarray(plain), floats(size, 2).T, plain[:, ::-1]):
        np.testing.assert_array_equal(run(given)[0], np.abs(given))


@pytest.mark.parametrize("size", [4, 20000])
def test_results_belong_to_the_caller(backend: OpenVinoBackend, size: int) -> None:
    run = backend.compile(region_of(one_node("Abs", 13, [floats(size)])))
    first = run(floats(size))[0]
    first[...] = 7
    second = run(floats(size, seed=1))[0]
    assert (first == 7).all()
    np.testing.assert_array_equal(second, np.abs(floats(size, seed=1)))


def test_both_kinds_of_int64_pass(backend: OpenVinoBackend) -> None:
    model = one_node("Gather", 13, [floats(5, 2), np.array([1, 2])])
    run = backend.compile(region_of(model))
    for kind in ("l", "q"):
        (got,) = run(floats(5, 2), np.array([3, 0], kind))
        np.testing.assert_array_equal(got, floats(5, 2)[[3, 0]])
    with pytest.raises(TypeError, match="an input is int32; the region takes int64"):
        run(floats(5, 2), np.array([3, 0], np.int32))


def test_weights_are_shared_and_outlive_the_model(backend: OpenVinoBackend) -> None:
    weight = floats(64, 64)
    weight.flags.writeable = False
    model = one_node("MatMul", 13, [floats(2, 64), weight], weights=(1,))
    run = backend.compile(region_of(model))
    node = weakref.ref(only_node(model))
    del model
    gc.collect()
    assert node() is None
    np.testing.assert_allclose(run(floats(2, 64))[0], floats(2, 64) @ weight, rtol=1e-3, atol=1e-4)


def test_dynamic_shapes_change_from_call_to_call(backend: OpenVinoBackend) -> None:
    model = one_node("Softmax", 13, [floats(3, 5)], shapes={0: ["n", 5]})
    run = backend.compile(region_of(model))
    for n in (1, 7, 0, 3):
        assert run(floats(n, 5))[0].shape == (n, 5)


def test_control_flow_runs_in_the_engine(backend: OpenVinoBackend) -> None:
    model = parsed("""<ir_version: 10, opset_import: ["": 18]>
    g (bool c, float[3] x) => (float[3] y) {
        h = Exp(x)
        y = If (c) <then_branch = t () => (float[3] a) { a = Relu(h) },
                    else_branch = e () => (float[3] b) { b = Neg(h) }>
    }""")
    for condition in (True, False):
        agree(backend, model, floats(3), np.array(condition))  # in order of first use


@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_bound_call_equals_the_plain_one(backend: OpenVinoBackend, given: int) -> None:
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
            assert len(got) == (outputs[0] is None)
            np.testing.assert_array_equal(y if outputs[0] is not None else got[0], a + b)


def test_buffers_of_another_shape_or_dtype_cannot_be_bound(backend: OpenVinoBackend) -> None:
    executable = backend.compile(region_of(one_node("Abs", 13, [floats(4)])))
    assert executable.bind([None], [np.empty(5, np.float32)]) is None
    assert executable.bind([None], [np.empty(4, np.float16)]) is None
    dynamic = one_node("Abs", 13, [floats(4)], shapes={0: ["n"]})
    assert backend.compile(region_of(dynamic)).bind([None], [np.empty(4, np.float32)]) is None


def test_threads_share_one_executable(backend: OpenVinoBackend) -> None:
    run = backend.compile(region_of(one_node("Neg", 13, [floats(9000)])))
    arrays = [np.full(9000, i, np.float32) for i in range(32)]
    with ThreadPoolExecutor(6) as pool:
        for given, (got,) in zip(arrays, pool.map(run, arrays), strict=True):
            np.testing.assert_array_equal(got, -given)


def test_messages_are_shortened() -> None:
    raw = """Exception from src/inference/src/cpp/core.cpp:105:
Check 'false' failed at src/frontends/x.cpp:151:
FrontEnd API failed with OpConversionFailure:
Model wasn't fully converted. Failed operations detailed log:
-- Gelu-20 with a message:
While validating ONNX node '<Node(Gelu): n3>': Check 'input' failed at gelu.cpp:22:
Wrong input type, expected FLOAT."""
    assert shortened(raw) == "Wrong input type, expected FLOAT"
    assert shortened("") == "no reason given"
