from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import RunError
from partita.running.schedule import Schedule, Step, Task
from partita.running.straight_line import _Writer, straight_line

EVIL = ['"); raise SystemExit("', "a\nimport os", "'''", "{x}", "\\", "\u2028", "__import__('os')"]


def schedule(names: list[str]) -> Schedule:
    tasks = tuple(
        Task(Step(n, n, (n,), (n,), (n,)), lambda x: (x + 1,), (i,), (i + 1,))
        for i, n in enumerate(names)
    )
    return Schedule((0,), (len(names),), tasks, {}, {})


@given(st.lists(st.text() | st.sampled_from(EVIL), min_size=1, max_size=6))
def test_generated_text_holds_nothing_of_a_model(names: list[str]) -> None:
    written = _Writer(schedule(names), None, False).text()
    assert written == _Writer(schedule(["plain"] * len(names)), None, False).text()
    words = set(re.findall(r"[A-Za-z_]\w*", written))
    known = {"def", "run", "try", "return", "except", "Exception", "as", "error", "explain", "del"}
    assert all(re.fullmatch(r"[vt]\d+", word) for word in words - known)


@given(st.integers(0, 40))
def test_the_failing_step_is_found_wherever_it_stands(position: int) -> None:
    def fail(x: object) -> object:
        raise ValueError("here")

    tasks = [
        Task(Step(f"s{i}", "b", (f"n{i}",), (), ()), lambda x: (x,), (i,), (i + 1,))
        for i in range(41)
    ]
    old = tasks[position]
    tasks[position] = Task(old.step, fail, old.inputs, old.outputs)
    run = straight_line(Schedule((0,), (41,), tuple(tasks), {}, {}))
    with pytest.raises(
        RunError, match=f"step 's{position}' of backend 'b' failed .nodes 'n{position}'"
    ):
        run(np.zeros(1))


def test_ten_thousand_steps_are_no_trouble() -> None:
    run = straight_line(schedule(["s"] * 10_000))
    assert run(0) == (10_000,)
