"""Compiling: a plan in, a program out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from partita.backends.contract import Region
from partita.compiling.lowering import Lowering
from partita.compiling.regions import Progress, RegionCompiler
from partita.partitioning.plan import Plan
from partita.running.program import Program
from partita.running.report import Report
from partita.running.specs import spec_of


def compile(plan: Plan, *, strict: bool = False, progress: Progress | None = None) -> Program:
    """Compiles every region of a plan and orders the steps.

    A region that its backend cannot compile goes to the next backend that accepts all its nodes,
    and in the end to the host, node by node. Each such failure is one line of the logger
    ``partita.compiling`` and one record in ``program.report``. Parameters that a backend owns are
    not held by the program.

    Args:
        plan: A plan with its model.
        strict: A failure is an error.
        progress: Is told how many regions are done, how many there are, and which comes next.

    Raises:
        PlanError: The plan has no model.
        CompileError: A backend failed and ``strict`` is set, or the host has no way to run a node.
    """
    start = time.perf_counter()
    model = plan.bound_model
    compiler = RegionCompiler(plan, strict, progress)
    lowering = Lowering(compiler, regions_by_graph(plan.regions))
    schedule = lowering.main(model.graph, model.inputs)
    if progress is not None:
        progress(len(plan.regions), len(plan.regions), "")
    report = Report(
        regions=tuple(compiler.compiled),
        fallbacks=tuple(compiler.fallbacks),
        host_steps=lowering.host_steps,
        held_bytes=sum(_bytes(array) for array in lowering.arrays.values()),
        seconds=time.perf_counter() - start,
    )
    inputs = tuple(spec_of(v) for v in model.inputs)
    outputs = tuple(spec_of(v) for v in model.outputs)
    return Program(schedule, inputs, outputs, report)


def regions_by_graph(regions: Sequence[Region]) -> dict[str, list[Region]]:
    """Returns regions by the path of the graph that they lie in."""
    found: dict[str, list[Region]] = {}
    for region in regions:
        found.setdefault(region.graph, []).append(region)
    return found


def _bytes(array: Any) -> int:
    if array.dtype == object:
        return sum(len(word.encode()) for word in array.ravel().tolist())
    return array.nbytes
