from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.backends.contract import Call
from partita.backends.host import Body, HostBackend, control_flow, interpret, node_call
from partita.errors import CompileError
from partita.inferring.stage import infer
from partita.loading.stage import load
from partita.model import Model
from single import floats, region_of


def parsed(text: str, opset: int = 18) -> Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    return infer(load(onnx.parser.parse_model(f"{header} {text}")), fold=False)


def run(model: Model) -> Call:
    region = region_of(model)
    names = {name: i for i, name in enumerate(region.inputs)}
    call = HostBackend().compile(region)
    order = [v.name for v in model.inputs if v.name in names]

    def in_graph_order(*arrays: Any) -> Any:
        fed = dict(zip(order, arrays, strict=True))
        return call(*(fed[name] for name in region.inputs))

    return in_graph_order


IF = """g (bool c, float[2] x) => (float[2] y, float[2] z) {
    h = Exp(x)
    y, z = If (c)
        <then_branch = t () => (float[2] a, float[2] b) { a = Neg(h) b = Add(a, x) },
         else_branch = e () => (float[2] p, float[2] q) { p = Abs(x) q = Identity(h) }>
}"""


@pytest.mark.parametrize("condition", [np.array(True), np.array([False])])
def test_if_runs_one_branch_with_what_it_captures(condition: Any) -> None:
    x = floats(2)
    y, z = run(parsed(IF))(condition, x)
    if condition.all():
        np.testing.assert_array_equal(y, -np.exp(x))
        np.testing.assert_array_equal(z, -np.exp(x) + x)
    else:
        np.testing.assert_array_equal(y, np.abs(x))
        np.testing.assert_array_equal(z, np.exp(x))


def test_a_condition_of_several_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="the condition of If holds 2 values, not one"):
        run(parsed(IF.replace("bool c", "bool[k] c")))(np.array([True, False]), floats(2))


LOOP = """g (int64 m, bool c, float[2] x, float bound) => (float[2] y, float[k, 2] s, float[k] t) {
    y, s, t = Loop (%s, %s, x) <body = b (int64 i, bool going, float[2] v)
        => (bool more, float[2] w, float[2] row, float total) {
            w = Add(v, x)
            row = Identity(v)
            axes = Constant<value_ints = [0]>()
            total = ReduceSum<keepdims = 0>(w, axes)
            more = Less(total, bound)
        }>
}"""


