from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import onnx.reference.op_run
import pytest

from partita.backends.host import HostBackend, operator, reference
from single import floats, one_node, only_node, region_of


@pytest.mark.parametrize(
    ("op", "domain", "version", "sentence"),
    [
        ("Conv", "", 22, None),
        ("Adam", "ai.onnx.preview.training", 1, None),
        ("Scaler", "ai.onnx.ml", 1, None),
        ("HardSwish", "", 22, None),
        (
            "Gradient",
            "ai.onnx.preview.training",
            1,
            "ONNX's reference evaluator does not implement",
        ),
        ("Scatter", "", 11, "Scatter was withdrawn by opset 11"),
        ("Gelu", "", 18, "Gelu came with opset 20; the node is at 18"),
        ("Cnov", "", 18, "no op of ONNX is named 'Cnov'; did you mean 'Conv'"),
        ("Add", "acme", 1, "the host knows no op of domain 'acme'"),
    ],
)
def test_refusals(op: str, domain: str, version: int, sentence: str | None) -> None:
    refusal = reference._why_not(op, domain, version)
    assert (refusal is None) == (sentence is None)
    assert (refusal or "").startswith(sentence or "")


def test_an_operator_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    original = onnx.reference.op_run.OpRun.__init__

    def counted(self: object, node: onnx.NodeProto, *rest: object, **more: object) -> None:
        built.append(node.op_type)
        original(self, node, *rest, **more)

    monkeypatch.setattr(onnx.reference.op_run.OpRun, "__init__", counted)
    call = operator(only_node(one_node("MatMul", 13, [floats(2, 2)] * 2)))
    for seed in range(5):
        (got,) = call(floats(2, 2, seed=seed), floats(2, 2))
        np.testing.assert_array_equal(got, floats(2, 2, seed=seed) @ floats(2, 2))
    assert built == ["MatMul"]


def test_version_of_the_node_chooses_the_implementation() -> None:
    x = np.array([[-3.0, 0.5, 9.0]], np.float32)
    old = operator(only_node(one_node("Clip", 6, [x], min=0.0, max=1.0)))
    new = operator(
        only_node(
            one_node("Clip", 13, [x, np.float32(0)[None][0:1].reshape(()), np.array(1, np.float32)])
        )
    )
    assert old(x)[0].tolist() == [[0.0, 0.5, 1.0]]
    assert new(x, np.array(0, np.float32), np.array(1, np.float32))[0].tolist() == [[0.0, 0.5, 1.0]]


def test_left_out_inputs_are_none() -> None:
    node = only_node(one_node("Clip", 13, [floats(3), None, np.array(0, np.float32)]))
    (got,) = operator(node)(floats(3), None, np.array(0, np.float32))
    np.testing.assert_array_equal(got, np.minimum(floats(3), 0))


def test_an_op_defined_by_others_without_known_dtypes_waits_for_arrays() -> None:
    node = only_node(one_node("CenterCropPad", 18, [floats(4, 4), np.array([2, 2])]))
    for value in (*node.inputs, *node.outputs):
        assert value is not None
        value.type = None
    call = reference.evaluated(node)
    for dtype in (np.float32, np.float64):
        x = floats(4, 4).astype(dtype)
        (got,) = call(x, np.array([2, 2]))
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, x[1:3, 1:3])


def test_text_comes_out_as_objects() -> None:
    x = np.array([1.5, -2.0], np.float32)
    (got,) = operator(only_node(one_node("Cast", 13, [x], to=8)))(x)
    assert got.dtype == object
    assert got.tolist() == ["1.5", "-2.0"]


def test_small_floats_are_ml_dtypes() -> None:
    x = floats(4)
    (got,) = operator(only_node(one_node("Cast", 19, [x], to=16)))(x)
    assert got.dtype == ml_dtypes.bfloat16


def test_ieee_arithmetic_raises_no_warning() -> None:
    x = np.array([0.0, -1.0], np.float32)
    node = only_node(one_node("ReduceLogSum", 18, [x]))
    assert np.isnan(operator(node)(x)[0]).all()


@pytest.mark.parametrize("op", ["LSTM", "MatMul", "TopK"])
def test_threads_share_one_operator(op: str) -> None:
    given = {
        "LSTM": ([floats(4, 2, 3), floats(1, 16, 3), floats(1, 16, 4)], {"hidden_size": 4}),
        "MatMul": ([floats(8, 8), floats(8, 8)], {}),
        "TopK": ([floats(8, 8), np.array([3])], {}),
    }
    inputs, attributes = given[op]
    outputs = 2 if op == "TopK" else 1
    run = HostBackend().compile(region_of(one_node(op, 14, inputs, outputs, **attributes)))
    firsts = [floats(*inputs[0].shape, seed=i) for i in range(24)]
    wanted = [run(x, *inputs[1:])[0] for x in firsts]
    with ThreadPoolExecutor(8) as pool:
        got = pool.map(lambda x: run(x, *inputs[1:])[0], firsts)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
