"""The checker: its verdict is that of an exhaustive search, and its messages name the culprits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import UnsoundPlanError
from partita.partitioning.check import check
from partitioning import brute_force


@st.composite
def graphs_with_regions(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Draws an acyclic graph numbered in any order, and a region or -1 for each node."""
    size = draw(st.integers(1, 10))
    order = draw(st.permutations(range(size)))
    predecessors: list[list[int]] = [[] for _ in range(size)]
    for place in range(1, size):
        before = draw(st.sets(st.sampled_from(order[:place]), max_size=3))
        predecessors[order[place]] = sorted(before)
    regions = draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size))
    return predecessors, regions


def groups_of(region: list[int]) -> list[list[int]]:
    return [[v for v, r in enumerate(region) if r == g] for g in range(max(region) + 1)]


def refused(predecessors: list[list[int]], regions: list[list[int]], **more: object) -> str:
    with pytest.raises(UnsoundPlanError) as caught:
        check(predecessors, regions, **more)  # type: ignore[arg-type]
    return str(caught.value)


@given(graphs_with_regions())
def test_checker_finds_every_planted_cycle(case: tuple[list[list[int]], list[int]]) -> None:
    predecessors, region = case
    if brute_force.is_acyclic(predecessors, region):
        check(predecessors, groups_of(region))
    else:
        assert "depend on each other in a cycle: " in refused(predecessors, groups_of(region))


@given(graphs_with_regions())
def test_returned_order_can_run(case: tuple[list[list[int]], list[int]]) -> None:
    predecessors, region = case
    if not brute_force.is_acyclic(predecessors, region):
        return
    order = check(predecessors, groups_of(region))
    assert sorted(order) == list(range(max(region) + 1))
    above = brute_force.ancestors_in_any_order(predecessors)
    place = {r: i for i, r in enumerate(order)}
    for v, own in enumerate(region):
        for u in above[v]:
            if own >= 0 and region[u] >= 0:
                assert place[region[u]] <= place[own]


@given(graphs_with_regions())
def test_cycle_in_the_message_is_one(case: tuple[list[list[int]], list[int]]) -> None:
    predecessors, region = case
    if brute_force.is_acyclic(predecessors, region):
        return
    message = refused(predecessors, groups_of(region), name=[f"n{v}" for v in range(len(region))])
    steps = message.split("cycle: ")[1].split("; ")[0].split(" -> ")
    assert steps[0] == steps[-1]
    assert len(set(steps)) == len(steps) - 1 >= 2
    for step, following in pairwise(steps):
        leaves = step.removesuffix(")").split(" ")[-1].strip("'")
        named = following.removesuffix(")").split("'")
        enters = named[1]
        assert int(leaves[1:]) in predecessors[int(enters[1:])]


def test_given_order_is_kept_where_it_runs() -> None:
    assert check([[], [], [0]], [[1], [0], [2]]) == [0, 1, 2]
    assert check([[], [0], [1]], [[2], [0]]) == [1, 0]


def test_shortest_cycle_is_named() -> None:
    # a -> b -> c -> d -> e -> f in regions {a, f} and {b, d}: one cycle of three, one of two.
    predecessors = [[], [0], [1], [2], [3], [4]]
    message = refused(predecessors, [[0, 5], [1, 3]], name=list("abcdef"))
    assert "region 1 (in at 'd', out at 'b') -> 'c' -> region 1 (in at 'd', out at 'b')" in message


def test_names_may_be_a_function_and_are_made_printable() -> None:
    message = refused([[], [0], [1]], [[0, 2]], name=lambda v: f"n{v}\x1b")
    assert "region 0 (in at 'n2\\x1b', out at 'n0\\x1b') -> 'n1\\x1b' -> region 0" in message


def test_many_edges_between_two_regions_do_not_cancel() -> None:
    # 300 edges from region 0 to region 1 and as many back: one would do for a cycle.
    width = 300
    first, second = range(width), range(width, 2 * width)
    third = range(2 * width, 3 * width)
    predecessors = [*([] for _ in first), *([v] for v in first), *([v] for v in second)]
    message = refused(predecessors, [[*first, *third], [*second]])
    assert "region 0" in message
    assert "region 1" in message


def test_node_in_two_regions_is_refused() -> None:
    assert refused([[], []], [[0, 1], [1]], name=["a", "b"]).startswith(
        "'b' lies in region 0 and region 1; "
    )
    assert "node 0 lies in region 0 and region 0" in refused([[]], [[0, 0]])


def test_node_that_is_none_is_refused() -> None:
    assert "a region holds node 2, but nodes are numbered 0 to 1" in refused([[], []], [[0, 2]])
    assert "a region holds node -1" in refused([[], []], [[-1]])
    assert "a node reads from node 7" in refused([[], [7]], [[0]])


def test_cycle_of_the_graph_itself_is_found() -> None:
    assert "node 0 -> node 1 -> node 0" in refused([[1], [0]], [])
    assert "'a' -> 'a'" in refused([[0]], [], name=["a"])


def test_types_are_checked_where_given() -> None:
    predecessors: list[list[int]] = [[], [], []]
    assert check(predecessors, [[0, 1]], types=[2, 2, -1]) == [0]
    assert "node 2 lies in no region, but its type is 0" in refused(
        predecessors, [[0, 1]], types=[2, 2, 0]
    )
    assert "node 1 lies in region 0, but its type is -1" in refused(
        predecessors, [[0, 1]], types=[2, -1, -1]
    )
    assert "region 0 holds node 0 of type 2 and node 1 of type 3" in refused(
        predecessors, [[0, 1]], types=[2, 3, -1]
    )
    assert "2 types were given for 3 nodes" in refused(predecessors, [[0, 1]], types=[2, 2])


def test_every_refusal_asks_for_a_report() -> None:
    assert refused([[0]], []).endswith("; this is a bug of partita, please report it")


def test_nothing_to_check() -> None:
    assert check([], []) == []
    assert check([[], [0]], []) == []
    assert check([[], [0]], [[], [1]]) == [0, 1]
