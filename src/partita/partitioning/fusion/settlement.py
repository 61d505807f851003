"""Which batch of a fixed sequence each node goes to, such that few bytes cross."""

from __future__ import annotations

from collections.abc import Sequence

from partita.partitioning.crossing import HOST, Traffic
from partita.partitioning.fusion.expansion import expand
from partita.partitioning.fusion.ledger import Ledger
from partita.partitioning.fusion.moves import Placement
from partita.partitioning.fusion.positions import latest_positions

_ROUNDS = 8
"""Rounds end when one brings nothing; hardly a graph needs more than three."""


def settle(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    sequence: Sequence[int],
    earliest: list[int],
    values: Sequence[Traffic],
    effort: int,
) -> list[int]:
    """Returns the place of each node: its batch, or for separators where ``outside`` puts them.

    Two starts, everything as early and as late as it can be, are improved by sweeps of single
    moves and by expansion moves. A graph that is large for the effort gets one start and one sweep
    of the nodes that it can help most.

    Args:
        predecessors: For each node the nodes it reads from, in topological order.
        types: The type of each node; negative for separators.
        sequence: The type of each batch.
        earliest: The earliest batch of each node.
        values: What flows where.
        effort: How much work moves may be.
    """
    best = _placed(earliest, types)
    latest = latest_positions(predecessors, types, sequence)
    free = [v for v, kind in enumerate(types) if kind >= 0 and latest[v] > earliest[v]]
    if not free or not values:
        return best
    if 8 * len(free) + 4 * len(types) > effort:
        free = _drawn(predecessors, types, earliest, latest)
        ledger = Ledger(best, free, values)
        Placement(predecessors, types, sequence, ledger).pull(earliest)
        return ledger.position[:-1]
    cheapest: int | None = None
    for start in (earliest, latest):
        ledger = Ledger(_placed(start, types), free, values)
        placement = Placement(predecessors, types, sequence, ledger)
        _improve(placement, free, effort // 2)
        cost = ledger.cost()
        if cheapest is None or cost < cheapest:
            best, cheapest = ledger.position[:-1], cost
    return best


def _drawn(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    earliest: Sequence[int],
    latest: Sequence[int],
) -> list[int]:
    """Returns the nodes that could join a direct successor of their type in a later batch."""
    drawn = bytearray(len(types))
    for v in range(len(types) - 1, -1, -1):
        kind, here = types[v], earliest[v]
        if kind < 0:
            continue
        for p in predecessors[v]:
            if types[p] == kind and earliest[p] < latest[p]:
                if earliest[p] < here:
                    drawn[p] = drawn[p] or here <= latest[p]
                else:
                    drawn[p] = drawn[p] or drawn[v]
    return [v for v, mark in enumerate(drawn) if mark]


def _improve(placement: Placement, free: list[int], effort: int) -> None:
    """Moves nodes until nothing is gained or the effort is spent."""
    for _ in range(_ROUNDS):
        change = placement.improve()
        effort -= 4 * len(free) + len(placement.types)
        for rising in (True, False):
            if effort <= 0:
                return
            saved, spent = expand(placement, free, rising, effort)
            change += saved
            effort -= spent
        if not change:
            return


def outside(node: int, kind: int) -> int:
    """Returns the place of a node that joins no region: the host, or one of its own."""
    return HOST if kind == HOST else HOST - 1 - node


def _placed(positions: Sequence[int], types: Sequence[int]) -> list[int]:
    """Returns positions with the places of separators in the stead of their bounds."""
    both = enumerate(zip(positions, types, strict=True))
    return [p if kind >= 0 else outside(v, kind) for v, (p, kind) in both]
