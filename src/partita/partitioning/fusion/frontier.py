"""The greedy sequence: at each step the type whose batch brings the end of the work nearest."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import final

from partita.partitioning.fusion.condensation import Precedence
from partita.partitioning.fusion.runs import Runs


@final
class Frontier:
    """What can run next, while batches are taken one after the other.

    A node is *pending* once each predecessor has run or is itself pending in the same batch, so
    the pending nodes of a type are the largest batch of that type. Largest batches lose nothing:
    to have done more is never worse. All steps together take O(nodes * log(types) + edges).

    Attributes:
        pending: For each type the nodes of its largest batch.
    """

    def __init__(self, graph: Precedence, runs: Runs) -> None:
        self._kinds, self._runs = graph.kinds, runs
        self._top = list(runs.most)
        self._left = [[0] * (most + 1) for most in runs.most]
        self._missing = [len(parents) for parents in graph.predecessors]
        self._followers: list[list[int]] = [[] for _ in graph.kinds]
        ready: list[int] = []
        for v, parents in enumerate(graph.predecessors):
            kind = graph.kinds[v]
            if kind >= 0:
                self._left[kind][runs.own[v]] += 1
            if not parents:
                ready.append(v)
            for p in parents:
                self._followers[p].append(v)
        self.pending: list[list[int]] = [[] for _ in runs.most]
        self._critical = [0] * len(runs.most)
        self._farthest = [(0, 0)] * len(runs.most)
        self._queue: list[tuple[bool, int, int, int]] = []
        self._release(ready)

    def is_open(self, kind: int) -> bool:
        """Says whether a batch of that type can run."""
        return bool(self.pending[kind])

    def best(self) -> int:
        """Returns the type to take next, or -1 when everything has run.

        First a type whose batch lowers the lower bound of the rest: all nodes from which the most
        runs of the type lead on are pending. Then the type with the longest way ahead of it, and
        with more such nodes.
        """
        queue = self._queue
        while queue:
            entry = queue[0]
            kind = entry[3]
            if self.pending[kind] and entry == self._entry(kind):
                return kind
            heappop(queue)
        return -1

    def _entry(self, kind: int) -> tuple[bool, int, int, int]:
        """Returns the place of a type in the queue, the best first; what is out of date differs."""
        lowers = self._critical[kind] == self._left[kind][self._top[kind]]
        far, count = self._farthest[kind]
        return not lowers, -far, -count, kind

    def take(self, kind: int) -> list[int]:
        """Runs the largest batch of a type and returns it."""
        batch = self.pending[kind]
        left, own = self._left[kind], self._runs.own
        self.pending[kind] = []
        self._critical[kind] = 0
        self._farthest[kind] = (0, 0)
        for v in batch:
            left[own[v]] -= 1
        if not left[self._top[kind]]:
            self._top[kind] -= 1
        kinds, missing = self._kinds, self._missing
        ready: list[int] = []
        for v in batch:
            for w in self._followers[v]:
                if kinds[w] != kind:
                    missing[w] -= 1
                    if not missing[w]:
                        ready.append(w)
        self._release(ready)
        return batch

    def _release(self, ready: list[int]) -> None:
        """Makes nodes pending, and with them what depends on nothing else."""
        kinds, missing, followers = self._kinds, self._missing, self._followers
        own, ahead = self._runs.own, self._runs.ahead
        grown: dict[int, None] = {}
        while ready:
            v = ready.pop()
            kind = kinds[v]
            if kind >= 0:
                grown[kind] = None
                self.pending[kind].append(v)
                if own[v] == self._top[kind]:
                    self._critical[kind] += 1
                far, count = self._farthest[kind]
                if ahead[v] >= far:
                    self._farthest[kind] = (ahead[v], count + 1 if ahead[v] == far else 1)
            for w in followers[v]:
                if kinds[w] == kind or kind < 0:
                    missing[w] -= 1
                    if not missing[w]:
                        ready.append(w)
        for kind in grown:
            heappush(self._queue, self._entry(kind))


def greedy(graph: Precedence, runs: Runs, first: int = -1) -> list[int]:
    """Returns a sequence that runs every node, found by taking the best type each time.

    Args:
        graph: The nodes.
        runs: Their runs, as counted by ``count_runs``.
        first: The type of the first batch, where the caller wants to say.
    """
    frontier = Frontier(graph, runs)
    kind = first if first >= 0 and frontier.is_open(first) else frontier.best()
    sequence: list[int] = []
    while kind >= 0:
        sequence.append(kind)
        frontier.take(kind)
        kind = frontier.best()
    return sequence
