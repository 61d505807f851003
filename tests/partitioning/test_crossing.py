"""Crossing bytes: each value once for each place other than its home."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.partitioning.crossing import HOST, crossing_bytes
from partitioning import brute_force
from partitioning.typed_graphs import TypedGraph, typed_graphs


@given(typed_graphs(), st.data())
def test_bytes_are_what_the_definition_says(graph: TypedGraph, data: st.DataObject) -> None:
    size = len(graph.types)
    places = data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    assert crossing_bytes(places, graph.values) == brute_force.crossing(places, graph.values)


def test_a_value_crosses_once_to_each_region_and_once_to_the_host() -> None:
    places = [0, 1, 1, 2, HOST, HOST]
    assert crossing_bytes(places, [(0, 10, [1, 2, 3, 4, 5, -1])]) == 30


def test_a_value_that_stays_is_free() -> None:
    assert crossing_bytes([0, 0, HOST, HOST], [(0, 10, [1]), (2, 10, [3, -1]), (-1, 5, [2])]) == 0


def test_what_comes_from_outside_comes_from_the_host() -> None:
    assert crossing_bytes([0, 1], [(-1, 7, [0, 1])]) == 14


def test_sizes_beyond_64_bits_are_counted() -> None:
    assert crossing_bytes([0, 1], [(0, 1 << 70, [1])]) == 1 << 70


def test_nothing_flows() -> None:
    assert crossing_bytes([0, 1], []) == 0
    assert crossing_bytes([], []) == 0
    assert crossing_bytes([0], [(0, 8, [])]) == 0
