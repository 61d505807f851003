"""The order in which the regions and the remaining nodes of one graph run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from partita.backends.contract import Region
from partita.errors import UnsoundPlanError
from partita.model import captures

Unit = Region | ir.Node
"""What runs at once: a region, or one node left to the host."""


def execution_order(graph: ir.Graph | ir.GraphView, regions: Iterable[Region]) -> list[Unit]:
    """Returns regions and remaining nodes of a graph in topological order, in O((N + E) log N).

    Of the units that are ready, the one that begins first in the model runs first, so that an
    unpartitioned model keeps its order.

    Raises:
        UnsoundPlanError: The regions depend on each other in a cycle.
    """
    nodes = list(graph)
    home: dict[ir.Node, int] = {}
    units: list[Unit] = []
    for region in regions:
        home.update((node, len(units)) for node in region.ir_nodes)
        units.append(region)
    first = [len(nodes)] * len(units)
    for position, node in enumerate(nodes):
        if node not in home:
            home[node] = len(units)
            units.append(node)
            first.append(position)
        first[home[node]] = min(first[home[node]], position)
    return [units[i] for i in _sorted(_predecessors(nodes, home, len(units)), first)]


def needed(units: Sequence[Unit], outputs: Iterable[ir.Value]) -> list[Unit]:
    """Returns the units, in order, without which some output could not be computed."""
    read = set(outputs)
    kept: list[Unit] = []
    for unit in reversed(units):
        nodes = (unit,) if isinstance(unit, ir.Node) else unit.ir_nodes
        if any(not read.isdisjoint(node.outputs) for node in nodes):
            kept.append(unit)
            for node in nodes:
                read.update(v for v in (*node.inputs, *captures(node)) if v is not None)
    return kept[::-1]


def _predecessors(nodes: Sequence[ir.Node], home: dict[ir.Node, int], count: int) -> list[set[int]]:
    before: list[set[int]] = [set() for _ in range(count)]
    for node in nodes:
        unit = home[node]
        for value in (*node.inputs, *captures(node)):
            producer = value.producer() if value is not None else None
            if producer is not None and producer in home and home[producer] != unit:
                before[unit].add(home[producer])
    return before


def _sorted(before: Sequence[set[int]], first: Sequence[int]) -> list[int]:
    after: list[list[int]] = [[] for _ in before]
    for unit, producers in enumerate(before):
        for producer in producers:
            after[producer].append(unit)
    waiting = [len(producers) for producers in before]
    ready = [(first[u], u) for u, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for successor in after[unit]:
            waiting[successor] -= 1
            if not waiting[successor]:
                heapq.heappush(ready, (first[successor], successor))
    if len(order) < len(before):
        raise UnsoundPlanError("the regions of this plan depend on each other in a cycle")
    return order
