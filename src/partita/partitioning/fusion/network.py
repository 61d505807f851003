"""Minimum cuts of small networks (Dinic's algorithm), with capacities of any size."""

from __future__ import annotations

from collections import deque
from typing import final

SOURCE, SINK = 0, 1


@final
class Network:
    """A flow network; nodes 0 and 1 are the source and the sink."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        self._head: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        """Adds a node and returns its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        """Adds a directed edge."""
        self._edges[tail].append(len(self._head))
        self._edges[head].append(len(self._head) + 1)
        self._head += (head, tail)
        self._left += (capacity, 0)

    def minimum_cut(self) -> tuple[int, list[bool]]:
        """Returns the capacity of a minimum cut, and which nodes lie on the source's side."""
        flow = 0
        while (levels := self._levels())[SINK] >= 0:
            pointers = [0] * len(self._edges)
            while pushed := self._augment(levels, pointers):
                flow += pushed
        return flow, [level >= 0 for level in levels]

    def _levels(self) -> list[int]:
        """Returns the distance of each node from the source over edges with room, or -1."""
        levels = [-1] * len(self._edges)
        levels[SOURCE] = 0
        queue = deque([SOURCE])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                head = self._head[edge]
                if self._left[edge] and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels

    def _augment(self, levels: list[int], pointers: list[int]) -> int:
        """Pushes flow along one path of rising levels; returns how much, 0 if there is none."""
        path: list[int] = []
        node = SOURCE
        while node != SINK:
            edges = self._edges[node]
            while pointers[node] < len(edges):
                edge = edges[pointers[node]]
                head = self._head[edge]
                if self._left[edge] and levels[head] == levels[node] + 1:
                    path.append(edge)
                    node = head
                    break
                pointers[node] += 1
            else:
                if not path:
                    return 0
                node = self._head[path.pop() ^ 1]
                pointers[node] += 1
        pushed = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= pushed
            self._left[edge ^ 1] += pushed
        return pushed
