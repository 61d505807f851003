"""Hypothesis strategies for graphs whose nodes have types."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class TypedGraph:
    """A graph, what flows in it, and which types have to be connected."""

    predecessors: list[list[int]]
    types: list[int]
    values: list[tuple[int, int, list[int]]]


@st.composite
def typed_graphs(draw: st.DrawFn, kinds: int = 4, nodes: int = 12, rest: bool = True) -> TypedGraph:
    """Draws graphs of up to ``nodes`` nodes of up to ``kinds`` types, -1 among them if ``rest``."""
    types = draw(st.lists(st.integers(-1 if rest else 0, kinds - 1), max_size=nodes))
    predecessors = [
        sorted(draw(st.sets(st.integers(0, v - 1), max_size=3))) if v else []
        for v in range(len(types))
    ]
    consumers: list[list[int]] = [[] for _ in types]
    for v, parents in enumerate(predecessors):
        for p in parents:
            consumers[p].append(v)
    sizes = st.sampled_from([0, 1, 2, 5, 100])
    values = [(v, draw(sizes), readers) for v, readers in enumerate(consumers)]
    for readers in consumers:
        if draw(st.booleans()):
            readers.append(-1)
    if types:
        fed = draw(st.sets(st.integers(0, len(types) - 1), max_size=2))
        values.append((-1, draw(sizes), sorted(fed)))
    return TypedGraph(predecessors, types, values)
