"""Typed fusion: nodes of one type are put into as few regions as an acyclic graph allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

from partita.partitioning.crossing import HOST, Traffic, crossing_bytes
from partita.partitioning.fusion.condensation import SEPARATOR, Precedence, condense
from partita.partitioning.fusion.pieces import join_pieces, label_pieces
from partita.partitioning.fusion.positions import earliest_positions, waves
from partita.partitioning.fusion.sequence import shortest_sequence
from partita.partitioning.fusion.settlement import settle

_Key = TypeVar("_Key", int, tuple[int, int])

EFFORT = 400_000
"""Steps that the searches may take; some 0.4 s at most, and far less on most graphs."""

APART = -2
"""The type of a node that joins no region, but is a place of its own beside the host."""


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
        types: The type of each node, from 0; -1 for a node that is left to the host, and
            :data:`APART` for one that stands for a region that is settled already. Neither of
            them joins a region here; they differ in what counts as crossing.
        values: What flows: producer (-1: comes from outside), bytes (0: unknown) and consumers
            (-1: leaves the graph).
        connected: The types whose regions must each hang together.
        effort: How many steps (nodes placed, edges followed) the searches may take, about. The
            result depends on it, but never on the clock.
    """
    kinds = [kind if kind >= 0 else SEPARATOR for kind in types]
    present = set(kinds) - {SEPARATOR}
    if len(present) <= 1:
        earliest = waves(predecessors, kinds)
        used = [p for p, kind in zip(earliest, kinds, strict=True) if kind >= 0]
        sequence = tuple(present) * (max(used, default=-1) + 1)
        lower_bound, method = len(sequence), "waves" if sequence else "empty"
    else:
        shortest = shortest_sequence(condense(Precedence(predecessors, kinds)), effort)
        sequence, lower_bound, method = shortest.kinds, shortest.lower_bound, shortest.method
        earliest = earliest_positions(predecessors, kinds, sequence)
    place = settle(predecessors, types, sequence, earliest, values, effort // 2)
    split = present.intersection(connected)
    if split:
        place = join_pieces(predecessors, kinds, sequence, place, split)
        piece = label_pieces(predecessors, kinds, place, split)
        keys = list(zip(place, piece, strict=True))
        region, count = _number(keys, {key for key in keys if key[0] >= 0})
    else:
        region, count = _number(place, {p for p in place if p >= 0})
    places = [r if r >= 0 else p for r, p in zip(region, place, strict=True)]
    return Fusion(region, count, lower_bound, method, crossing_bytes(places, values))


def _number(keys: Sequence[_Key], used: set[_Key]) -> tuple[tuple[int, ...], int]:
    """Numbers the keys in use in their order; returns each node's number and how many there are."""
    number = {key: index for index, key in enumerate(sorted(used))}
    return tuple([number.get(key, HOST) for key in keys]), len(number)
