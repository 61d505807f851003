"""What a program does, in order: tasks over numbered values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from partita.backends.contract import Call, Executable

LEFT_OUT = -1
"""The slot of an optional input that a node leaves out; the call gets ``None``."""


Static = tuple[np.dtype[Any], tuple[int, ...]]
"""Element type and shape of a value, both known before a run."""


@final
@dataclass(frozen=True)
class Step:
    """One compiled region, or one operator run by the host.

    Attributes:
        name: Name of the region or of the node.
        backend: Who runs it.
        nodes: Names of the nodes that it computes, in topological order.
        inputs: Names of the values it takes, parameters passed to it included (``""``: left out).
        outputs: Names of the values it makes.
    """

    name: str
    backend: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A step with what computes it; values are slots, numbers unique in the schedule.

    Attributes:
        step: What it is, for people.
        call: Computes the step.
        inputs: Slots of the call's arguments, or ``LEFT_OUT``.
        outputs: Slots of what it returns.
        executable: The executable behind ``call`` if it may be bound to buffers.
    """

    step: Step
    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    executable: Executable | None = None


@final
@dataclass(frozen=True, eq=False)
class Schedule:
    """Tasks in an order in which they can run.

    Attributes:
        inputs: Slots that the caller fills.
        outputs: Slots that the caller receives, in graph order.
        tasks: What to do.
        constants: Slots whose content never changes: parameters, and buffers once bound.
        static: Element type and shape of the slots where both are known before a run.
        copied: Positions in ``outputs`` that would otherwise hand out an input, a constant
            or the same array twice; the caller gets a copy there.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tasks: tuple[Task, ...]
    constants: Mapping[int, Any]
    static: Mapping[int, Static]
    copied: frozenset[int] = frozenset()

    def last_reads(self) -> dict[int, int]:
        """Returns the last task that touches each slot that a task makes and nobody is handed."""
        last: dict[int, int] = {}
        for position, task in enumerate(self.tasks):
            last.update(dict.fromkeys(task.outputs, position))
            last.update((slot, position) for slot in task.inputs if slot in last)
        for slot in self.outputs:
            last.pop(slot, None)
        return last
