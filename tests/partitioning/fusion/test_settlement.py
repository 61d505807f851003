"""Moves between batches: they keep the order, pay what they say, and find what can be found."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from partita.partitioning.fusion.condensation import Precedence, condense
from partita.partitioning.fusion.expansion import expand
from partita.partitioning.fusion.ledger import Ledger
from partita.partitioning.fusion.moves import Placement
from partita.partitioning.fusion.positions import earliest_positions, latest_positions
from partita.partitioning.fusion.sequence import shortest_sequence
from partita.partitioning.fusion.settlement import settle
from partitioning import brute_force
from partitioning.typed_graphs import TypedGraph, typed_graphs

GRAPHS = typed_graphs(kinds=2, nodes=16)


def prepared(graph: TypedGraph, late: bool) -> tuple[Placement, list[int]]:
    """Returns the graph placed as early or as late as can be, and the nodes that may move."""
    whole = Precedence(graph.predecessors, graph.types)
    sequence = shortest_sequence(condense(whole), 1 << 20).kinds
    earliest = earliest_positions(graph.predecessors, graph.types, sequence)
    latest = latest_positions(graph.predecessors, graph.types, sequence)
    free = [v for v, kind in enumerate(graph.types) if kind >= 0 and earliest[v] < latest[v]]
    start = latest if late else earliest
    position = [p if kind >= 0 else -1 for p, kind in zip(start, graph.types, strict=True)]
    ledger = Ledger(position, free, graph.values)
    return Placement(graph.predecessors, graph.types, sequence, ledger), free


def in_order(graph: TypedGraph, placement: Placement) -> bool:
    """Says whether the positions are a placement, by following every edge."""
    low: list[int] = []
    for v, parents in enumerate(graph.predecessors):
        kind = graph.types[v]
        bound = 0
        for p in parents:
            rises = graph.types[p] >= 0 and graph.types[p] != kind
            bound = max(bound, low[p] + rises)
        here = placement.ledger.position[v]
        if kind >= 0 and (here < bound or placement.sequence[here] != kind):
            return False
        low.append(here if kind >= 0 else bound)
    return True


@given(GRAPHS, st.booleans())
def test_single_moves_keep_the_order_and_pay_what_they_say(graph: TypedGraph, late: bool) -> None:
    placement, _ = prepared(graph, late)
    before = placement.ledger.cost()
    change = placement.improve()
    assert change <= 0
    assert placement.ledger.cost() == before + change
    assert in_order(graph, placement)


@given(GRAPHS)
def test_pulling_keeps_the_order_and_pays_what_it_says(graph: TypedGraph) -> None:
    placement, _ = prepared(graph, late=False)
    before = placement.ledger.cost()
    earliest = [max(p, 0) for p in placement.ledger.position[:-1]]
    change = placement.pull(earliest)
    assert change <= 0
    assert placement.ledger.cost() == before + change
    assert in_order(graph, placement)


@given(GRAPHS, st.booleans(), st.booleans(), st.sampled_from([5, 50, 1 << 20]))
def test_expansion_goes_one_way_keeps_the_order_and_pays_what_it_says(
    graph: TypedGraph, late: bool, rising: bool, effort: int
) -> None:
    placement, free = prepared(graph, late)
    ledger = placement.ledger
    before, start = ledger.cost(), list(ledger.position)
    change, _ = expand(placement, free, rising, effort)
    assert change <= 0
    assert ledger.cost() == before + change
    assert in_order(graph, placement)
    for was, now in zip(start, ledger.position, strict=True):
        assert now >= was if rising else now <= was


def test_nodes_that_fell_in_a_pass_do_not_rise_in_it() -> None:
    # A chain that the host breaks twice; found by the fuzzer, which saw node 6 rise past node 7.
    predecessors = [[], *([v] for v in range(16))]
    predecessors[5:8] = [[], [4], [5]]
    predecessors[8] = [7]
    types = [-1 if v in (12, 15) else 0 for v in range(17)]
    graph = TypedGraph(predecessors, types, [(5, 0, [6]), (-1, 0, [1, 13])])
    place = settle(
        predecessors,
        types,
        [0, 0, 0],
        earliest_positions(predecessors, types, [0, 0, 0]),
        graph.values,
        1 << 20,
    )
    assert brute_force.is_acyclic(predecessors, place)


@given(typed_graphs(kinds=2, nodes=9), st.sampled_from([0, 100, 1 << 20]))
def test_settling_is_never_worse_than_the_earliest_places(graph: TypedGraph, effort: int) -> None:
    placement, _ = prepared(graph, late=False)
    sequence = placement.sequence
    earliest = earliest_positions(graph.predecessors, graph.types, sequence)
    place = settle(graph.predecessors, graph.types, sequence, earliest, graph.values, effort)
    start = placement.ledger.position[:-1]
    assert brute_force.crossing(place, graph.values) <= brute_force.crossing(start, graph.values)
    assert brute_force.is_acyclic(graph.predecessors, place)


def test_nodes_with_many_readers_and_many_inputs_are_settled() -> None:
    draw = random.Random(2)
    size = 400
    predecessors = [sorted(draw.sample(range(v), min(v, 40))) for v in range(size)]
    types = [draw.choice((0, 0, 0, -1)) for _ in range(size)]
    values = [(v, 8, [w for w in range(v, size) if v in predecessors[w]]) for v in range(size)]
    graph = TypedGraph(predecessors, types, values)
    placement, _ = prepared(graph, late=False)
    placement.improve()
    assert in_order(graph, placement)
