"""What would help: which op, if a backend took it, would merge the most regions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import final

import onnx_ir as ir

from partita.backends.contract import Backend
from partita.partitioning.dependencies import Scope, scope_of
from partita.partitioning.fusion import APART, fuse
from partita.partitioning.plan import Plan
from partita.reporting.placement import host_ops
from partita.reporting.quantities import plural
from partita.reporting.tables import Column, Table

MOST_NODES = 20_000
"""Larger plans get no advice; it fuses the graph once more for every op in question."""
CANDIDATES = 4
"""Host ops that are tried, the most frequent first."""

Kind = tuple[str, str, Hashable]


@final
@dataclass(frozen=True)
class Advice:
    """An op that the host runs, and what would change if a backend took it.

    Attributes:
        op_type: The op.
        nodes: How many nodes of it the host runs.
        backend: The backend that would take them.
        before: Number of regions as they are.
        after: Number of regions if it took them. Reviews and size limits are not asked again.
        reason: Why it does not take them now.
    """

    op_type: str
    nodes: int
    backend: str
    before: int
    after: int
    reason: str


def advice(plan: Plan) -> tuple[Advice, ...]:
    """Returns the host ops that keep the first backend's regions apart, the worst first.

    Nothing is returned for plans with over 20,000 nodes, and where the regions are not what fusion
    alone makes of them (selectors, patterns, limits, edited plans).
    """
    if plan.model is None or not plan.backends or not 0 < plan.node_count <= MOST_NODES:
        return ()
    if plan.request.min_nodes != 1 or plan.request.max_regions is not None:
        return ()
    if any(b.patterns() or b.selector(plan.model) is not None for b in plan.backends):
        return ()
    scopes = [scope_of(path, graph) for path, graph in plan.model.graphs()]
    before = sum(_count(plan, scope, "") for scope in scopes)
    if before != len(plan.regions) or before < 2:
        return ()
    found = [
        Advice(op.op_type, op.nodes, plan.backends[0].name, before, after, op.reason)
        for op in host_ops(plan)[:CANDIDATES]
        if (after := sum(_count(plan, scope, op.op_type) for scope in scopes)) < before
    ]
    return tuple(sorted(found, key=lambda a: (a.after, -a.nodes)))


def advice_table(found: Collection[Advice]) -> Table:
    """Returns one row an op that would help."""
    rows = tuple(
        (
            f"{a.backend} taking {a.op_type} ({plural(a.nodes, 'node')})",
            f"{a.before} regions → {a.after}",
            a.reason,
        )
        for a in found
    )
    columns = (Column("What would help"), Column("Effect", whole=True), Column("Now"))
    return Table("", columns, rows)


def _count(plan: Plan, scope: Scope, op_type: str) -> int:
    """Returns the regions of one graph if the first backend took the host's nodes of an op too."""
    kinds: dict[Kind, int] = {}
    types = [_type(plan, node, op_type, kinds) for node in scope.nodes]
    return fuse(scope.predecessors, types, connected=_connected(plan, kinds)).count


def _type(plan: Plan, node: ir.Node, op_type: str, kinds: dict[Kind, int]) -> int:
    region = plan.region_of.get(str(node.name))
    if region is None and (str(node.name) not in plan.host or node.op_type != op_type):
        return APART
    if region is not None:
        backend, strategy = plan.backend_named(region.backend), region.strategy
    else:
        backend, strategy = plan.backends[0], _usual_strategy(plan, plan.backends[0])
    return kinds.setdefault((backend.name, strategy, backend.group(node)), len(kinds))


def _usual_strategy(plan: Plan, backend: Backend) -> str:
    return next((r.strategy for r in plan.regions if r.backend == backend.name), "")


def _connected(plan: Plan, kinds: Mapping[Kind, int]) -> list[int]:
    return [
        number
        for (name, _, _), number in kinds.items()
        if plan.request.connected or plan.backend_named(name).connected
    ]
