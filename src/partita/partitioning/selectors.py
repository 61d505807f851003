"""Backends that choose groups themselves: matched patterns, and selectors that grow regions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import onnx_ir as ir

from partita.backends.contract import Pattern, Selector
from partita.partitioning.dependencies import Scope


def match_patterns(
    scope: Scope, patterns: Sequence[Pattern], may_take: Callable[[int], bool]
) -> list[tuple[int, ...]]:
    """Returns disjoint groups of nodes that match a pattern, earlier patterns first.

    Values between matched nodes have no reader outside the match, so a match is convex: a path
    that leaves it leaves from its last node, of which all others are ancestors.
    """
    groups: list[tuple[int, ...]] = []
    used: set[int] = set()
    for pattern in patterns:
        for root in range(len(scope.nodes)):
            found = _match(scope, pattern, root, lambda n: n not in used and may_take(n))
            if found is None or not _closed(scope, found, root):
                continue
            used.update(found)
            groups.append(tuple(sorted(found)))
    return groups


def _match(
    scope: Scope, pattern: Pattern, number: int, may_take: Callable[[int], bool]
) -> set[int] | None:
    node = scope.nodes[number]
    if (node.op_type, node.domain) != (pattern.op_type, pattern.domain) or not may_take(number):
        return None
    found = {number}
    for position, wanted in enumerate(pattern.inputs):
        if wanted is None:
            continue
        value = node.inputs[position] if position < len(node.inputs) else None
        producer = value.producer() if value is not None else None
        if producer is None or producer not in scope.number:
            return None
        deeper = _match(scope, wanted, scope.number[producer], may_take)
        if deeper is None:
            return None
        found |= deeper
    return found


def _closed(scope: Scope, found: set[int], root: int) -> bool:
    for number in found - {root}:
        for value in scope.nodes[number].outputs:
            if value.is_graph_output():
                return False
            if any(scope.number.get(use.node, -1) not in found for use in value.uses()):
                return False
    return True


def grow(
    scope: Scope, selector: Selector, may_take: Callable[[int], bool]
) -> list[tuple[int, ...]]:
    """Grows groups in MXNet's order: seeds ascending; inputs, then consumers; then the filter.

    A group that a path leaves and enters again loses its culprit (the latest member at either end
    of such a path) and is grown anew, as MXNet's documentation of subgraph properties has it. What
    several groups do to each other is left to fusion, which never returns a cycle.
    """
    consumers: list[list[int]] = [[] for _ in scope.nodes]
    for number, before in enumerate(scope.predecessors):
        for p in before:
            consumers[p].append(number)
    group_of: dict[int, int] = {}
    groups: list[tuple[int, ...]] = []
    for seed in range(len(scope.nodes)):
        if seed in group_of or not may_take(seed):
            continue
        selector.reset()
        if not selector.select(scope.nodes[seed]):
            continue
        grown = _grow_convex(
            scope, selector, seed, consumers, lambda n: n not in group_of and may_take(n)
        )
        kept = _filtered(scope, selector, grown)
        for number in kept:
            group_of[number] = len(groups)
        if kept:
            groups.append(kept)
    return groups


def _grow_convex(
    scope: Scope,
    selector: Selector,
    seed: int,
    consumers: Sequence[Sequence[int]],
    free: Callable[[int], bool],
) -> list[int]:
    excluded: set[int] = set()
    while True:
        group = _grow_once(
            scope, selector, seed, consumers, lambda n: n not in excluded and free(n)
        )
        culprit = _culprit(scope, group, consumers)
        if culprit is None:
            return sorted(group)
        if culprit == seed:
            return [seed]
        excluded.add(culprit)
        selector.reset()


def _grow_once(
    scope: Scope,
    selector: Selector,
    seed: int,
    consumers: Sequence[Sequence[int]],
    free: Callable[[int], bool],
) -> set[int]:
    group = {seed}
    queue = deque([seed])
    while queue:
        current = queue.popleft()
        node = scope.nodes[current]
        steps = [(p, selector.select_input) for p in scope.predecessors[current]]
        steps += [(c, selector.select_output) for c in consumers[current]]
        for neighbour, accepts in steps:
            if neighbour in group or not free(neighbour):
                continue
            if accepts(node, scope.nodes[neighbour]):
                group.add(neighbour)
                queue.append(neighbour)
    return group


def _culprit(scope: Scope, group: set[int], consumers: Sequence[Sequence[int]]) -> int | None:
    """Returns the latest member at either end of a path that leaves and re-enters the group."""
    last = max(group)
    origin: dict[int, int] = {}
    for member in sorted(group):
        for c in consumers[member]:
            if c not in group and c < last:
                origin[c] = max(origin.get(c, -1), member)
    culprit: int | None = None
    heap = sorted(origin)
    while heap:  # ascending numbers are a topological order: every origin is final when popped
        outside = heappop(heap)
        for c in consumers[outside]:
            if c in group:
                culprit = max(culprit or 0, c, origin[outside])
            elif c < last:
                if c not in origin:
                    heappush(heap, c)
                origin[c] = max(origin.get(c, -1), origin[outside])
    return culprit


def _filtered(scope: Scope, selector: Selector, grown: Sequence[int]) -> tuple[int, ...]:
    nodes: list[ir.Node] = [scope.nodes[n] for n in grown]
    kept = set(selector.filter(nodes))
    return tuple(n for n in grown if scope.nodes[n] in kept)
