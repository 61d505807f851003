"""Fixes values of a schedule to buffers that producers write and consumers read in place."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from partita.errors import printable
from partita.running.schedule import Schedule, Task
from partita.running.values import Array, is_array

logger = logging.getLogger("partita.running")

ALIGNMENT = 64
"""Bytes; with less, engines copy or load slowly."""


def bind(schedule: Schedule, given: Mapping[int, Array] | None = None) -> Schedule | None:
    """Returns the schedule with every value bound that producer and consumer can keep in a buffer.

    Args:
        schedule: What to bind; its executables are asked, nothing is changed.
        given: Buffers of the caller's for output slots; they must be C-contiguous.

    Returns:
        A schedule for one thread at a time, or ``None`` if no executable could be bound.
    """
    held: dict[int, Any] = dict(schedule.constants)
    buffers: dict[int, Array] = {}
    tasks: list[Task] = []
    keep = set(schedule.outputs)
    for task in schedule.tasks:
        wanted = {
            slot: given[slot] if given is not None and slot in given else _buffer(schedule, slot)
            for slot in task.outputs
            if (given is not None and slot in given)
            or (slot in schedule.static and slot not in keep)
        }
        bound, written = _bound(task, {**held, **buffers}, wanted)
        buffers.update(written)
        tasks.append(bound)
    if all(new is old for new, old in zip(tasks, schedule.tasks, strict=True)):
        return None
    return dataclasses.replace(schedule, tasks=tuple(tasks), constants={**held, **buffers})


def _bound(
    task: Task, held: Mapping[int, Any], wanted: Mapping[int, Array]
) -> tuple[Task, Mapping[int, Array]]:
    """Returns the task bound to what is held and wanted, and the buffers that it now writes."""
    if task.executable is None:
        return task, {}
    inputs = [_readable(held.get(slot)) for slot in task.inputs]
    outputs = [wanted.get(slot) for slot in task.outputs]
    if all(buffer is None for buffer in (*inputs, *outputs)):
        return task, {}
    try:
        call = task.executable.bind(inputs, outputs)
    except Exception as error:  # binding only saves time: without it the step still runs
        name, words = printable(task.step.name), printable(str(error))
        logger.warning("step '%s': %s cannot bind buffers: %s", name, task.step.backend, words)
        return task, {}
    if call is None:
        return task, {}
    bound = Task(
        step=task.step,
        call=call,
        inputs=tuple(s for s, b in zip(task.inputs, inputs, strict=True) if b is None),
        outputs=tuple(s for s, b in zip(task.outputs, outputs, strict=True) if b is None),
    )
    return bound, wanted


def _readable(value: Any) -> Array | None:
    if is_array(value) and value.flags.c_contiguous and value.dtype.kind != "O":
        return value
    return None


def _buffer(schedule: Schedule, slot: int) -> Array:
    dtype, shape = schedule.static[slot]
    return aligned(dtype, shape)


def aligned(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Returns an uninitialised array whose first byte lies on a multiple of 64 bytes."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)
