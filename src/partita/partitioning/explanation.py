"""Why a node went where it went."""

from __future__ import annotations

from collections import deque

import onnx_ir as ir

from partita.backends.contract import Region
from partita.model import Model
from partita.partitioning.dependencies import Scope, scope_of
from partita.partitioning.plan import Explanation, Plan


def explain(plan: Plan, node: str) -> Explanation:
    """Returns every backend's sentence about a node, the rules that name it, and its neighbours.

    Raises:
        UnknownNameError: There is no such node; the message lists near matches.
    """
    backend = plan.backend_of(node)
    region = plan.region_of.get(node)
    refusals = tuple(r for r in plan.refusals if r.node == node and r.backend != backend)
    op_type, path, notes = plan.host.get(node, ""), "", ()
    if plan.model is not None:
        path, scope, number = _find(plan.model, node)
        op_type = scope.nodes[number].op_type
        notes = tuple(_neighbours(plan, scope, number, region))
    return Explanation(node, op_type, path, backend, region.name if region else "", refusals, notes)


def _find(model: Model, name: str) -> tuple[str, Scope, int]:
    for path, graph in model.graphs():
        for number, node in enumerate(graph):
            if node.name == name:
                return path, scope_of(path, graph), number
    raise AssertionError(f"node {name} stands in the plan but not in its model")


def _neighbours(plan: Plan, scope: Scope, number: int, region: Region | None) -> list[str]:
    """Says for each neighbour on the same backend, but in another region, what keeps them apart."""
    if region is None:
        return []
    others: dict[str, tuple[Region, bool]] = {}
    node = scope.nodes[number]
    producers = [v.producer() for v in scope.reads[number]]
    consumers = [use.node for v in node.outputs for use in v.uses()]
    for neighbour, before in [(p, True) for p in producers] + [(c, False) for c in consumers]:
        other = plan.region_of.get(str(neighbour.name)) if neighbour is not None else None
        if other and other.backend == region.backend and other.name != region.name:
            others.setdefault(other.name, (other, before))
    notes: list[str] = []
    for name, (other, before) in others.items():
        path = _path_between(scope, other if before else region, region if before else other)
        why = (
            "a path between them runs through " + " → ".join(f"'{n.name}'" for n in path)
            if path
            else "joining them would close a cycle with other regions, or their groups differ"
        )
        notes.append(f"apart from its neighbour region {name}: {why}")
    return notes


def _path_between(scope: Scope, first: Region, second: Region) -> list[ir.Node]:
    """Returns a shortest path from one region to another through nodes of neither, or nothing."""
    starts = {scope.number[n] for n in first.ir_nodes if n in scope.number}
    goals = {scope.number[n] for n in second.ir_nodes if n in scope.number}
    consumers: list[list[int]] = [[] for _ in scope.nodes]
    for number, before in enumerate(scope.predecessors):
        for p in before:
            consumers[p].append(number)
    came: dict[int, int] = {}
    queue = deque(
        dict.fromkeys(c for s in sorted(starts) for c in consumers[s] if c not in starts | goals)
    )
    came.update(dict.fromkeys(queue, -1))
    while queue:
        current = queue.popleft()
        for c in consumers[current]:
            if c in goals:
                return _walk_back(scope, came, current)
            if c not in came and c not in starts:
                came[c] = current
                queue.append(c)
    return []


def _walk_back(scope: Scope, came: dict[int, int], last: int) -> list[ir.Node]:
    path = [last]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    return [scope.nodes[n] for n in reversed(path)]
