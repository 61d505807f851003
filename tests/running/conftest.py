"""Small schedules to run without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from partita.backends.contract import Executable
from partita.running.program import Program
from partita.running.schedule import Schedule, Step, Task
from partita.running.specs import Spec

F4 = np.dtype("float32")


class Bindable(Executable):
    """An elementwise function that can write into a buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.bound = 0

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return (self.function(*inputs),)

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        self.bound += 1

        def call(*rest: Any) -> Sequence[Any]:
            left = iter(rest)
            result = self.function(*[next(left) if i is None else i for i in inputs])
            if outputs[0] is None:
                return (result,)
            np.copyto(outputs[0], result)
            return ()

        return call


def chain(
    *calls: Any,
    shape: tuple[Any, ...] = (4,),
    names: Sequence[str] = (),
    constants: Mapping[int, Any] | None = None,
) -> Program:
    """Returns the program x -> calls[0] -> calls[1] … -> y of one array."""
    static = (F4, shape) if all(isinstance(d, int) for d in shape) else None
    tasks = []
    for i, call in enumerate(calls):
        name = names[i] if names else f"step{i}"
        step = Step(name, f"backend{i % 2}", (f"node of {name}",), (f"v{i}",), (f"v{i + 1}",))
        bindable = call if isinstance(call, Executable) else None
        tasks.append(Task(step, call.__call__, (i,), (i + 1,), bindable))
    schedule = Schedule(
        inputs=(0,),
        outputs=(len(calls),),
        tasks=tuple(tasks),
        constants=constants or {},
        static={} if static is None else dict.fromkeys(range(len(calls) + 1), static),
    )
    return Program(schedule, (Spec("x", F4, shape),), (Spec("y", F4, shape),))


class Kit:
    Bindable = Bindable
    chain = staticmethod(chain)


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
