"""Trials: regions that a backend claims, compiled alone, with what flows into and out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np

from partita import verbs
from partita.backends.contract import Backend, Call, Executable, FunctionExecutable, Region
from partita.model import Model
from partita.running.values import fresh, is_array
from partita.subgraph import cut
from partita.testing.agreement import DEFAULT_TOLERANCES, Tolerances, disagreement
from partita.testing.cases import Case, reference


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """A region of a case that a backend claims, with arrays to run it on.

    Attributes:
        case: Where the region comes from.
        model: The loaded model.
        region: The region.
        inputs: Arrays for ``region.inputs``.
        outputs: What must come out, in the order of ``region.outputs``.
    """

    case: Case
    model: Model
    region: Region
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def plain(self) -> bool:
        """Whether everything that flows is an array of numbers: no text, sequence or ``None``."""
        return all(
            is_array(value) and value.dtype.kind in "fiub"
            for value in (*self.inputs, *self.outputs)
        )

    def compile(self, backend: Backend) -> Executable:
        """Compiles the region; a plain function is wrapped."""
        made = backend.compile(self.region)
        return made if isinstance(made, Executable) else FunctionExecutable(made)

    def passed(self, backend: Backend) -> tuple[Any, ...]:
        """Returns the arrays of the parameters that the backend does not own."""
        owned = set(backend.owns(self.region))
        return tuple(self.region.parameter(p) for p in self.region.parameters if p not in owned)

    def copies(self) -> tuple[Any, ...]:
        """Returns fresh copies of the inputs: no call may depend on where they lie."""
        return tuple(map(fresh, self.inputs))

    def differs(
        self,
        found: Sequence[Any],
        tolerances: Tolerances = DEFAULT_TOLERANCES,
        *,
        numbers: bool = True,
    ) -> str:
        """Returns how outputs differ from what must come out, ``""`` if they do not."""
        names = self.region.outputs
        return disagreement(names, found, self.outputs, tolerances, numbers=numbers)


def trials(backend: Backend, cases: Iterable[Case], limit: int) -> list[Trial]:
    """Returns up to ``limit`` regions that a backend claims, one a case, of many ops.

    Cases that draw random numbers, and those that the reference evaluator cannot run inside, are
    passed over.
    """
    found: list[Trial] = []
    rest: list[Trial] = []
    seen: set[str] = set()
    for case in cases:
        if len(found) >= limit:
            break
        trial = None if case.drawn else _trial(backend, case)
        if trial is None:
            continue
        ops = {node.op_type for node in trial.region.ir_nodes}
        (found if ops - seen else rest).append(trial)
        seen |= ops
    return [*found, *rest[: limit - len(found)]]


def _trial(backend: Backend, case: Case) -> Trial | None:
    model = case.load()
    plan = verbs.partition(model, [backend])
    regions = [r for r in plan.regions if r.backend == backend.name and r.graph == ""]
    region = max(regions, key=lambda r: len(r.nodes)) if regions else _whole(backend, model)
    if region is None:
        return None
    feeds = dict(zip((str(v.name) for v in model.inputs), case.inputs, strict=True))
    names = (*region.inputs, *region.outputs)
    try:
        values = reference(model, feeds, names)
    except Exception:  # whatever the reference evaluator cannot do is no trial
        return None
    arrays = tuple(_array(value) for value in values)
    return Trial(case, model, region, arrays[: len(region.inputs)], arrays[len(region.inputs) :])


def _whole(backend: Backend, model: Model) -> Region | None:
    """Returns the whole model as a region, for a backend that takes all of it and forms none."""
    nodes = tuple(model.graph)
    if not nodes or backend.patterns() or any(backend.why_not(node) for node in nodes):
        return None
    found = cut(model, nodes)
    return Region(
        name=f"{backend.name}_0",
        backend=backend.name,
        nodes=tuple(str(node.name) for node in nodes),
        inputs=tuple(str(value.name) for value in found.inputs),
        outputs=tuple(str(value.name) for value in found.outputs),
        parameters=tuple(str(value.name) for value in found.parameters),
        options=backend.options,
        subgraph=found,
    )


def _array(value: Any) -> Any:
    """Returns a numpy scalar, which the reference evaluator may give, as an array."""
    return np.asarray(value) if np.isscalar(value) else value


Result = TypeVar("Result")
Bound = tuple[Call, list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]


def bound(trial: Trial, executable: Executable, extra: Sequence[Any]) -> Bound | None:
    """Binds an executable to buffers for all inputs and outputs; ``None`` if it cannot.

    Returns:
        The call, the input buffers (holding the trial's inputs) and the output buffers.
    """
    inputs = [np.array(v, order="C") for v in (*trial.inputs, *extra)]
    outputs = [np.zeros_like(v, order="C") for v in trial.outputs]
    call = executable.bind(inputs, outputs)
    return None if call is None else (call, inputs, outputs)


def in_threads(action: Callable[[int], Result], count: int) -> list[Result]:
    """Runs ``action(i)`` in ``count`` threads at once and returns what they returned.

    Raises:
        Exception: Whatever one of them raised.
    """
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    gate = Barrier(count)

    def started(i: int) -> Result:
        gate.wait()
        return action(i)

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(started, i) for i in range(count)]]
