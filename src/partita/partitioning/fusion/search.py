"""Search for the shortest sequence, exact where the effort suffices and a beam where it does not.

A state is the set of nodes that have run (an integer, one bit a node). States are expanded layer
by layer, one batch a layer; a batch is always the largest of its type, since to have done more is
never worse. The lower bound of what is left costs nothing to keep: running a batch of a type
changes the bound of that type alone, and by one at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from partita.partitioning.fusion.condensation import SEPARATOR, Precedence
from partita.partitioning.fusion.runs import Runs

_DOMINATORS = 48
"""States of a layer that each other state is compared with; more prune little and cost much."""


_BRANCHING = 8
"""What a state costs beside its nodes, in units of effort."""

_LONG = 4096
"""Everything costs as much again for each so many nodes that the sets of a state can hold."""


class _State(NamedTuple):
    """Everything reached by some sequence.

    Attributes:
        done: Bit v is set once node v has run.
        left: The sum of ``runs_left``: the fewest batches still needed.
        runs_left: For each type the most runs on a path through nodes that have not run.
        ready: For each type the nodes whose predecessors have all run.
        last: The type of the last batch, or -1.
        previous: The state before that batch.
    """

    done: int
    left: int
    runs_left: tuple[int, ...]
    ready: tuple[tuple[int, ...], ...]
    last: int
    previous: _State | None


@final
@dataclass(frozen=True, eq=False)
class Found:
    """What one pass of the search came to.

    Attributes:
        sequence: A sequence within the length that was allowed, or None. It is as short as any
            if the pass was complete.
        complete: Whether no promising state was left out.
        lower_bound: No sequence is shorter than this.
    """

    sequence: list[int] | None
    complete: bool
    lower_bound: int


def toll(graph: Precedence, length: int, types: int) -> int:
    """Returns the effort, roughly, of a pass for each state that its layers may keep.

    Args:
        graph: The nodes.
        length: About how many layers there will be.
        types: How many types there are; a node waits about as long for its batch.
    """
    size = len(graph.kinds)
    edges = sum(map(len, graph.predecessors))
    return (_BRANCHING * types * length + 2 * (size + edges)) * (1 + size // _LONG)


@final
class Search:
    """The search over one graph.

    Args:
        graph: The nodes; a few thousand at most, since a state holds a bit for each.
        runs: Their runs, as counted by ``count_runs``.

    Attributes:
        spent: The effort so far: nodes placed and edges followed, dearer in larger graphs.
    """

    def __init__(self, graph: Precedence, runs: Runs) -> None:
        self._kinds = graph.kinds
        size = len(graph.kinds)
        self._needs = [0] * size
        self._foreign = [0] * size
        self._followers: list[list[int]] = [[] for _ in graph.kinds]
        for v, parents in enumerate(graph.predecessors):
            kind = graph.kinds[v]
            for p in parents:
                self._needs[v] |= 1 << p
                if kind != graph.kinds[p] or kind == SEPARATOR:
                    self._foreign[v] |= 1 << p
                self._followers[p].append(v)
        self._levels = [[0] * (most + 1) for most in runs.most]
        for v, kind in enumerate(graph.kinds):
            if kind >= 0:
                self._levels[kind][runs.own[v]] |= 1 << v
        self._start = self._first(runs)
        self._charge = 1 + size // _LONG
        self._branching = _BRANCHING + len(runs.most) // 16
        self.spent = 0

    def within(self, length: int, width: int, effort: int) -> Found:
        """Looks for a sequence of at most ``length`` batches.

        Args:
            length: The most batches allowed.
            width: The most states kept in a layer; the most promising ones stay.
            effort: How much may be added to ``spent``, about. When it is used up, the most
                promising state alone is followed to the end.
        """
        layer = [self._start]
        bound = self._start.left
        complete = True
        limit = self.spent + effort
        for batches in range(1, length + 2):
            finished = next((state for state in layer if not state.left), None)
            if finished:
                sequence = _sequence(finished)
                return Found(sequence, complete, len(sequence) if complete else bound)
            states = _undominated(self._expand(layer, length - batches, limit))
            if self.spent > limit:
                complete, width = False, 1
            if complete:
                bound = min((batches + s.left for s in states), default=length + 1)
                complete = len(states) <= width
            layer = states[:width]
        return Found(None, complete, bound)

    def _first(self, runs: Runs) -> _State:
        done, ready = self._settle(0, [v for v, need in enumerate(self._needs) if not need])
        sources: list[list[int]] = [[] for _ in runs.most]
        for v in ready:
            sources[self._kinds[v]].append(v)
        nodes = tuple(tuple(found) for found in sources)
        return _State(done, runs.lower_bound, tuple(runs.most), nodes, -1, None)

    def _expand(self, layer: list[_State], length: int, limit: int) -> list[_State]:
        """Returns the states one batch further that may still end within ``length`` batches.

        They are all of them only if ``spent`` is not above the limit afterwards; of the first
        state they always are.
        """
        found: dict[int, _State] = {}
        for state in layer:
            if found and self.spent > limit:
                break
            for kind, ready in enumerate(state.ready):
                if ready:
                    done, released = self._run(state.done, kind, ready)
                    most = state.runs_left[kind]
                    lowered = not self._levels[kind][most] & ~done
                    if state.left - lowered > length or done in found:
                        continue
                    found[done] = _after(state, kind, done, lowered, self._sorted(released))
        return list(found.values())

    def _sorted(self, released: list[int]) -> dict[int, list[int]]:
        by_kind: dict[int, list[int]] = {}
        for v in released:
            by_kind.setdefault(self._kinds[v], []).append(v)
        return by_kind

    def _run(self, before: int, kind: int, ready: tuple[int, ...]) -> tuple[int, list[int]]:
        """Runs the largest batch; returns what has run then and what has become ready."""
        kinds, needs, foreign, followers = self._kinds, self._needs, self._foreign, self._followers
        done = before
        for v in ready:
            done |= 1 << v
        stack = list(ready)
        released: list[int] = []
        count = 0
        while stack:
            after = followers[stack.pop()]
            count += 1 + len(after)
            for w in after:
                if needs[w] & ~done or done >> w & 1:
                    continue
                if kinds[w] == SEPARATOR or (kinds[w] == kind and not foreign[w] & ~before):
                    done |= 1 << w
                    stack.append(w)
                else:
                    released.append(w)
        self.spent += (count + self._branching) * self._charge
        return done, list(dict.fromkeys(released)) if len(released) > 1 else released

    def _settle(self, done: int, ready: list[int]) -> tuple[int, list[int]]:
        """Runs the separators that can run; returns what has run then and what is ready."""
        waiting: list[int] = []
        while ready:
            v = ready.pop()
            if self._kinds[v] != SEPARATOR:
                waiting.append(v)
                continue
            done |= 1 << v
            ready += [w for w in self._followers[v] if not self._needs[w] & ~done]
        return done, waiting


def _after(
    state: _State, kind: int, done: int, lowered: bool, released: dict[int, list[int]]
) -> _State:
    ready = list(state.ready)
    ready[kind] = ()
    for other, nodes in released.items():
        ready[other] += tuple(nodes)
    runs_left = state.runs_left
    if lowered:
        runs_left = (*runs_left[:kind], runs_left[kind] - 1, *runs_left[kind + 1 :])
    return _State(done, state.left - lowered, runs_left, tuple(ready), kind, state)


def _undominated(states: list[_State]) -> list[_State]:
    """Returns the states, most promising first, without those that another has overtaken."""
    states.sort(key=lambda state: (state.left, -state.done.bit_count(), state.done))
    kept: list[_State] = []
    for state in states:
        done = state.done
        if not any(done & ~better.done == 0 for better in kept[:_DOMINATORS]):
            kept.append(state)
    return kept


def _sequence(state: _State | None) -> list[int]:
    kinds: list[int] = []
    while state is not None and state.last >= 0:
        kinds.append(state.last)
        state = state.previous
    return kinds[::-1]
