"""Typed fusion: sound always, minimal where it says so, and the same on every run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.partitioning.fusion import APART, fuse
from partita.partitioning.fusion.sequence import METHODS
from partitioning import brute_force
from partitioning.typed_graphs import TypedGraph, typed_graphs

ROOT = Path(__file__).resolve().parents[3]


@given(typed_graphs())
def test_contracted_graph_is_acyclic(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types, values=graph.values)
    assert brute_force.is_acyclic(graph.predecessors, fusion.region)


@given(typed_graphs())
def test_regions_are_convex(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types, values=graph.values)
    assert brute_force.all_convex(graph.predecessors, fusion.region)


@given(typed_graphs())
def test_regions_hold_one_type_and_every_node_that_has_one(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    types_of: dict[int, set[int]] = {}
    for region, kind in zip(fusion.region, graph.types, strict=True):
        types_of.setdefault(region, set()).add(kind)
    assert types_of.pop(-1, {-1}) == {-1}
    assert all(len(kinds) == 1 and kinds != {-1} for kinds in types_of.values())
    assert sorted(types_of) == list(range(fusion.count))


@given(typed_graphs())
def test_regions_are_numbered_in_an_order_that_runs(graph: TypedGraph) -> None:
    region = fuse(graph.predecessors, graph.types, values=graph.values).region
    last = [-1] * len(region)
    for v, parents in enumerate(graph.predecessors):
        last[v] = max([last[p] for p in parents], default=-1)
        if region[v] >= 0:
            assert region[v] >= last[v]
            last[v] = region[v]


@given(typed_graphs())
def test_count_never_below_lower_bound(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    best = brute_force.fewest_regions(graph.predecessors, graph.types)
    assert fusion.lower_bound <= best <= fusion.count
    assert fusion.method in METHODS


@given(typed_graphs(kinds=3, nodes=8))
def test_count_equals_best_of_all_partitions(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    best = brute_force.fewest_regions_by_partition(graph.predecessors, graph.types)
    assert fusion.count == best


@given(typed_graphs(kinds=1, nodes=20))
def test_one_type_equals_brute_force_and_is_proved(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    assert fusion.count == brute_force.fewest_regions(graph.predecessors, graph.types)
    assert fusion.proved_minimal


@given(typed_graphs(kinds=2, nodes=20, rest=False))
def test_two_types_alone_equal_brute_force_and_are_proved(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    assert fusion.count == brute_force.fewest_regions(graph.predecessors, graph.types)
    assert fusion.proved_minimal


@given(typed_graphs(kinds=2, nodes=20))
def test_two_types_with_rest_equal_brute_force(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types)
    assert fusion.count == brute_force.fewest_regions(graph.predecessors, graph.types)


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize("kinds", [3, 4])
def test_several_types_equal_brute_force(kinds: int, rest: bool) -> None:
    for seed in range(100):
        predecessors, types = random_graph(seed, kinds, rest)
        fusion = fuse(predecessors, types)
        assert fusion.count == brute_force.fewest_regions(predecessors, types), seed
        assert fusion.proved_minimal


def random_graph(seed: int, kinds: int, rest: bool) -> tuple[list[list[int]], list[int]]:
    draw = random.Random(f"{seed} {kinds} {rest}")
    size = draw.randint(10, 22)
    density = draw.uniform(0.5, 2.5) / size
    predecessors = [[p for p in range(v) if draw.random() < density] for v in range(size)]
    return predecessors, [draw.randrange(-1 if rest else 0, kinds) for _ in range(size)]


@given(typed_graphs(), st.sets(st.integers(0, 3)))
def test_connected_pieces_are_connected(graph: TypedGraph, connected: set[int]) -> None:
    fusion = fuse(graph.predecessors, graph.types, values=graph.values, connected=connected)
    region = [
        r if kind in connected else -1 for r, kind in zip(fusion.region, graph.types, strict=True)
    ]
    assert brute_force.all_connected(graph.predecessors, region)
    assert brute_force.is_acyclic(graph.predecessors, fusion.region)
    assert fusion.lower_bound <= fusion.count


@given(typed_graphs(), st.sets(st.integers(0, 3)))
def test_types_that_need_not_be_connected_lose_nothing(
    graph: TypedGraph, connected: set[int]
) -> None:
    free = set(graph.types) - connected - {-1}

    def count(asked: set[int]) -> int:
        fusion = fuse(graph.predecessors, graph.types, values=graph.values, connected=asked)
        pairs = zip(fusion.region, graph.types, strict=True)
        return len({region for region, kind in pairs if kind in free})

    assert count(connected) <= count(set())


@given(typed_graphs())
def test_crossing_bytes_are_what_the_definition_says(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types, values=graph.values)
    assert fusion.crossing_bytes == brute_force.crossing(fusion.region, graph.values)


@given(typed_graphs())
def test_saving_bytes_never_costs_a_region(graph: TypedGraph) -> None:
    plain = fuse(graph.predecessors, graph.types)
    thrifty = fuse(graph.predecessors, graph.types, values=graph.values)
    assert thrifty.count <= plain.count


@given(typed_graphs(kinds=1, nodes=9))
def test_one_type_crosses_as_few_bytes_as_any_minimal_placement(graph: TypedGraph) -> None:
    fusion = fuse(graph.predecessors, graph.types, values=graph.values)
    best = brute_force.cheapest_crossing(
        graph.predecessors, graph.types, graph.values, fusion.count
    )
    assert fusion.crossing_bytes == best


def test_crossing_bytes_are_near_the_fewest_for_several_types() -> None:
    found = fewest = 0
    for seed in range(60):
        draw = random.Random(seed)
        size = draw.randint(5, 9)
        predecessors = [[p for p in range(v) if draw.random() < 0.3] for v in range(size)]
        types = [draw.randrange(-1, 3) for _ in range(size)]
        values = [
            (v, draw.randint(1, 100), [w for w in range(size) if v in predecessors[w]])
            for v in range(size)
        ]
        fusion = fuse(predecessors, types, values=values)
        best = brute_force.cheapest_crossing(predecessors, types, values, fusion.count)
        assert fusion.crossing_bytes >= best
        found += fusion.crossing_bytes
        fewest += best
    assert found <= 1.01 * fewest


def test_a_chain_of_nodes_moves_together_to_where_its_end_is_read() -> None:
    # 1 -> 2 -> 3 reads little and could run at once, but only node 5, behind the host, wants it.
    predecessors = [[], [], [1], [2], [0], [3, 4]]
    types = [0, 0, 0, 0, -1, 0]
    values = [(-1, 1, [1]), (1, 50, [2]), (2, 100, [3]), (3, 70, [5]), (0, 1, [4]), (4, 1, [5])]
    fusion = fuse(predecessors, types, values=values)
    assert fusion.count == 2
    assert fusion.region == (0, 1, 1, 1, -1, 1)
    assert fusion.crossing_bytes == 3


def test_values_of_unknown_size_cross_as_seldom_as_they_can() -> None:
    predecessors = [[], [], [0], [1, 2]]
    types = [0, 0, -1, 0]
    values = [(0, 0, [2]), (1, 0, [3]), (2, 0, [3])]
    assert fuse(predecessors, types, values=values).region == (0, 1, -1, 1)


def test_a_settled_region_is_another_place_than_the_host() -> None:
    predecessors = [[], [0], [0]]
    values = [(0, 10, [1, 2])]
    assert fuse(predecessors, [0, -1, -1], values=values).crossing_bytes == 10
    assert fuse(predecessors, [0, -1, APART], values=values).crossing_bytes == 20
    assert fuse(predecessors, [0, -1, APART], values=values).region == (0, -1, -1)


def test_nothing_to_fuse() -> None:
    assert fuse([], []).region == ()
    alone = fuse([[], [0]], [-1, -1], values=[(0, 8, [1])])
    assert (alone.region, alone.count, alone.crossing_bytes) == ((-1, -1), 0, 0)
    assert alone.proved_minimal
    assert alone.method == "empty"


def test_parallel_branches_of_two_types_share_regions() -> None:
    # The words AB and BA: three regions are needed and enough.
    fusion = fuse([[], [0], [], [2]], [0, 1, 1, 0])
    assert (fusion.count, fusion.method) == (3, "alternation")
    assert fusion.proved_minimal


def test_a_skip_past_the_host_splits_a_region() -> None:
    fusion = fuse([[], [0], [0, 1]], [0, -1, 0])
    assert fusion.region == (0, -1, 1)


def test_a_node_that_nothing_orders_joins_a_region_that_exists() -> None:
    fusion = fuse([[], [0], [1], []], [0, -1, 0, 0])
    assert fusion.count == 2
    assert fusion.region[3] in (0, 1)


def test_more_effort_never_gives_more_regions() -> None:
    draw = random.Random(4)
    predecessors = [
        sorted({max(0, v - draw.randint(1, 40)) for _ in range(2)}) if v else [] for v in range(900)
    ]
    types = [draw.randrange(-1, 4) for _ in predecessors]
    none, some, much = (fuse(predecessors, types, effort=e) for e in (0, 50_000, 400_000))
    assert none.count >= some.count >= much.count > much.lower_bound - 1
    assert none.lower_bound <= some.lower_bound <= much.lower_bound
    assert none.method == "greedy"
    assert some.method in ("beam", "search")
    assert much.count < none.count


def test_long_chain_of_a_million_nodes() -> None:
    size = 1_000_000
    predecessors = [(), *((v,) for v in range(size - 1))]
    types = [-1 if v % 1000 == 999 else 0 for v in range(size)]
    fusion = fuse(predecessors, types)
    assert fusion.count == fusion.lower_bound == 1000


def test_result_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import random\n"
        "from partita.partitioning.fusion import fuse\n"
        "draw = random.Random(7)\n"
        "for size in (30, 300, 3000):\n"
        "    graph = [sorted({max(0, v - draw.randint(1, 30)) for _ in range(2)}) if v else []\n"
        "             for v in range(size)]\n"
        "    types = [draw.randrange(-1, 4) for _ in graph]\n"
        "    values = [(v, draw.randint(1, 99), [w for w in range(v, min(size, v + 40))\n"
        "               if v in graph[w]]) for v in range(size)]\n"
        "    print(fuse(graph, types, values=values, connected=(1,)))\n"
    )
    printed = set()
    for seed in ("0", "1", "12345"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert "Fusion" in printed.pop()
