"""Condensing and cutting at waists change the graph, never how many batches it needs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from partita.partitioning.fusion.condensation import SEPARATOR, Precedence, condense
from partita.partitioning.fusion.waists import cut_at_waists, segment
from partitioning.brute_force import fewest_regions
from partitioning.typed_graphs import TypedGraph, typed_graphs


def batches(graph: Precedence) -> int:
    return fewest_regions(graph.predecessors, graph.kinds)


@given(typed_graphs(nodes=16))
def test_condensed_graph_needs_as_many_batches(graph: TypedGraph) -> None:
    whole = Precedence(graph.predecessors, graph.types)
    assert batches(condense(whole)) == batches(whole)


@given(typed_graphs(nodes=16))
def test_condensed_graph_is_no_larger_and_in_topological_order(graph: TypedGraph) -> None:
    small = condense(Precedence(graph.predecessors, graph.types))
    assert len(small.kinds) <= len(graph.types)
    for v, parents in enumerate(small.predecessors):
        assert all(0 <= p < v for p in parents)
        assert len(set(parents)) == len(parents)


@given(typed_graphs(nodes=16))
def test_condensed_graph_has_no_loose_separator(graph: TypedGraph) -> None:
    small = condense(Precedence(graph.predecessors, graph.types))
    read = {p for parents in small.predecessors for p in parents}
    for v, kind in enumerate(small.kinds):
        if kind == SEPARATOR:
            assert small.predecessors[v]
            assert v in read


@given(typed_graphs(nodes=16))
def test_segments_need_together_what_the_graph_needs(graph: TypedGraph) -> None:
    for whole in (
        Precedence(graph.predecessors, graph.types),
        condense(Precedence(graph.predecessors, graph.types)),
    ):
        cut, waists = cut_at_waists(whole)
        bounds = [0, *waists, len(whole.kinds) - 1] if whole.kinds else [0]
        needed = sum(batches(segment(cut, low, high)) for low, high in pairwise(bounds))
        shared = sum(cut.kinds[w] != SEPARATOR for w in waists)
        assert needed - shared == batches(whole)


def test_a_chain_of_one_type_becomes_one_node() -> None:
    small = condense(Precedence([[], [0], [1], [2]], [0, 0, 0, 0]))
    assert (small.kinds, small.predecessors) == ([0], [()])


def test_separators_in_a_row_become_one() -> None:
    small = condense(Precedence([[], [0], [1], [2]], [0, -1, -1, 0]))
    assert list(small.kinds) == [0, -1, 0]


def test_every_join_of_residual_blocks_is_a_waist() -> None:
    # 0 -> 1 -> 2 -> 3 and 0 -> 3, and the same from 3 on; a skip from 0 to the end changes nothing.
    graph = Precedence([[], [0], [1], [0, 2], [3], [4], [3, 5, 0]], [0, 1, -1, 0, 1, -1, 0])
    assert cut_at_waists(graph)[1] == [1, 2, 3, 4, 5]


def test_parallel_branches_have_no_waist() -> None:
    assert cut_at_waists(Precedence([[], [0], [0], [1], [2], [3, 4]], [0, 1, 2, 2, 1, 0]))[1] == []


def test_a_loose_end_does_not_hide_waists_that_bind_nothing() -> None:
    # Node 2 is an output of type 1 in the middle of a chain that has type 1 again later.
    graph = Precedence([[], [0], [1], [1], [3], [4]], [0, -1, 1, 0, 1, 0])
    cut, waists = cut_at_waists(graph)
    assert cut.kinds[2] == SEPARATOR
    assert waists == [1, 3, 4]


def test_a_loose_end_that_binds_takes_away_the_waists_behind_it() -> None:
    graph = Precedence([[], [0], [1], [1], [3], [4]], [0, -1, 2, 0, 1, 0])
    cut, waists = cut_at_waists(graph)
    assert cut.kinds[2] == 2
    assert waists == [1]
