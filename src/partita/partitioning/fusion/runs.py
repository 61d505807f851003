"""How many runs of each type a path must hold: the lower bound on the number of batches.

A run is a maximal stretch of nodes of one type on a path. Two runs of one type on one path can
never share a batch (something foreign stands between them), so a type needs at least as many
batches as the path with the most runs of it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from partita.partitioning.fusion.condensation import Precedence

COUNTED = 256
"""The most types whose runs are counted; more would make the integers long and the pass slow."""


@final
@dataclass(frozen=True, eq=False)
class Runs:
    """Runs on the paths that start at each node.

    Attributes:
        own: For each node the most runs of its own type on a path that starts with it
            (0: separator).
        ahead: For each node the sum over all types of the most runs on a path that starts with
            it, a measure of how much has to follow.
        most: For each type the most runs on any path.
    """

    own: list[int]
    ahead: list[int]
    most: list[int]

    @property
    def lower_bound(self) -> int:
        """The fewest batches that any placement can have, as far as runs tell."""
        return sum(self.most)


def count_runs(graph: Precedence, types: int) -> Runs:
    """Counts the runs of ``types`` types ahead of every node in one backward pass.

    The counts of all types stand side by side in one integer, one field each with a guard bit on
    top, so that the maximum over all types at once takes a handful of integer operations:
    O((nodes + edges) * types / 30) instead of O((nodes + edges) * types). Of more than
    :data:`COUNTED` types the most frequent ones are counted; of the others one run is known.
    """
    kinds, predecessors = graph.kinds, graph.predecessors
    size = len(kinds)
    width = size.bit_length() + 1  # the sum of all fields fits in one, for `ahead`
    unit = _units(kinds, types, width)
    guards = sum(unit) << (width - 1)
    field = (1 << (width - 1)) - 1
    whole = (1 << width) - 1
    down = width - 1
    ahead_of = [0] * size
    own, ahead, most = [0] * size, [0] * size, [0] * types
    for v in range(size - 1, -1, -1):
        kind, counts = kinds[v], ahead_of[v]
        ahead_of[v] = 0
        inner = counts
        if kind >= 0:
            step = unit[kind]
            counts += step
            here = own[v] = (counts // step) & field if step else 1
            if here > most[kind]:
                most[kind] = here
            ahead[v] = counts % whole
        for p in predecessors[v]:
            passed = inner if kinds[p] == kind else counts
            known = ahead_of[p]
            if known != passed:
                at_least = ((known | guards) - passed) & guards
                ahead_of[p] = passed ^ ((known ^ passed) & (at_least - (at_least >> down)))
    return Runs(own, ahead, most)


def _units(kinds: Sequence[int], types: int, width: int) -> list[int]:
    """Returns what one run of each type adds to the packed counts; 0 if it is not counted."""
    number = [0] * types
    for kind in kinds:
        if kind >= 0:
            number[kind] += 1
    repeated = [kind for kind in range(types) if number[kind] > 1]
    repeated.sort(key=lambda kind: -number[kind])
    unit = [0] * types
    for place, kind in enumerate(sorted(repeated[:COUNTED])):
        unit[kind] = 1 << (width * place)
    return unit
