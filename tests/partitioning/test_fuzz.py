"""A seeded slice of ``bench/fuzz_partition.py``, whose own oracle judges every graph."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "fuzz_partition.py"


@pytest.fixture(scope="module")
def fuzz() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("fuzz_partition", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_partition"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fuzz_partition"]


@pytest.mark.parametrize("first", [0, 1_000, 2_000])
def test_fuzzed_graphs_have_no_fault(fuzz: ModuleType, first: int) -> None:
    counts, failures = fuzz.run((1, first, first + 1_000, 3))
    assert failures == []
    assert counts["graphs"] == 1_000
    assert counts["optimal"] == counts["compared"] > 50
    assert counts["spoilt_cyclic"] > 100


def test_every_shape_occurs_in_topological_order(fuzz: ModuleType) -> None:
    shapes = set()
    for number in range(200):
        graph = fuzz.case(5, number)
        shapes.add(graph.shape)
        assert all(p < v for v, parents in enumerate(graph.predecessors) for p in parents)
        assert all(p >= 0 for parents in graph.predecessors for p in parents)
    assert len(shapes) == len(fuzz.SHAPES)


def test_oracle_sees_each_fault(fuzz: ModuleType) -> None:
    values = [(0, 8, [1, 2]), (1, 8, [2])]
    graph = fuzz.Case("made", [[], [0], [0, 1]], [0, 1, 0], values, (0,))
    assert list(fuzz.faults(graph, graph.fused())) == []
    cyclic = fuzz.Fusion((0, 1, 0), 2, 2, "greedy", 16)
    assert {"cycle", "convexity", "order"} <= set(fuzz.faults(graph, cyclic))
    mixed = fuzz.Fusion((0, 0, 0), 1, 2, "greedy", 5)
    assert {"type", "bound", "crossing"} <= set(fuzz.faults(graph, mixed))
    left_out = fuzz.Fusion((-1, 0, 1), 2, 2, "greedy", 24)
    assert "coverage" in set(fuzz.faults(graph, left_out))
    apart = fuzz.Case("made", [[], []], [0, 0], [], (0,))
    assert list(fuzz.faults(apart, fuzz.Fusion((0, 0), 1, 1, "waves", 0))) == ["connected"]
