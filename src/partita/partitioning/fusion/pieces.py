"""Regions whose nodes hang together: batches are split into their connected pieces.

The contracted graph stays acyclic: positions never fall along an edge, so a path between two
pieces of one batch stays inside that batch (it rises across everything foreign) and would have
made the two one piece.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_ROUNDS = 4
"""Rounds of joining; each is linear in the graph, and the first does most of the work."""

_LARGE = 50_000
"""Graphs of so many nodes get one round."""


def join_pieces(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    sequence: Sequence[int],
    position: list[int],
    connected: Collection[int],
) -> list[int]:
    """Moves whole pieces into the batch of a neighbouring piece of their type, so that they join.

    The fewest batches do not give the fewest connected pieces (to find those is another, harder
    problem); this mends the common case, a piece that ran earlier or later than it had to.

    Args:
        predecessors: For each node the nodes it reads from, in topological order.
        types: The type of each node; negative for separators.
        sequence: The type of each batch.
        position: The batch of each node; left as it is.
        connected: The types whose regions must hang together.

    Returns:
        The new batch of each node.
    """
    position = list(position)
    links = _links(predecessors, types, connected)
    for _ in range(_ROUNDS if len(types) < _LARGE else 1):
        moved = False
        for rising in (True, False):
            piece = _labels(len(types), links, position)
            limits = _limits(predecessors, types, len(sequence), position, piece, rising)
            moved = _pull(position, piece, limits, links, rising) or moved
        if not moved:
            break
    return position


def label_pieces(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    position: Sequence[int],
    connected: Collection[int],
) -> list[int]:
    """Returns the number of each node's piece, the lowest node in it.

    Nodes of types that need not be connected are all in piece 0.
    """
    piece = _labels(len(types), _links(predecessors, types, connected), position)
    return [p if kind in connected else 0 for p, kind in zip(piece, types, strict=True)]


def _links(
    predecessors: Sequence[Sequence[int]], types: Sequence[int], connected: Collection[int]
) -> list[tuple[int, int]]:
    """Returns the edges between two nodes of one type that has to be connected."""
    return [
        (p, v)
        for v, parents in enumerate(predecessors)
        if types[v] in connected
        for p in parents
        if types[p] == types[v]
    ]


def _labels(size: int, links: Sequence[tuple[int, int]], position: Sequence[int]) -> list[int]:
    """Returns the lowest node that each node hangs together with in its batch."""
    piece = list(range(size))
    for p, v in links:
        if position[p] == position[v]:
            first, second = _root(piece, p), _root(piece, v)
            if first < second:
                piece[second] = first
            else:
                piece[first] = second
    return [p if piece[p] == p else _root(piece, p) for p in piece]


def _root(piece: list[int], node: int) -> int:
    while piece[node] != node:
        piece[node] = piece[piece[node]]
        node = piece[node]
    return node


def _limits(
    predecessors: Sequence[Sequence[int]],
    types: Sequence[int],
    batches: int,
    position: Sequence[int],
    piece: Sequence[int],
    rising: bool,
) -> dict[int, int]:
    """Returns the last (or first) batch that the neighbours of each piece allow it."""
    limits: dict[int, int] = {}
    through = [batches - 1 if rising else 0] * len(types)
    order = range(len(types) - 1, -1, -1) if rising else range(len(types))
    for v in order:
        for p in predecessors[v]:
            near, far = (p, v) if rising else (v, p)
            if piece[near] == piece[far]:
                continue
            step = 0 if types[far] < 0 or types[far] == types[near] else 1
            bound = through[far] if types[far] < 0 else position[far] + (-step if rising else step)
            better = min if rising else max
            through[near] = better(through[near], bound)
            label = piece[near]
            limits[label] = better(limits.get(label, bound), bound)
    return limits


def _pull(
    position: list[int],
    piece: Sequence[int],
    limits: dict[int, int],
    links: Sequence[tuple[int, int]],
    rising: bool,
) -> bool:
    """Moves pieces to their neighbours, all in one direction; says whether any moved.

    Neighbours that move the same way only widen what a piece is allowed, so the limits stay safe.
    """
    targets: dict[int, int] = {}
    between = {(piece[p], piece[v]) for p, v in links if position[p] != position[v]}
    for first, second in sorted(between, reverse=rising):
        near, far = (first, second) if rising else (second, first)
        goal = targets.get(far, position[far])
        fits = goal <= limits[near] if rising else goal >= limits[near]
        if near not in targets and fits:
            targets[near] = goal
    for v, label in enumerate(piece):
        if label in targets:
            position[v] = targets[label]
    return bool(targets)
