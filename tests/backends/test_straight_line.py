from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.backends.straight_line import Step, straight_line


def value(name: str) -> ir.Value:
    return ir.Value(name=name)


def test_steps_run_in_order_with_constants() -> None:
    x, w, a, y = map(value, "xway")
    steps = [Step(np.add, (x, w), (a,)), Step(np.multiply, (a, a), (y,))]
    run = straight_line(steps, (x,), (y, a), {w: np.array([1.0, 2.0])})
    assert [v.tolist() for v in run(np.array([1.0, 1.0]))] == [[4.0, 9.0], [2.0, 3.0]]


def test_several_outputs_and_left_out_inputs() -> None:
    x, a, b = map(value, "xab")
    run = straight_line(
        [Step(lambda p, q: (p, q is None, "more"), (x, None), (a, b))], (x,), (b,), {}
    )
    assert run(np.zeros(1)) == (True,)


def test_a_tuple_of_one_is_its_element_and_a_list_is_a_sequence() -> None:
    x, a, b = map(value, "xab")
    one, many = Step(lambda p: (p + 1,), (x,), (a,)), Step(lambda p: [p, p], (a,), (b,))
    (got,) = straight_line([one, many], (x,), (b,), {})(np.zeros(1))
    assert [g.tolist() for g in got] == [[1.0], [1.0]]


def test_values_are_freed_after_their_last_use() -> None:
    alive: list[weakref.ref[Any]] = []
    counts: list[int] = []

    def make(p: Any) -> Any:
        counts.append(sum(r() is not None for r in alive))
        result = p + 1
        alive.append(weakref.ref(result))
        return result

    values = [value(f"v{i}") for i in range(30)]
    steps = [Step(make, (a,), (b,)) for a, b in itertools.pairwise(values)]
    straight_line(steps, values[:1], values[-1:], {})(np.zeros(1000))
    assert max(counts) <= 1


def test_results_never_share_memory_with_inputs_or_constants() -> None:
    x, w, a, b, c = map(value, "xwabc")
    weight, fed = np.arange(4.0), np.arange(4.0)
    steps = [
        Step(lambda p: p, (x,), (a,)),
        Step(lambda p: p.reshape(2, 2).T, (w,), (b,)),
        Step(lambda p: [p[:2], p], (x,), (c,)),
    ]
    one, two, three = straight_line(steps, (x,), (a, b, c), {w: weight})(fed)
    for result in (one, two, *three):
        result[...] = -1
    assert weight.tolist() == [0, 1, 2, 3]
    assert fed.tolist() == [0, 1, 2, 3]


def test_fresh_results_are_not_copied() -> None:
    x, a = map(value, "xa")
    made: list[Any] = []

    def make(p: Any) -> Any:
        made.append(p * 2)
        return made[-1].reshape(2, 2)

    (result,) = straight_line([Step(make, (x,), (a,))], (x,), (a,), {})(np.arange(4.0))
    assert np.shares_memory(result, made[0])
