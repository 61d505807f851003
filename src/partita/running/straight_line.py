"""A schedule as one Python function without loops, look-ups or branches.

Generated text holds generated identifiers alone (``v12``, ``c3``, ``t0``): nothing that a model
file says can reach the compiler. Calling a step this way costs 20 to 30 ns; a loop over tuples
costs half as much again, an interpreter with a dictionary of values ten times as much.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NoReturn

from partita.errors import RunError, printable
from partita.running.admission import Admission
from partita.running.schedule import LEFT_OUT, Schedule, Step
from partita.running.values import fresh

Run = Callable[..., Any]


def straight_line(
    schedule: Schedule, admission: Admission | None = None, *, timed: bool = False
) -> Run:
    """Returns a function that runs the schedule once.

    Args:
        schedule: What to do.
        admission: Checks what a caller passes; without it the inputs are taken as they are.
        timed: The function returns ``(outputs, stamps)``: nanoseconds before the first task and
            after each.

    Returns:
        A function of as many arrays as the schedule has inputs; it returns a tuple. It raises
        ``RunError`` if a task fails and ``InputError`` if the admission refuses the inputs.
    """
    writer = _Writer(schedule, admission, timed)
    namespace = writer.namespace()
    exec(_code(writer.text()), namespace)
    return namespace["run"]


@functools.lru_cache(maxsize=8)
def _code(text: str) -> CodeType:
    return compile(text, "<partita program>", "exec")


class _Writer:
    """Writes the text of one function and keeps which line belongs to which task."""

    def __init__(self, schedule: Schedule, admission: Admission | None, timed: bool) -> None:
        self._schedule = schedule
        self._admission = admission
        self._timed = timed
        self._lines: list[str] = []
        self._task_at_line: dict[int, int] = {}

    def namespace(self) -> dict[str, Any]:
        """Returns the globals of the function: calls, constants and the inputs' checks."""
        steps = tuple(task.step for task in self._schedule.tasks)
        names: dict[str, Any] = {
            "explain": functools.partial(_explain, steps, self._task_at_line),
            "clock": time.perf_counter_ns,
            "fresh": fresh,
        }
        names.update((f"t{i}", task.call) for i, task in enumerate(self._schedule.tasks))
        names.update((f"c{slot}", value) for slot, value in self._schedule.constants.items())
        if self._admission is not None:
            names.update(self._admission.namespace())
        return names

    def text(self) -> str:
        """Returns the text of the function."""
        inputs = self._schedule.inputs
        if self._admission is None:
            self._write(0, f"def run({', '.join(f'v{slot}' for slot in inputs)}):")
        else:
            self._write(0, "def run(*arrays):")
            self._admit()
        self._write(1, "try:")
        self._tasks()
        self._write(2, f"return {self._result()}")
        self._write(1, "except Exception as error:")
        self._write(2, "explain(error)")
        return "\n".join(self._lines) + "\n"

    def _admit(self) -> None:
        assert self._admission is not None
        inputs = self._schedule.inputs
        arrays = "".join(f"v{slot}, " for slot in inputs)
        self._write(1, f"if len(arrays) != {len(inputs)}: admit(arrays)")
        if not inputs:
            return
        checked = [(i, inputs[i]) for i in self._admission.checked]
        guards = [f"type(v{slot}) is not ndarray" for _, slot in checked]
        guards += [f"v{slot}.dtype is not d{i}" for i, slot in checked]
        shapes = "".join(f"v{slot}.shape, " for _, slot in checked)
        guards.append(f"({shapes}) not in seen")
        self._write(1, f"{arrays}= arrays")
        self._write(1, f"if {' or '.join(guards)}: {arrays}= admit(arrays)")

    def _tasks(self) -> None:
        dies_at: dict[int, list[int]] = {}
        for slot, position in self._schedule.last_reads().items():
            dies_at.setdefault(position, []).append(slot)
        if self._timed:
            self._write(2, "stamps = [clock()]")
        for i, task in enumerate(self._schedule.tasks):
            arguments = ", ".join(self._name(slot) for slot in task.inputs)
            results = "".join(f"v{slot}, " for slot in task.outputs)
            self._task_at_line[len(self._lines) + 1] = i
            self._write(2, f"{results}{'= ' if results else ''}t{i}({arguments})")
            if self._timed:
                self._write(2, "stamps.append(clock())")
            if i in dies_at:
                self._write(2, "del " + ", ".join(f"v{slot}" for slot in dies_at[i]))

    def _result(self) -> str:
        schedule = self._schedule
        results = [self._name(slot) for slot in schedule.outputs]
        for position in schedule.copied:
            results[position] = f"fresh({results[position]})"
        outputs = "(" + "".join(f"{result}, " for result in results) + ")"
        return f"{outputs}, stamps" if self._timed else outputs

    def _name(self, slot: int) -> str:
        if slot == LEFT_OUT:
            return "None"
        return f"c{slot}" if slot in self._schedule.constants else f"v{slot}"

    def _write(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)


def _explain(
    steps: tuple[Step, ...], task_at_line: Mapping[int, int], error: Exception
) -> NoReturn:
    """Raises what a failed run shows: which step, which backend, which nodes, and why.

    The line at which the exception left the generated function tells the step, so that a run
    that does not fail pays nothing for it.
    """
    if isinstance(error, RunError):  # a step inside a body has already said where
        raise error
    line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
    if line not in task_at_line:  # copying an output at the end, out of memory
        raise RunError(
            f"handing out the outputs failed: {type(error).__name__}: {error}"
        ) from error
    step = steps[task_at_line[line]]
    shown = ", ".join(f"'{printable(name)}'" for name in step.nodes[:8])
    more = f" and {len(step.nodes) - 8} more" if len(step.nodes) > 8 else ""
    raise RunError(
        f"step '{printable(step.name)}' of backend '{step.backend}' failed "
        f"(nodes {shown}{more}): {type(error).__name__}: {error}"
    ) from error