@settings(max_examples=40)
@given(limit=st.integers(0, 6), start=st.booleans(), bound=st.floats(0, 12, width=32))
def test_loop_stops_at_its_limit_or_condition(limit: int, start: bool, bound: float) -> None:
    x = np.array([1.0, 1.0], np.float32)
    model = parsed(LOOP % ("m", "c"))
    y, s, t = run(model)(np.array(limit), np.array(start), x, np.array(bound, np.float32))
    state, rows, totals, going = x, [], [], start
    while going and len(rows) < limit:
        rows.append(state)
        state = state + x
        totals.append(state.sum())
        going = totals[-1] < bound
    np.testing.assert_array_equal(y, state)
    assert s.shape == (len(rows), 2)
    assert t.shape == (len(rows),)
    assert (s.dtype, t.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(t, np.array(totals, np.float32))


@pytest.mark.parametrize(
    ("inputs", "arrays", "rounds"),
    [
        (("m", ""), {"m": 3}, 3),  # a for loop: the body's condition is ignored
        (("", "c"), {"c": True}, 2),  # a while loop
        (("", "c"), {"c": False}, 0),
    ],
)
def test_loop_without_limit_or_condition(
    inputs: tuple[str, str], arrays: dict[str, Any], rounds: int
) -> None:
    one = np.ones(2, np.float32)
    model = parsed(LOOP % inputs)
    fed = {**{k: np.array(v) for k, v in arrays.items()}, "x": one, "bound": np.float32(5)}
    call = HostBackend().compile(region_of(model))
    y, s, _ = call(*(np.asarray(fed[name]) for name in region_of(model).inputs))
    assert len(s) == rounds
    np.testing.assert_array_equal(y, one * (rounds + 1))


SCAN = """g (float[2] state, float[n, 3] a, float[2, n] b) => (float[2] last, float[p, q] rows) {
    last, rows = Scan <num_scan_inputs = 2, scan_input_axes = [0, -1],
        scan_input_directions = [%d, %d], scan_output_axes = [%d], scan_output_directions = [%d],
        body = s (float[2] u, float[3] v, float[2] w) => (float[2] next, float[3] row) {
            next = Add(u, w)
            ones = Constant<value_ints = [0]>()
            t = ReduceSum(next, ones)
            row = Add(v, t)
        }> (state, a, b)
}"""


@settings(max_examples=40)
@given(
    back=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    axis=st.sampled_from([0, 1, -1]),
    flipped=st.integers(0, 1),
    length=st.integers(0, 4),
)
def test_scan_axes_and_directions(
    back: tuple[int, int], axis: int, flipped: int, length: int
) -> None:
    state, a, b = floats(2), floats(length, 3, seed=1), floats(2, length, seed=2)
    last, rows = run(parsed(SCAN % (*back, axis, flipped)))(state, a, b)
    wanted, results = state, []
    for i in range(length):
        wanted = wanted + b[:, length - 1 - i if back[1] else i]
        results.append(a[length - 1 - i if back[0] else i] + wanted.sum(keepdims=True))
    np.testing.assert_array_equal(last, wanted)
    if flipped:
        results.reverse()
    shape = (length, 3) if axis == 0 else (3, length)
    assert rows.shape == shape
    if results:
        np.testing.assert_array_equal(rows, np.stack(results, axis))


def test_scan_of_opset_8_has_batches_and_lengths() -> None:
    model = parsed(
        """g (int64[2] lengths, float[2, 1] state, float[2, 3, 1] x)
        => (float[2, 1] last, float[2, 3, 1] rows) {
        last, rows = Scan <num_scan_inputs = 1, directions = [1],
            body = s (float[1] u, float[1] v) => (float[1] next, float[1] row) {
                next = Add(u, v)
                row = Identity(next)
            }> (lengths, state, x)
        }""",
        opset=8,
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    last, rows = run(model)(np.array([3, 2]), np.zeros((2, 1), np.float32), x)
    assert last.tolist() == [[3.0], [7.0]]
    assert rows[..., 0].tolist() == [[2.0, 3.0, 3.0], [4.0, 7.0, 0.0]]


def test_sequence_map_runs_its_body_an_element() -> None:
    model = parsed("""g (seq(float[2]) s, float[2] t) => (seq(float[2]) y) {
        y = SequenceMap (s, t) <body = b (float[2] v, float[2] w) => (float[2] r) { r = Add(v, w) }>
    }""")
    (got,) = run(model)([floats(2), floats(2, seed=1)], floats(2, seed=2))
    assert [g.tolist() for g in got] == [
        (floats(2) + floats(2, seed=2)).tolist(),
        (floats(2, seed=1) + floats(2, seed=2)).tolist(),
    ]
    assert run(model)([], floats(2))[0] == []


def test_bodies_are_given_compiled() -> None:
    model = parsed(IF)
    node = model.graph[1]
    calls: list[Any] = []

    def branch(*captured: Any) -> Any:
        calls.append(captured)
        return captured

    call = control_flow(node, {"then_branch": Body(branch, (1, 0)), "else_branch": Body(branch)})
    assert call(np.array(True), "first", "second") == ("second", "first")
    assert call(np.array(False), "first", "second") == ()
    with pytest.raises(CompileError, match="body 'else_branch' was not compiled"):
        control_flow(node, {"then_branch": Body(branch)})


def test_bodies_nest() -> None:
    model = parsed("""g (int64 m, bool c, float[1] x) => (float[1] y) {
        y = Loop (m, c, x) <body = b (int64 i, bool go, float[1] v) => (bool more, float[1] w) {
            more = Identity(go)
            w = If (go) <then_branch = t () => (float[1] p) { p = Add(v, x) },
                         else_branch = e () => (float[1] q) { q = Neg(v) }>
        }>
    }""")
    (y,) = run(model)(np.array(4), np.array(True), np.ones(1, np.float32))
    assert y.tolist() == [5.0]


def test_a_refused_node_in_a_body_refuses_the_whole() -> None:
    model = parsed(IF)
    node = model.graph[1]
    inner = node.attributes["then_branch"].as_graph()[0]
    inner.op_type = "Nge"
    refusal = HostBackend().why_not(node) or ""
    assert refusal.startswith("its body holds Nge")
    assert "did you mean" in refusal


def test_interpret_runs_a_graph_with_its_weights() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) <float[2] w = {2, 3}> { h = Mul(x, w) y = Exp(h) }"
    )
    (y,) = interpret(model.graph)(np.ones(2, np.float32))
    np.testing.assert_array_equal(y, np.exp(np.array([2, 3], np.float32)))
    assert node_call(model.graph[1])(np.zeros(1, np.float32))[0].tolist() == [1.0]


def test_a_long_graph_needs_no_recursion() -> None:
    lines = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(3000))
    model = parsed(f"g (float[1] v0) => (float[1] v3000) {{ {lines} }}")
    (y,) = run(model)(np.ones(1, np.float32))
    assert y.tolist() == [1.0]
