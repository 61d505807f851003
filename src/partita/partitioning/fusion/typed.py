"""Typed fusion: nodes of one type are put into as few regions as an acyclic graph allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from partita.partitioning.crossing import HOST, Traffic, crossing_bytes
from partita.partitioning.fusion.condensation import Precedence, condense
from partita.partitioning.fusion.pieces import join_pieces, label_pieces
from partita.partitioning.fusion.positions import earliest_positions, waves
from partita.partitioning.fusion.sequence import shortest_sequence
from partita.partitioning.fusion.settlement import settle

EFFORT = 100_000
"""Nodes that the searches may place or move; some 0.3 s at most, and far less on most graphs."""


@final
@dataclass(frozen=True)
class Fusion:
    """Nodes in regions.

    Attributes:
        region: The region of each node, or -1. Regions are numbered in an order in which they
            can run, and every number up to :attr:`count` is used.
        count: How many regions there are.
        lower_bound: No placement has fewer regions. (Connected pieces are not counted in it.)
        method: How the count came about: one of ``partita.partitioning.fusion.sequence.METHODS``.
        crossing_bytes: Bytes of every value, once for each region other than the one that makes
            it that reads it, and once for the host if that reads it.
    """

    region: tuple[int, ...]
    count: int
    lower_bound: int
    method: str
    crossing_bytes: int

    @property
    def proved_minimal(self) -> bool:
        """Whether it is proved that there cannot be fewer regions."""
        return self.count == self.lower_bound


def fuse(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    *,
    values: Sequence[Traffic] = (),
    connected: Collection[int] = (),
    effort: int = EFFORT,
) -> Fusion:
    """Puts nodes of one type into as few regions as can be, and of those ways into a thrifty one.

    Contracting every region leaves the graph acyclic. The count is the smallest possible for one
    type, for two types that cover the graph, and wherever ``proved_minimal`` says so. Among the
    placements of that count one is chosen by which few bytes cross.

    Args:
        predecessors: For each node the nodes it reads from. Nodes are numbered in topological
            order: every predecessor has a smaller number.
        types: The type of each node, from 0; -1 for a node that joins no region and runs alone.
        values: What flows: producer (-1: comes from outside), bytes (0: unknown) and consumers
            (-1: leaves the graph).
        connected: The types whose regions must each hang together.
        effort: How many nodes the searches may place or move. The result depends on it, but
            never on the clock.
    """
    present = set(types) - {HOST}
    if len(present) <= 1:
        earliest = waves(predecessors, types)
        used = [p for p, kind in zip(earliest, types, strict=True) if kind != HOST]
        count = max(used, default=-1) + 1
        sequence = tuple(present) * count
        lower_bound, method = count, "waves" if count else "empty"
    else:
        shortest = shortest_sequence(condense(Precedence(predecessors, types)), effort)
        sequence, lower_bound, method = shortest.kinds, shortest.lower_bound, shortest.method
        earliest = earliest_positions(predecessors, types, sequence)
    position = settle(predecessors, types, sequence, earliest, values, effort)
    split = present.intersection(connected)
    if split:
        position = join_pieces(predecessors, types, sequence, position, split)
    pieces = label_pieces(predecessors, types, position, split) if split else [HOST] * len(types)
    region, count = _number(position, pieces)
    return Fusion(region, count, lower_bound, method, crossing_bytes(region, values))


def _number(position: Sequence[int], piece: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Returns the region of each node, numbered by batch and piece, and how many there are."""
    keys = list(zip(position, piece, strict=True))
    used = sorted({key for key in keys if key[0] != HOST})
    number = {key: index for index, key in enumerate(used)}
    return tuple(number.get(key, HOST) for key in keys), len(used)
