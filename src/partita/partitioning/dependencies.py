"""What depends on what in one graph, as plain lists of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import onnx_ir as ir

from partita.model import captures


@final
@dataclass(frozen=True, eq=False)
class Scope:
    """One graph (the main graph or a body), its nodes numbered in topological order.

    Attributes:
        path: ``""`` for the main graph, otherwise ``"<node>.<attribute>"``.
        nodes: The nodes; their positions are the numbers used everywhere else.
        reads: For each node the values it reads, captures of its bodies included.
        predecessors: For each node the numbers of the nodes of this graph that it reads from.
        number: The number of a node.
        outputs: What leaves the graph.
    """

    path: str
    nodes: Sequence[ir.Node]
    reads: Sequence[tuple[ir.Value, ...]]
    predecessors: Sequence[tuple[int, ...]]
    number: dict[ir.Node, int]
    outputs: Sequence[ir.Value]

    def values(
        self, size: Callable[[ir.Value], int | None]
    ) -> tuple[list[tuple[int, int, list[int]]], list[int]]:
        """Returns ``(producer, bytes, consumers)`` of every value but weights.

        The producer of a graph input or outer value is -1, and so is the consumer of a graph
        output: the caller. Bytes are 0 where the size is unknown; the second list holds the
        positions of those rows.
        """
        consumers: dict[ir.Value, list[int]] = {}
        for number, reads in enumerate(self.reads):
            for value in reads:
                consumers.setdefault(value, []).append(number)
        for value in self.outputs:
            consumers.setdefault(value, []).append(-1)
        unknown: list[int] = []
        rows: list[tuple[int, int, list[int]]] = []
        for value, readers in consumers.items():
            producer = value.producer()
            if producer is None and value.const_value is not None:
                continue
            count = size(value)
            if count is None:
                unknown.append(len(rows))
            rows.append((self.number.get(producer, -1) if producer else -1, count or 0, readers))
        return rows, unknown


def scope_of(path: str, graph: ir.Graph) -> Scope:
    """Returns the dependencies of one graph, whose nodes must be in topological order."""
    nodes = tuple(graph)
    number = {node: i for i, node in enumerate(nodes)}
    reads: list[tuple[ir.Value, ...]] = []
    predecessors: list[tuple[int, ...]] = []
    for node in nodes:
        used = tuple(v for v in node.inputs if v is not None)
        if node.attributes:
            used += captures(node)
        reads.append(used)
        before: dict[int, None] = {}
        for value in used:
            producer = value.producer()
            if producer is not None and producer in number:
                before[number[producer]] = None
        predecessors.append(tuple(before))
    return Scope(path, nodes, reads, predecessors, number, tuple(graph.outputs))


@final
@dataclass(frozen=True, eq=False)
class Units:
    """A scope in which some groups of nodes count as one.

    Attributes:
        members: For each unit the numbers of its nodes, ascending; units in topological order.
        predecessors: For each unit the units it reads from.
        unit: For each node its unit.
    """

    members: Sequence[tuple[int, ...]]
    predecessors: Sequence[tuple[int, ...]]
    unit: Sequence[int]


def contract(scope: Scope, groups: Sequence[Sequence[int]]) -> Units | None:
    """Contracts disjoint groups of nodes; returns ``None`` if that makes a cycle."""
    count = len(scope.nodes)
    if not groups:
        return Units([(i,) for i in range(count)], scope.predecessors, range(count))
    label = list(range(count))
    for group in groups:
        for node in group:
            label[node] = min(group)
    before: dict[int, dict[int, None]] = {}
    members: dict[int, list[int]] = {}
    for node in range(count):
        own = label[node]
        members.setdefault(own, []).append(node)
        sources = before.setdefault(own, {})
        for p in scope.predecessors[node]:
            if label[p] != own:
                sources[label[p]] = None
    order = _topological(before)
    if order is None:
        return None
    rank = {own: i for i, own in enumerate(order)}
    return Units(
        [tuple(members[own]) for own in order],
        [tuple(rank[p] for p in before[own]) for own in order],
        [rank[label[node]] for node in range(count)],
    )


def _topological(before: dict[int, dict[int, None]]) -> list[int] | None:
    waiting = {own: len(sources) for own, sources in before.items()}
    after: dict[int, list[int]] = {own: [] for own in before}
    for own, sources in before.items():
        for source in sources:
            after[source].append(own)
    order = [own for own, count in waiting.items() if count == 0]
    for own in order:
        for later in after[own]:
            waiting[later] -= 1
            if waiting[later] == 0:
                order.append(later)
    return order if len(order) == len(before) else None
