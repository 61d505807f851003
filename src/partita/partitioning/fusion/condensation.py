"""Contraction of nodes that may share a batch without loss, and the cut into independent segments.

Words used in ``condensing``, ``runs``, ``sequence``, ``search`` and ``windows``: a *batch* is what
one region will hold; a *sequence* lists the types of the batches in the order in which they run;
a node of kind -1 is a *separator*: it belongs to no batch, runs as soon as it can, and keeps the
nodes before it from sharing a batch with the nodes behind it. A *placement* gives each batchable
node the index of a batch of its type, such that no index falls along an edge, and that it rises
along an edge between two types and across a separator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

SEPARATOR = -1
"""Kind of the nodes that belong to no region."""

_NOTHING, _SEVERAL = -1, -2
_NO_INDEX = 1 << 60


@final
@dataclass(frozen=True, eq=False)
class Precedence:
    """A graph of batchable nodes, numbered in topological order.

    Attributes:
        predecessors: For each node the indices (all smaller) of the nodes that it reads from.
        kinds: For each node its type, or :data:`SEPARATOR`.
    """

    predecessors: Sequence[Sequence[int]]
    kinds: Sequence[int]


def condense(graph: Precedence) -> Precedence:
    """Returns a smaller graph that needs exactly as many batches, in time linear in the graph.

    Why nothing is lost: take any placement. A node whose only predecessor X is of its own type
    can be moved into the batch of X, which is no later than its own, so its successors do not
    mind. Nodes of one type with the same predecessors (none, for instance) can be moved into the
    batch of the earliest of them. The mirror images hold for successors. A separator with nothing
    batchable before or behind it separates nothing.
    """
    return _merge_backwards(_merge_forwards(graph))


def _merge_forwards(graph: Precedence) -> Precedence:
    """Merges nodes into their only predecessor, and nodes that have the same predecessors."""
    member: list[int] = []
    predecessors: list[Sequence[int]] = []
    kinds: list[int] = []
    alike: dict[tuple[int, tuple[int, ...]], int] = {}
    join = member.append
    for parents, kind in zip(graph.predecessors, graph.kinds, strict=True):
        if len(parents) == 1:
            only = member[parents[0]]
            before = (only,) if only >= 0 else ()
        else:
            found = {member[p] for p in parents}
            found.discard(_NOTHING)
            before = tuple(sorted(found)) if len(found) > 1 else tuple(found)
        if len(before) == 1 and kinds[before[0]] == kind:
            join(before[0])
            continue
        if kind == SEPARATOR and not before:
            join(_NOTHING)
            continue
        new = len(kinds)
        here = alike.setdefault((kind, before), new)
        join(here)
        if here == new:
            predecessors.append(before)
            kinds.append(kind)
    return Precedence(predecessors, kinds)


def _merge_backwards(graph: Precedence) -> Precedence:
    """Merges nodes into their only successor, and nodes that have one and the same successor.

    The merged nodes are numbered by their last members. The order holds, because an edge that
    leaves a merged node from a member other than the last goes where the last one's edges go.
    """
    kinds = graph.kinds
    behind = [_NOTHING] * len(kinds)
    root = list(range(len(kinds)))
    alike: dict[tuple[int, int], int] = {}
    merged = False
    for v in range(len(kinds) - 1, -1, -1):
        kind, after = kinds[v], behind[v]
        if after == _SEVERAL:
            here = v
        elif kind == SEPARATOR and after == _NOTHING:
            root[v], merged = _NOTHING, True
            continue
        elif after >= 0 and kinds[after] == kind:
            here = root[v] = after
        else:
            here = root[v] = alike.setdefault((kind, after), v)
        merged = merged or here != v
        for p in graph.predecessors[v]:
            was = behind[p]
            if was == _NOTHING:
                behind[p] = here
            elif was != here:
                behind[p] = _SEVERAL
    return _gather(graph, root) if merged else graph


def _gather(graph: Precedence, root: Sequence[int]) -> Precedence:
    """Renumbers the graph after ``root`` has said which node each node is merged into."""
    index = [_NOTHING] * len(root)
    kinds: list[int] = []
    for v, kind in enumerate(graph.kinds):
        if root[v] == v:
            index[v] = len(kinds)
            kinds.append(kind)
    number = [index[r] if r >= 0 else _NOTHING for r in root]
    gathered: list[list[int]] = [[] for _ in kinds]
    for parents, here in zip(graph.predecessors, number, strict=True):
        if here != _NOTHING:
            gathered[here].extend([number[p] for p in parents])
    predecessors: list[Sequence[int]] = []
    for here, found in enumerate(gathered):
        if len(found) > 1 or here in found:
            distinct = set(found)
            distinct.discard(here)
            found = sorted(distinct)
        predecessors.append(found)
    return Precedence(predecessors, kinds)
