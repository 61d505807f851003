"""The program: what a plan becomes, ready to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from partita.backends.contract import Array
from partita.errors import InputError, UnknownNameError, printable
from partita.running.admission import Admission
from partita.running.binding import bind
from partita.running.profile import Profile, measured
from partita.running.report import Report
from partita.running.schedule import Schedule, Step
from partita.running.specs import Spec, dtype_name
from partita.running.straight_line import Run, straight_line
from partita.running.values import is_array

OUTPUT_SETS = 8
"""Sets of caller-owned output buffers whose bindings are kept."""


@final
class Program:
    """A compiled model. Calls may come from several threads at once.

    ``partita.compile`` makes it. It holds the compiled regions and those parameters that no
    engine has taken over, but neither the plan nor the model.

    Attributes:
        inputs: Name, element type and shape of every input, in graph order.
        outputs: The same of every output.
        steps: What a run does, in order.
        report: What compiling did: who compiled what, how long it took, what failed.
    """

    def __init__(
        self,
        schedule: Schedule,
        inputs: tuple[Spec, ...],
        outputs: tuple[Spec, ...],
        report: Report | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.report = report or Report()
        self._schedule = schedule
        self._admission = Admission(inputs)
        self._output_names = tuple(spec.name for spec in outputs)
        self._run = straight_line(schedule, self._admission)
        # The bound form of the schedule writes into buffers, so each running call needs its own.
        # A deque's append and pop are atomic: the pool needs no lock.
        self._pool: deque[Run] = deque()
        self._bound_outputs: dict[tuple[tuple[str, int], ...], tuple[Mapping[int, Array], Run]] = {}
        self._binds = self._binding_pays()

    @property
    def steps(self) -> tuple[Step, ...]:
        """What a run does, in order."""
        return tuple(task.step for task in self._schedule.tasks)

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self.inputs))
        gives = ", ".join(map(str, self.outputs))
        return printable(f"Program({takes} -> {gives}; {len(self.steps)} steps)", 1000)

    def __call__(self, *arrays: Any, out: Mapping[str, Array] | None = None) -> tuple[Any, ...]:
        """Runs the model.

        Args:
            *arrays: Inputs in graph order: numpy arrays, or anything numpy can read without a
                change of type (torch tensors on the CPU, for example).
            out: Buffers for outputs by name. They are written and returned; engines that can
                write into them directly do. Buffers used again are recognised, so a loop over
                the same buffers pays nothing for it. Use a buffer in one thread at a time, and
                let none overlap an input.

        Returns:
            Outputs in graph order. They are the caller's: no later run changes them.

        Raises:
            InputError: The inputs (or buffers) do not fit the model.
            RunError: A step failed.
        """
        if out:
            return self._run_into(arrays, out)
        if not self._binds:
            return self._run(*arrays)
        try:
            run = self._pool.pop()
        except IndexError:
            run = self._bound_run({})
        try:
            return run(*arrays)
        finally:
            self._pool.append(run)

    def run(
        self, feeds: Mapping[str, Any], out: Mapping[str, Array] | None = None
    ) -> dict[str, Any]:
        """Runs the model on inputs by name and returns outputs by name.

        Raises:
            InputError: An input is missing, unknown or does not fit.
            RunError: A step failed.
        """
        arrays = self._admission.by_name(feeds)
        results = self._run_into(tuple(arrays), out) if out else self(*arrays)
        # A run returns as many values as there are names; strict= would cost 0.3 µs a run.
        return dict(zip(self._output_names, results))  # noqa: B905

    def profile(self, *arrays: Any, runs: int = 20, warmup: int = 3) -> Profile:
        """Runs the model several times and measures every step.

        Args:
            *arrays: Inputs in graph order.
            runs: Measured runs.
            warmup: Runs before them that do not count.

        Raises:
            InputError: The inputs do not fit, or ``runs`` is less than one.
            RunError: A step failed.
        """
        schedule = (bind(self._schedule) if self._binds else None) or self._schedule
        timed = straight_line(schedule, self._admission, timed=True)
        return measured(self.steps, timed, arrays, runs, warmup)

    def _binding_pays(self) -> bool:
        """Tells whether two executables can hand a value over in a buffer."""
        bindable = [task for task in self._schedule.tasks if task.executable is not None]
        made = {slot for task in bindable for slot in task.outputs} & set(self._schedule.static)
        made -= set(self._schedule.outputs)
        if not any(slot in made for task in bindable for slot in task.inputs):
            return False
        bound = bind(self._schedule)
        if bound is None:
            return False
        self._pool.append(straight_line(bound, self._admission))
        return True

    def _bound_run(self, given: Mapping[int, Array]) -> Run:
        return straight_line(bind(self._schedule, given) or self._schedule, self._admission)

    def _run_into(self, arrays: tuple[Any, ...], out: Mapping[str, Array]) -> tuple[Any, ...]:
        """Runs with the caller's buffers; what no engine writes in place is copied there."""
        # Taken out while it runs and put back afterwards: both are atomic, and a second thread
        # with the same buffers builds a binding of its own.
        key = tuple((name, id(buffer)) for name, buffer in out.items())
        given, run = self._bound_outputs.pop(key, None) or self._bind_outputs(out)
        results = list(run(*arrays))
        for position, slot in enumerate(self._schedule.outputs):
            buffer = given.get(slot)
            if buffer is not None and results[position] is not buffer:
                _store(self.outputs[position], results[position], buffer)
                results[position] = buffer
        self._bound_outputs[key] = given, run
        for old in list(self._bound_outputs)[:-OUTPUT_SETS]:
            self._bound_outputs.pop(old, None)
        return tuple(results)

    def _bind_outputs(self, out: Mapping[str, Array]) -> tuple[Mapping[int, Array], Run]:
        specs = {spec.name: i for i, spec in enumerate(self.outputs)}
        given: dict[int, Array] = {}
        for name, buffer in out.items():
            if name not in specs:
                raise InputError(str(UnknownNameError("output", name, specs)))
            given[self._schedule.outputs[specs[name]]] = _checked(self.outputs[specs[name]], buffer)
        produced = {slot for task in self._schedule.tasks for slot in task.outputs}
        contiguous = {
            slot: buffer
            for slot, buffer in given.items()
            if slot in produced and buffer.flags.c_contiguous and slot in self._schedule.static
        }
        return given, self._bound_run(contiguous)


def _checked(spec: Spec, buffer: Any) -> Array:
    """Returns an output buffer that fits the spec."""
    name = printable(spec.name)
    if not is_array(buffer):
        raise InputError(
            f"buffer for output '{name}' is a {type(buffer).__name__}; it needs a numpy array"
        )
    if spec.dtype is not None and buffer.dtype != spec.dtype:
        raise InputError(
            f"buffer for output '{name}' is {dtype_name(buffer.dtype)}; "
            f"the model makes {dtype_name(spec.dtype)}"
        )
    if spec.static_shape is not None and buffer.shape != spec.static_shape:
        raise InputError(
            f"buffer for output '{name}' has shape {buffer.shape}; "
            f"the model makes {spec.static_shape}"
        )
    if not buffer.flags.writeable:
        raise InputError(f"buffer for output '{name}' is read-only; it needs a writeable array")
    return buffer


def _store(spec: Spec, result: Any, buffer: Array) -> None:
    if not is_array(result) or result.shape != buffer.shape:
        found = result.shape if is_array(result) else type(result).__name__
        raise InputError(
            f"buffer for output '{printable(spec.name)}' has shape {buffer.shape}; "
            f"this run made {found}"
        )
    np.copyto(buffer, result, casting="no")
