"""An engine without partita around it: its own call on the whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from partita.backends.contract import Backend, Executable
from partita.partitioning.plan import Plan

Whole = Callable[..., Sequence[Any]]


def engine_alone(plan: Plan) -> Whole | None:
    """Returns what runs a whole model in one engine and does nothing else.

    Args:
        plan: A plan for one backend.

    Returns:
        A function of the model's inputs in graph order that returns its outputs in graph order;
        ``None`` if the backend does not take the whole model, or if an output is an input or a
        constant, which no engine makes.
    """
    if plan.host or len(plan.regions) != 1:
        return None
    (region,) = plan.regions
    model = plan.bound_model
    given = [str(v.name) for v in model.inputs]
    made = [str(v.name) for v in model.outputs]
    if not set(made) <= set(region.outputs):
        return None
    backend: Backend = plan.backend_named(region.backend)
    call: Executable | Whole = backend.compile(region)
    owned = set(backend.owns(region))
    rest = [region.parameter(name) for name in region.parameters if name not in owned]
    takes = [given.index(name) for name in region.inputs]
    gives = [region.outputs.index(name) for name in made]
    if not rest and takes == list(range(len(given))) and gives == list(range(len(region.outputs))):
        return call

    def ordered(*arrays: Any) -> Sequence[Any]:
        outputs = call(*(arrays[i] for i in takes), *rest)
        return [outputs[i] for i in gives]

    return ordered
