"""Minimum cuts against every subset of nodes."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from partita.partitioning.fusion.network import SINK, SOURCE, Network

INNER = 5
EDGES = st.lists(
    st.tuples(st.integers(0, INNER + 1), st.integers(0, INNER + 1), st.integers(0, 9)), max_size=20
)


def capacity(edges: list[tuple[int, int, int]], side: tuple[bool, ...]) -> int:
    return sum(c for tail, head, c in edges if side[tail] and not side[head])


@given(EDGES)
def test_cut_is_the_smallest_and_is_the_one_returned(edges: list[tuple[int, int, int]]) -> None:
    network = Network()
    for _ in range(INNER):
        network.add_node()
    for tail, head, room in edges:
        network.add_edge(tail, head, room)
    cost, side = network.minimum_cut()
    assert side[SOURCE]
    assert not side[SINK]
    assert capacity(edges, tuple(side)) == cost
    sides = ((True, False, *rest) for rest in product((True, False), repeat=INNER))
    assert cost == min(capacity(edges, s) for s in sides)


def test_capacities_may_be_of_any_size() -> None:
    network = Network()
    node = network.add_node()
    network.add_edge(SOURCE, node, 1 << 90)
    network.add_edge(node, SINK, (1 << 80) + 1)
    assert network.minimum_cut() == ((1 << 80) + 1, [True, False, True])
