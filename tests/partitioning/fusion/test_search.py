"""Bounds, greedy sequences and the search, each against the exhaustive answer."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.partitioning.fusion.condensation import Precedence
from partita.partitioning.fusion.frontier import greedy
from partita.partitioning.fusion.positions import (
    earliest_positions,
    latest_positions,
    waves,
)
from partita.partitioning.fusion.runs import count_runs
from partita.partitioning.fusion.search import Search
from partita.partitioning.fusion.sequence import shortest_sequence
from partitioning.brute_force import fewest_regions
from partitioning.typed_graphs import TypedGraph, typed_graphs

KINDS = 4


def most_runs(graph: TypedGraph, kind: int) -> int:
    """Counts the runs of one type on every path, one path after another."""

    def ahead(v: int, before: int) -> int:
        here = int(graph.types[v] == kind != before)
        after = [w for w, parents in enumerate(graph.predecessors) if v in parents]
        return here + max((ahead(w, graph.types[v]) for w in after), default=0)

    return max((ahead(v, -2) for v in range(len(graph.types))), default=0)


@given(typed_graphs(KINDS))
def test_runs_are_those_of_the_path_with_most(graph: TypedGraph) -> None:
    runs = count_runs(Precedence(graph.predecessors, graph.types), KINDS)
    assert runs.most == [most_runs(graph, kind) for kind in range(KINDS)]


@given(typed_graphs(KINDS))
def test_lower_bound_is_one(graph: TypedGraph) -> None:
    runs = count_runs(Precedence(graph.predecessors, graph.types), KINDS)
    assert runs.lower_bound <= fewest_regions(graph.predecessors, graph.types)


def test_runs_of_many_types_do_not_run_into_each_other() -> None:
    kinds = [v % 70 for v in range(700)]
    chain = Precedence([[v - 1] if v else [] for v in range(700)], kinds)
    runs = count_runs(chain, 70)
    assert runs.most == [10] * 70
    assert runs.ahead == list(range(700, 0, -1))
    assert runs.own == [10 - v // 70 for v in range(700)]


@given(typed_graphs(KINDS, nodes=14), st.integers(0, 2))
def test_types_that_are_not_counted_cost_no_truth(graph: TypedGraph, counted: int) -> None:
    whole = Precedence(graph.predecessors, graph.types)
    best = fewest_regions(graph.predecessors, graph.types)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("partita.partitioning.fusion.runs.COUNTED", counted)
        assert count_runs(whole, KINDS).lower_bound <= best
        found = shortest_sequence(whole, 1 << 20)
    assert len(found.kinds) == best == found.lower_bound


def test_thousands_of_types_are_no_burden() -> None:
    draw = random.Random(3)
    size = 6_000
    graph = [sorted({max(0, v - draw.randint(1, 50))} - {v}) for v in range(size)]
    types = [draw.randrange(3_000) for _ in range(size)]
    whole = Precedence(graph, types)
    found = shortest_sequence(whole, 0)
    assert 3_000 > found.lower_bound > 2_000
    assert len(found.kinds) <= size
    earliest_positions(graph, types, found.kinds)


@given(typed_graphs(KINDS))
def test_greedy_sequence_runs_everything(graph: TypedGraph) -> None:
    whole = Precedence(graph.predecessors, graph.types)
    sequence = greedy(whole, count_runs(whole, KINDS))
    earliest_positions(graph.predecessors, graph.types, sequence)
    assert len(sequence) >= fewest_regions(graph.predecessors, graph.types)


@given(typed_graphs(KINDS, nodes=16))
def test_exhausted_search_finds_the_shortest_sequence(graph: TypedGraph) -> None:
    whole = Precedence(graph.predecessors, graph.types)
    search = Search(whole, count_runs(whole, KINDS))
    best = fewest_regions(graph.predecessors, graph.types)
    found = search.within(len(graph.types), 1 << 20, 1 << 30)
    assert found.complete
    assert found.sequence is not None
    assert len(found.sequence) == best == found.lower_bound
    earliest_positions(graph.predecessors, graph.types, found.sequence)
    if best:
        none = search.within(best - 1, 1 << 20, 1 << 30)
        assert none.sequence is None
        assert none.complete
        assert none.lower_bound == best


@given(typed_graphs(KINDS, nodes=20), st.integers(1, 3), st.integers(0, 60))
def test_cut_short_search_claims_no_more_than_is_true(
    graph: TypedGraph, width: int, effort: int
) -> None:
    whole = Precedence(graph.predecessors, graph.types)
    best = fewest_regions(graph.predecessors, graph.types)
    search = Search(whole, count_runs(whole, KINDS))
    found = search.within(len(graph.types), width, effort)
    assert found.lower_bound <= best
    if found.sequence is not None:
        earliest_positions(graph.predecessors, graph.types, found.sequence)
        assert len(found.sequence) == best or not found.complete


@given(typed_graphs(KINDS, nodes=20), st.sampled_from([0, 30, 300, 1 << 20]))
def test_sequence_is_proved_only_where_it_is_shortest(graph: TypedGraph, effort: int) -> None:
    best = fewest_regions(graph.predecessors, graph.types)
    found = shortest_sequence(Precedence(graph.predecessors, graph.types), effort)
    assert found.lower_bound <= best <= len(found.kinds)
    assert found.proved == (found.lower_bound == len(found.kinds))
    assert found.proved or effort < 1 << 20


def test_effort_is_kept() -> None:
    draw = random.Random(1)
    graph = [sorted({max(0, v - draw.randint(1, 60)) for _ in range(3)} - {v}) for v in range(600)]
    whole = Precedence(graph, [draw.randrange(6) for _ in graph])
    search = Search(whole, count_runs(whole, 6))
    found = search.within(600, 1000, 20_000)
    assert not found.complete
    assert found.sequence is not None
    assert 20_000 < search.spent < 60_000


@given(typed_graphs(KINDS))
def test_positions_keep_the_order_and_are_extreme(graph: TypedGraph) -> None:
    sequence = shortest_sequence(Precedence(graph.predecessors, graph.types), 1 << 20).kinds
    earliest = earliest_positions(graph.predecessors, graph.types, sequence)
    latest = latest_positions(graph.predecessors, graph.types, sequence)
    for positions in (earliest, latest):
        for v, parents in enumerate(graph.predecessors):
            if graph.types[v] < 0:
                continue
            assert sequence[positions[v]] == graph.types[v]
            for p in parents:
                if graph.types[p] >= 0:
                    assert positions[p] <= positions[v]
    for v, kind in enumerate(graph.types):
        if kind >= 0:
            assert earliest[v] <= latest[v]


@given(typed_graphs(kinds=1, nodes=20))
def test_waves_are_the_earliest_positions_of_one_type(graph: TypedGraph) -> None:
    position = waves(graph.predecessors, graph.types)
    count = fewest_regions(graph.predecessors, graph.types)
    assert position == earliest_positions(graph.predecessors, graph.types, [0] * count)


def test_a_sequence_that_is_too_short_is_an_error() -> None:
    with pytest.raises(IndexError):
        earliest_positions([[], [0], [1]], [0, 1, 0], [0, 1])
