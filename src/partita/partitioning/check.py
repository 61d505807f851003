"""The independent checker: no plan leaves partita unless this file, too, finds it sound.

It shares no code and no method with ``fusion``: it contracts the regions, asks SciPy for the
strongly connected components, and proves the answer with a numbering that rises along every edge.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from partita.errors import UnsoundPlanError, printable

Indices = npt.NDArray[np.int64]

_STARTS = 64
"""Nodes from which a shortest cycle is looked for; any cycle proves the fault, a short one reads
better."""


def check(
    predecessors: Sequence[Sequence[int]],
    regions: Sequence[Sequence[int]],
    name: Callable[[int], str] | Sequence[str] | None = None,
    types: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
) -> list[int]:
    """Proves that regions are disjoint, of one type each, and convex, in time linear in the graph.

    With every region contracted to one node the graph is acyclic; so no path leaves a region and
    comes back, and the regions and the nodes in none of them can run in some order.

    Args:
        predecessors: For each node the nodes it reads from, numbered in any order.
        regions: The nodes of each region.
        name: What nodes are called in messages; their numbers by default.
        types: The type of each node, -1 for those that belong to no region. If given, a region
            must be of one type and every node with a type must lie in a region.
        titles: What regions are called in messages; their numbers by default.

    Returns:
        The numbers of the regions in an order in which they can run: as given where that is one.

    Raises:
        UnsoundPlanError: Something of this does not hold; the message names the nodes.
    """
    called = _caller(name)
    home = _homes(len(predecessors), regions, called)
    if types is not None:
        _check_types(home, np.array(types, dtype=np.int64), called)
    tails, heads = _edges(predecessors)
    contracted = _Contracted(home, tails, heads, len(regions))
    if contracted.runs_in_given_order():
        return list(range(len(regions)))
    rank = contracted.rank()
    if rank is None:
        raise UnsoundPlanError(_cycle_message(contracted, called, titles))
    return [int(r) for r in np.argsort(rank[: len(regions)], kind="stable")]


def _caller(name: Callable[[int], str] | Sequence[str] | None) -> Callable[[int], str]:
    if name is None:
        return lambda node: f"node {node}"
    look_up = name if callable(name) else name.__getitem__
    return lambda node: f"'{printable(look_up(node))}'"


def _homes(size: int, regions: Sequence[Sequence[int]], called: Callable[[int], str]) -> Indices:
    """Returns the region of each node or -1, having checked that no node is in two regions."""
    lengths = np.fromiter(map(len, regions), dtype=np.int64, count=len(regions))
    nodes = np.fromiter(chain.from_iterable(regions), dtype=np.int64, count=int(lengths.sum()))
    strange = nodes[(nodes < 0) | (nodes >= size)]
    if strange.size:
        raise UnsoundPlanError(
            f"a region holds node {strange[0]}, but nodes are numbered 0 to {size - 1}"
        )
    owners = np.repeat(np.arange(len(regions)), lengths)
    home = np.full(size, -1, dtype=np.int64)
    home[nodes] = owners
    if np.bincount(nodes, minlength=1).max(initial=0) > 1:
        twice = int(np.flatnonzero(np.bincount(nodes) > 1)[0])
        holders = " and ".join(f"region {r}" for r in owners[nodes == twice])
        raise UnsoundPlanError(f"{called(twice)} lies in {holders}")
    return home


def _check_types(home: Indices, types: Indices, called: Callable[[int], str]) -> None:
    """Checks that regions are of one type and that the nodes in them are those with a type."""
    if types.size != home.size:
        raise UnsoundPlanError(f"{types.size} types were given for {home.size} nodes")
    wrong = np.flatnonzero((home < 0) != (types < 0))
    if wrong.size:
        node = int(wrong[0])
        found = "no region" if home[node] < 0 else f"region {home[node]}"
        raise UnsoundPlanError(f"{called(node)} lies in {found}, but its type is {types[node]}")
    inside = np.flatnonzero(home >= 0)
    first: Indices = np.full(int(home.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[home[inside][::-1]] = inside[::-1]
    odd = inside[types[inside] != types[first[home[inside]]]]
    if odd.size:
        node = int(odd[0])
        other = int(first[home[node]])
        raise UnsoundPlanError(
            f"region {home[node]} holds {called(other)} of type {types[other]} and "
            f"{called(node)} of type {types[node]}"
        )


def _edges(predecessors: Sequence[Sequence[int]]) -> tuple[Indices, Indices]:
    """Returns the edges of the graph: where each starts and where it ends."""
    lengths = np.fromiter(map(len, predecessors), dtype=np.int64, count=len(predecessors))
    tails = np.fromiter(chain.from_iterable(predecessors), dtype=np.int64, count=int(lengths.sum()))
    strange = tails[(tails < 0) | (tails >= len(predecessors))]
    if strange.size:
        raise UnsoundPlanError(
            f"a node reads from node {strange[0]}, but nodes are numbered 0 to "
            f"{len(predecessors) - 1}"
        )
    return tails, np.repeat(np.arange(len(predecessors)), lengths)


@final
class _Contracted:
    """The graph with each region contracted to one vertex; regions come first.

    Attributes:
        vertex: The vertex of each node.
        size: How many vertices there are.
        regions: How many of them are regions.
    """

    def __init__(self, home: Indices, tails: Indices, heads: Indices, regions: int) -> None:
        alone = home < 0
        self.vertex = home.copy()
        self.vertex[alone] = regions + np.arange(int(alone.sum()))
        self.size = regions + int(alone.sum())
        self.regions = regions
        starts, ends = self.vertex[tails], self.vertex[heads]
        leaves = (starts != ends) | ((tails == heads) & alone[tails])
        self._tails, self._heads = tails[leaves], heads[leaves]
        self._starts, self._ends = starts[leaves], ends[leaves]

    def runs_in_given_order(self) -> bool:
        """Says whether there is no cycle even if each region must wait for the one before it."""
        one_after_other = np.arange(self.regions)
        starts = np.concatenate([self._starts, one_after_other[:-1]])
        ends = np.concatenate([self._ends, one_after_other[1:]])
        return bool((starts != ends).all()) and self._components(starts, ends)[0] == self.size

    def rank(self) -> Indices | None:
        """Returns a number for each vertex that rises along every edge; None: there is a cycle."""
        count, labels = self._components(self._starts, self._ends)
        if count < self.size or (self._starts == self._ends).any():
            return None
        for rank in (
            -labels,
            labels,
        ):  # components come out in reverse order, though no one says so
            if (rank[self._starts] < rank[self._ends]).all():
                return rank
        return self._rank_by_removal()

    def cycle(self) -> list[tuple[int, int]]:
        """Returns a short cycle as edges between nodes, the next from the vertex of the last."""
        loops = np.flatnonzero(self._starts == self._ends)
        if loops.size:
            return [self._edge(int(loops[0]))]
        labels = self._components(self._starts, self._ends)[1]
        sizes = np.bincount(labels)
        smallest = int(np.argmin(np.where(sizes > 1, sizes, self.size + 1)))
        inside = (labels[self._starts] == smallest) & (labels[self._ends] == smallest)
        after: dict[int, dict[int, int]] = {}
        for index in np.flatnonzero(inside).tolist():
            start, end = int(self._starts[index]), int(self._ends[index])
            after.setdefault(start, {}).setdefault(end, index)
        found = [_shortest_way_round(after, start) for start in sorted(after)[:_STARTS]]
        return [self._edge(index) for index in min(found, key=len)]

    def _edge(self, index: int) -> tuple[int, int]:
        return int(self._tails[index]), int(self._heads[index])

    def _components(self, starts: Indices, ends: Indices) -> tuple[int, Indices]:
        from scipy.sparse import csr_array  # late: takes longer to import than partita does
        from scipy.sparse.csgraph import connected_components

        ones = np.ones(starts.size)  # parallel edges add up, so nothing that wraps around
        matrix = csr_array((ones, (starts, ends)), shape=(self.size, self.size))
        found: Any = connected_components(matrix, directed=True, connection="strong")
        return int(found[0]), cast(Indices, found[1].astype(np.int64))

    def _rank_by_removal(self) -> Indices:
        """Numbers the vertices of an acyclic graph by taking away sources."""
        after: list[list[int]] = [[] for _ in range(self.size)]
        missing = np.bincount(self._ends, minlength=self.size).tolist()
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            after[start].append(end)
        order = [vertex for vertex, count in enumerate(missing) if not count]
        for vertex in order:
            for end in after[vertex]:
                missing[end] -= 1
                if not missing[end]:
                    order.append(end)
        rank = np.empty(self.size, dtype=np.int64)
        rank[order] = np.arange(self.size)
        return rank


def _shortest_way_round(after: dict[int, dict[int, int]], start: int) -> list[int]:
    """Returns the edges of a shortest cycle through a vertex of a strongly connected graph."""
    came_by: dict[int, tuple[int, int]] = {}
    queue = deque([start])
    while start not in came_by:
        vertex = queue.popleft()
        for end, index in after[vertex].items():
            if end not in came_by:
                came_by[end] = (vertex, index)
                queue.append(end)
    vertex, index = came_by[start]
    edges = [index]
    while vertex != start:
        vertex, index = came_by[vertex]
        edges.append(index)
    return edges[::-1]


def _cycle_message(
    contracted: _Contracted, called: Callable[[int], str], titles: Sequence[str] | None
) -> str:
    """Says which regions and nodes depend on each other."""
    edges = contracted.cycle()
    title = _caller(titles) if titles else str
    steps: list[str] = []
    for (tail, _), (_, entry) in zip(edges, [edges[-1], *edges[:-1]], strict=True):
        vertex = int(contracted.vertex[tail])
        if vertex >= contracted.regions:
            steps.append(called(tail))
        elif entry == tail:
            steps.append(f"region {title(vertex)} (at {called(tail)})")
        else:
            steps.append(f"region {title(vertex)} (in at {called(entry)}, out at {called(tail)})")
    return f"regions depend on each other in a cycle: {' -> '.join([*steps, steps[0]])}"
