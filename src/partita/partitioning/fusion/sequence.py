"""The shortest sequence of batches: exact by form, by bound or by search where that can be.

With one type the largest batches are fewest. With two types and no separator batches alternate,
so only the first is to be chosen. Everything else is the shortest common supersequence problem
(NP-hard; A. Darte, "On the complexity of loop fusion", PACT 1999): the graph falls into segments
at its waists, each segment gets the greedy sequence, and where that is longer than the lower
bound, a search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from partita.partitioning.fusion.condensation import SEPARATOR, Precedence
from partita.partitioning.fusion.frontier import greedy
from partita.partitioning.fusion.runs import Runs, count_runs
from partita.partitioning.fusion.search import Search, toll
from partita.partitioning.fusion.waists import cut_at_waists, segment

METHODS = ("empty", "waves", "alternation", "bound", "search", "beam", "greedy")
"""How a sequence was found: nothing to do; one type; two types and no separator; greedily, and
the lower bound is met; by a search that was exhausted; by one that ran out of effort; greedily,
for want of the effort to search at all."""

_WIDENING = 8
"""Each pass of the search keeps this many times more states than the pass before."""


@final
@dataclass(frozen=True)
class Sequence:
    """The types of the batches in the order in which they run.

    Attributes:
        kinds: The type of each batch.
        lower_bound: No sequence is shorter than this.
        method: One of :data:`METHODS`; of several parts the last that applies.
    """

    kinds: tuple[int, ...]
    lower_bound: int
    method: str

    @property
    def proved(self) -> bool:
        """Whether no sequence is shorter."""
        return len(self.kinds) == self.lower_bound


@final
class _Part:
    """A segment between two waists, and the best sequence for it so far."""

    def __init__(self, graph: Precedence) -> None:
        present = sorted(set(graph.kinds) - {SEPARATOR})
        dense = {kind: i for i, kind in enumerate(present)} | {SEPARATOR: SEPARATOR}
        self.graph = Precedence(graph.predecessors, [dense[kind] for kind in graph.kinds])
        self.runs = count_runs(self.graph, len(present))
        self.best = _greedy(self.graph, self.runs)
        self.names = present

    def search(self, effort: int) -> int:
        """Improves the sequence or proves it; returns the effort spent."""
        cost = toll(self.graph, len(self.best.kinds), len(self.names))
        width = min(_WIDENING, effort // cost)
        if width < 2:
            self.best = replace(self.best, method="greedy")
            return 0
        search = Search(self.graph, self.runs)
        while not self.best.proved and search.spent < effort:
            length = len(self.best.kinds) - 1
            found = search.within(length, width, effort - search.spent)
            if found.sequence:
                self.best = replace(self.best, kinds=tuple(found.sequence))
            bound = max(found.lower_bound, self.best.lower_bound)
            self.best = replace(self.best, lower_bound=bound)
            width *= _WIDENING
        self.best = replace(self.best, method="search" if self.best.proved else "beam")
        return search.spent


def shortest_sequence(graph: Precedence, effort: int) -> Sequence:
    """Returns the shortest sequence that could be found.

    Args:
        graph: The nodes, condensed; kinds are :data:`SEPARATOR` or count from 0.
        effort: The most nodes to place and edges to follow in all searches together. It bounds
            the time (some 0.5 µs each) without letting the result depend on the clock.
    """
    if not graph.kinds:
        return Sequence((), 0, "empty")
    graph, waists = cut_at_waists(graph)
    chain = _parts(graph, waists)
    _search_all([part for _, part in chain if isinstance(part, _Part)], effort)
    kinds: list[int] = []
    lower_bound, method = 0, 0
    for shared, part in chain:
        if isinstance(part, _Part):
            kinds += [part.names[kind] for kind in part.best.kinds[shared:]]
            lower_bound += part.best.lower_bound - shared
            method = max(method, METHODS.index(part.best.method))
        else:
            kinds.append(part)
            lower_bound += 1
    return Sequence(tuple(kinds), lower_bound, METHODS[method])


def _parts(graph: Precedence, waists: list[int]) -> list[tuple[int, _Part | int]]:
    """Returns the segments in order, like ones once, each with the batches shared with the last.

    Between two waists side by side there is nothing to choose: that part is the type of the
    second one, where it starts a batch.
    """
    kinds = graph.kinds
    if not waists:
        return [(0, _Part(graph))]
    known: dict[object, _Part] = {}
    chain: list[tuple[int, _Part | int]] = []
    end = len(kinds) - 1
    for low, high in zip([0, *waists], [*waists, end], strict=True):
        if low and high < end and high - low == 1:
            if kinds[high] not in (SEPARATOR, kinds[low]):
                chain.append((0, kinds[high]))
            continue
        local = segment(graph, low, high)
        key = tuple(local.kinds), tuple(map(tuple, local.predecessors))
        if key not in known:
            known[key] = _Part(local)
        chain.append((int(low > 0 and kinds[low] != SEPARATOR), known[key]))
    return chain


def _search_all(parts: list[_Part], effort: int) -> None:
    """Shares the effort among the unproved parts, the smallest first."""
    open_parts = [part for part in dict.fromkeys(parts) if not part.best.proved]
    open_parts.sort(key=lambda part: len(part.graph.kinds))
    for waiting, part in enumerate(open_parts):
        effort -= part.search(effort // (len(open_parts) - waiting))


def _greedy(graph: Precedence, runs: Runs) -> Sequence:
    """Returns the greedy sequence, which is the shortest for one type, or two and no separator."""
    if len(runs.most) == 2 and SEPARATOR not in graph.kinds:
        kinds = min((greedy(graph, runs, first) for first in (0, 1)), key=len)
        return Sequence(tuple(kinds), len(kinds), "alternation")
    kinds = greedy(graph, runs)
    method = "waves" if len(runs.most) == 1 else "bound" if runs.most else "empty"
    return Sequence(tuple(kinds), runs.lower_bound, method)
