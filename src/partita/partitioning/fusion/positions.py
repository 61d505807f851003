"""Where each node can stand in a sequence of batches: the earliest and the latest batch.

Lists of positions here hold, for a batchable node, the index of its batch, and for a separator
the bound that it passes on: the first index allowed behind it, or the last one before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def waves(predecessors: Sequence[Sequence[int]], types: Sequence[int]) -> list[int]:
    """Returns the earliest batch of each node where all batches are of type 0.

    The number of batches is the most runs of that type on a path, the fewest there can be.
    """
    position: list[int] = []
    place = position.append
    for parents, kind in zip(predecessors, types, strict=True):
        earliest = 0
        if kind < 0:
            for p in parents:
                after = position[p] + 1 if types[p] >= 0 else position[p]
                if after > earliest:
                    earliest = after
        else:
            for p in parents:
                if position[p] > earliest:
                    earliest = position[p]
        place(earliest)
    return position


def earliest_positions(
    predecessors: Sequence[Sequence[int]], types: Sequence[int], sequence: Sequence[int]
) -> list[int]:
    """Returns the earliest batch of each node.

    Raises:
        IndexError: The sequence is too short for the graph.
    """
    batches = _batches(sequence)
    position: list[int] = []
    place = position.append
    for parents, kind in zip(predecessors, types, strict=True):
        earliest = 0
        for p in parents:
            after = position[p]
            if types[p] >= 0 and (types[p] != kind):
                after += 1
            if after > earliest:
                earliest = after
        if kind >= 0 and (earliest == len(sequence) or sequence[earliest] != kind):
            own = batches[kind]
            earliest = own[bisect_left(own, earliest)]
        place(earliest)
    return position


def latest_positions(
    predecessors: Sequence[Sequence[int]], types: Sequence[int], sequence: Sequence[int]
) -> list[int]:
    """Returns the latest batch of each node, for a sequence that is long enough."""
    batches = _batches(sequence)
    last = len(sequence) - 1
    position = [last] * len(types)
    for v in range(len(types) - 1, -1, -1):
        kind, latest = types[v], position[v]
        if kind >= 0 and sequence[latest] != kind:
            own = batches[kind]
            latest = position[v] = own[bisect_right(own, latest) - 1]
        for p in predecessors[v]:
            before = latest - 1 if kind >= 0 and types[p] != kind else latest
            if before < position[p]:
                position[p] = before
    return position


def _batches(sequence: Sequence[int]) -> dict[int, list[int]]:
    """Returns, for each type, the indices of its batches."""
    found: dict[int, list[int]] = {}
    for index, kind in enumerate(sequence):
        found.setdefault(kind, []).append(index)
    return found
