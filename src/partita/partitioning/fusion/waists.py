"""The waists of a graph, at which the search for the shortest sequence falls into separate parts.

A waist is a node that is comparable to every other node. It is the only sink of the segment
before it and the only source of the segment behind it; if it is batchable, it belongs to both,
so the last batch of one segment is the first batch of the next. The shortest sequence of the
whole is therefore the join of the shortest sequences of the segments. Networks are full of
waists (every residual block ends in one), so that most of them fall into parts that are solved
exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import final

import numpy as np

from partita.partitioning.fusion.condensation import SEPARATOR, Precedence

_NEVER = 1 << 60


@final
@dataclass(frozen=True, eq=False)
class Spans:
    """How far the edges at each node reach; edges to loose ends are left out.

    A loose end is a source or a sink. It is comparable to few nodes and would hide most waists.

    Attributes:
        first_after: The first successor that is no sink, or a huge index.
        last_before: The last predecessor that is no source, or -1.
        sources: The nodes without predecessors.
        sinks: The nodes without successors, sources excepted.
    """

    first_after: list[int]
    last_before: list[int]
    sources: list[int]
    sinks: list[int]


def cut_at_waists(graph: Precedence) -> tuple[Precedence, list[int]]:
    """Returns the graph without the loose ends that constrain nothing, and its waists in order.

    A source of some type whose successors all come behind a waist, where a node of the same type
    stands at or before that waist, shares that node's batch in every placement without loss, so
    it becomes a separator without effect; so do, mirrored, sinks. A loose end that must stay
    takes away the waists to which it is not comparable. O(nodes + edges).
    """
    spans = _spans(graph)
    waists = _waists(graph, spans)
    if not waists:
        return graph, waists
    kinds = list(graph.kinds)
    earliest, latest = _first_and_last_of_kind(graph, spans)
    behind_sources = _loose_successors(graph, spans)
    lowest, highest = 0, _NEVER
    for v in spans.sources:
        if kinds[v] == SEPARATOR:
            continue
        after = spans.first_after[v]
        sinks = [spans.last_before[s] for s in behind_sources[v]]
        place = bisect_left(waists, after) - 1
        if sinks:
            place = min(place, bisect_right(waists, min(sinks)) - 1)
        if place >= 0 and earliest.get(kinds[v], _NEVER) <= waists[place]:
            kinds[v] = SEPARATOR
        else:
            lowest = max(lowest, after)
    for v in spans.sinks:
        if kinds[v] == SEPARATOR:
            continue
        before = spans.last_before[v]
        place = bisect_left(waists, before)
        loose = [spans.first_after[p] for p in graph.predecessors[v] if p in behind_sources]
        if loose:
            place = max(place, bisect_left(waists, max(loose)))
        if place < len(waists) and latest.get(kinds[v], -1) >= waists[place]:
            kinds[v] = SEPARATOR
        else:
            highest = min(highest, before)
    return Precedence(graph.predecessors, kinds), [w for w in waists if lowest <= w <= highest]


def segment(graph: Precedence, low: int, high: int) -> Precedence:
    """Returns the nodes ``low`` to ``high`` (a waist or an end of the graph each) as a graph."""
    inner = graph.predecessors[low + 1 : high + 1]
    predecessors = [[p - low for p in parents if p >= low] for parents in inner]
    return Precedence([[], *predecessors], graph.kinds[low : high + 1])


def _spans(graph: Precedence) -> Spans:
    size = len(graph.kinds)
    after = [_NEVER] * size
    before = [-1] * size
    sources: list[int] = []
    sinks: list[int] = []
    touched = bytearray(size)
    everything = graph.predecessors
    for v in range(size - 1, -1, -1):
        parents = everything[v]
        if not parents:
            sources.append(v)
            continue
        inner = [p for p in parents if everything[p]]
        if inner:
            before[v] = max(inner)
        if touched[v]:
            for p in parents:
                after[p] = v
        else:
            sinks.append(v)
        for p in parents:
            touched[p] = 1
    return Spans(after, before, sources, sinks)


def _first_and_last_of_kind(
    graph: Precedence, spans: Spans
) -> tuple[dict[int, int], dict[int, int]]:
    """Returns, for each kind, the first and the last node of that kind that is no loose end."""
    loose = {*spans.sources, *spans.sinks}
    inner = [(kind, v) for v, kind in enumerate(graph.kinds) if v not in loose]
    return dict(reversed(inner)), dict(inner)


def _loose_successors(graph: Precedence, spans: Spans) -> dict[int, list[int]]:
    """Returns the successors of each source that are sinks."""
    found: dict[int, list[int]] = {v: [] for v in spans.sources}
    for sink in spans.sinks:
        for p in graph.predecessors[sink]:
            if p in found:
                found[p].append(sink)
    return found


def _waists(graph: Precedence, spans: Spans) -> list[int]:
    """Returns the inner nodes that are comparable to every node that is no loose end.

    Node c is one if each earlier node has a successor no later than c, so that a walk along
    first successors ends in c, and each later node has a predecessor no earlier than c.
    """
    after = np.array(spans.first_after, dtype=np.int64)
    before = np.array(spans.last_before, dtype=np.int64)
    loose = [*spans.sources, *spans.sinks]
    after[loose] = -1
    before[loose] = _NEVER
    if after.size < 3:
        return []
    reach = np.maximum.accumulate(after)[:-2]
    origin = np.minimum.accumulate(before[::-1])[::-1][2:]
    inner = np.arange(1, after.size - 1)
    found = (reach <= inner) & (origin >= inner)
    found[[v - 1 for v in loose if 0 < v < after.size - 1]] = False
    return [int(c) for c in np.flatnonzero(found) + 1]
