"""Which batch of a fixed sequence each node goes to, such that few bytes cross."""

from __future__ import annotations

from collections.abc import Sequence

from partita.partitioning.crossing import HOST, Ledger, Traffic
from partita.partitioning.expansion import expand
from partita.partitioning.moving import Placement
from partita.partitioning.positions import latest_positions

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
    """Returns the batch of each node, and ``HOST`` for separators.

    Two starts, everything as early and as late as it can be, are improved by sweeps of single
    moves and by expansion moves. A graph with more free nodes than the effort gets one start and
    one sweep each way.

    Args:
        predecessors: For each node the nodes it reads from, in topological order.
        types: The type of each node; negative for separators.
        sequence: The type of each batch.
        earliest: The earliest batch of each node.
        values: What flows where.
        effort: The most nodes to consider in moves.
    """
    latest = latest_positions(predecessors, types, sequence)
    free = [v for v, kind in enumerate(types) if kind >= 0 and latest[v] > earliest[v]]
    starts = [earliest, latest] if 4 * len(free) < effort else [earliest]
    best, cheapest = _stripped(earliest, types), None
    if not free or not values:
        return best
    for start in starts:
        ledger = Ledger(_stripped(start, types), free, values)
        cost = ledger.cost()
        placement = Placement(predecessors, types, sequence, ledger)
        cost += _improve(placement, effort // len(starts))
        if cheapest is None or cost < cheapest:
            best, cheapest = ledger.position[:-1], cost
    return best


def _improve(placement: Placement, effort: int) -> int:
    """Moves nodes until nothing is gained or the effort is spent; returns the change."""
    total = 0
    for _ in range(_ROUNDS):
        change = placement.improve()
        effort -= 2 * len(placement.ledger.inputs)
        for rising in (True, False):
            if effort > 0:
                saved, spent = expand(placement, rising, effort)
                change += saved
                effort -= spent
        total += change
        if not change or effort <= 0:
            break
    return total


def _stripped(positions: Sequence[int], types: Sequence[int]) -> list[int]:
    return [p if kind >= 0 else HOST for p, kind in zip(positions, types, strict=True)]
