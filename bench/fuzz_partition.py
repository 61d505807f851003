"""Fuzzes typed fusion and its checker; prints JSON lines, the sum last.

Each graph is fused; then an exhaustive test of its own decides whether the result is acyclic and
convex, whether regions are of one type (and connected where that was asked), whether the bounds
and the crossing bytes are true, and whether ``check`` says the same, also of a spoilt copy. Small
graphs are compared with the exact optimum. A graph is known by its seed and its number:
``--first N --graphs 1`` repeats it.

    python bench/fuzz_partition.py [--graphs 1000000] [--seed 0] [--processes 1]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from partita.errors import UnsoundPlanError
from partita.partitioning.check import check
from partita.partitioning.fusion import EFFORT, Fusion, fuse

BATCH = 2_000


def _brute_force() -> ModuleType:
    path = Path(__file__).parents[1] / "tests" / "partitioning" / "brute_force.py"
    spec = importlib.util.spec_from_file_location("brute_force", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


brute_force = _brute_force()


@dataclass(frozen=True)
class Case:
    """A graph to fuse."""

    shape: str
    predecessors: list[list[int]]
    types: list[int]
    values: list[tuple[int, int, list[int]]]
    connected: tuple[int, ...]
    effort: int = EFFORT

    def fused(self) -> Fusion:
        """Returns what is under test."""
        return fuse(
            self.predecessors,
            self.types,
            values=self.values,
            connected=self.connected,
            effort=self.effort,
        )


def sparse(draw: random.Random, size: int) -> list[list[int]]:
    density = draw.uniform(0.3, 3.0) / size
    return [[p for p in range(v) if draw.random() < density] for v in range(size)]


def near(draw: random.Random, size: int) -> list[list[int]]:
    """Edges from the last few nodes only: long graphs."""
    reach = draw.randint(1, 6)
    return [
        sorted({v - draw.randint(1, min(v, reach)) for _ in range(draw.randint(0, 3))}) if v else []
        for v in range(size)
    ]


def ladder(draw: random.Random, size: int) -> list[list[int]]:
    """Two rails with rungs, in either direction."""
    graph: list[list[int]] = []
    for v in range(size):
        parents = {v - 2} if v >= 2 else set()
        if v and draw.random() < 0.5:
            parents.add(v - (1 if v % 2 else draw.choice((1, 3)) if v > 2 else 1))
        graph.append(sorted(parents))
    return graph


def butterfly(draw: random.Random, size: int) -> list[list[int]]:
    """Layers of a fast Fourier transform: each node reads its own lane and one other."""
    lanes = draw.choice((2, 4, 8))
    graph: list[list[int]] = []
    for v in range(size):
        layer, lane = divmod(v, lanes)
        other = lane ^ (1 << (layer % max(1, lanes.bit_length() - 1)))
        graph.append(sorted({v - lanes, (layer - 1) * lanes + other}) if layer else [])
    return graph


def chain_with_skips(draw: random.Random, size: int) -> list[list[int]]:
    """A chain with long skip connections, and now and then a side branch."""
    graph: list[list[int]] = []
    for v in range(size):
        parents = {v - 1} if v and draw.random() < 0.9 else set()
        if v > 1 and draw.random() < 0.4:
            parents.add(draw.randrange(v))
        graph.append(sorted(parents))
    return graph


def residual(draw: random.Random, size: int) -> list[list[int]]:
    """Blocks of parallel branches that join again."""
    graph: list[list[int]] = [[]]
    while len(graph) < size:
        start = len(graph) - 1
        ends = []
        for _ in range(draw.randint(1, 3)):
            last = start
            for _ in range(draw.randint(0, 3)):
                graph.append([last])
                last = len(graph) - 1
            ends.append(last)
        graph.append(sorted(set(ends)))
    return graph


def hub(draw: random.Random, size: int) -> list[list[int]]:
    """Few nodes that nearly everything reads or feeds, and loose ends."""
    hubs = sorted(draw.sample(range(size), min(size, draw.randint(1, 3))))
    graph: list[list[int]] = []
    for v in range(size):
        parents = {h for h in hubs if h < v and draw.random() < 0.6}
        if v in hubs:
            parents |= {p for p in range(v) if draw.random() < 0.5}
        elif v and draw.random() < 0.3:
            parents.add(draw.randrange(v))
        graph.append(sorted(parents))
    return graph


SHAPES: list[Callable[[random.Random, int], list[list[int]]]] = [
    sparse,
    near,
    ladder,
    butterfly,
    chain_with_skips,
    residual,
    hub,
]


def case(seed: int, number: int) -> Case:
    """Returns the graph of that number."""
    draw = random.Random(f"{seed}-{number}")
    size = draw.randint(100, 1_500) if draw.random() < 0.001 else draw.randint(3, 40)
    shape = draw.choice(SHAPES)
    predecessors = shape(draw, size)
    types = _types(draw, len(predecessors))
    kinds = sorted(set(types) - {-1})
    connected = draw.sample(kinds, draw.randint(0, len(kinds))) if draw.random() < 0.3 else []
    values = _values(draw, predecessors) if draw.random() < 0.7 else []
    effort = draw.choice((EFFORT, EFFORT, EFFORT, 0, 100, 1_000))
    return Case(shape.__name__, predecessors, types, values, tuple(connected), effort)


def _types(draw: random.Random, size: int) -> list[int]:
    count = draw.choice((1, 1, 2, 2, 3, 3, 4, 4, 5, 8))
    rest = draw.choice((0.0, 0.0, 0.1, 0.3, 0.6))
    style = draw.random()
    if style < 0.6:
        kinds = [draw.randrange(count) for _ in range(size)]
    elif style < 0.8:  # interleaved
        kinds = [v % count for v in range(size)]
    else:  # stretches
        kinds = [0] * size
        for v in range(1, size):
            kinds[v] = kinds[v - 1] if draw.random() < 0.7 else draw.randrange(count)
    return [-1 if draw.random() < rest else kind for kind in kinds]


def _values(draw: random.Random, predecessors: list[list[int]]) -> list[tuple[int, int, list[int]]]:
    consumers: list[list[int]] = [[] for _ in predecessors]
    for v, parents in enumerate(predecessors):
        for p in parents:
            consumers[p].append(v)
    values = []
    for v, readers in enumerate(consumers):
        if not readers or draw.random() < 0.1:
            readers.append(-1)
        values.append((v, draw.choice((0, 1, 4, 64, 4096, 10**6)), readers))
    for _ in range(draw.randint(0, 3)):
        readers = sorted(draw.sample(range(len(predecessors)), min(2, len(predecessors))))
        values.append((-1, draw.choice((1, 64, 4096)), readers))
    return values


def faults(graph: Case, fusion: Fusion) -> Iterator[str]:
    """Yields what is wrong with a result."""
    region, types = fusion.region, graph.types
    groups = members(fusion)
    if any((r < 0) != (kind < 0) for r, kind in zip(region, types, strict=True)):
        yield "coverage"
    if any(len({types[v] for v in group}) != 1 for group in groups):
        yield "type"
    if not brute_force.is_acyclic(graph.predecessors, region):
        yield "cycle"
    if len(types) <= 40 and not brute_force.all_convex(graph.predecessors, region):
        yield "convexity"
    if any(
        region[v] >= 0 and region[p] > region[v]
        for v, parents in enumerate(graph.predecessors)
        for p in parents
    ):
        yield "order"
    if not fusion.lower_bound <= fusion.count == len(groups):
        yield "bound"
    if brute_force.crossing(region, graph.values) != fusion.crossing_bytes:
        yield "crossing"
    pieces = [r if kind in graph.connected else -1 for r, kind in zip(region, types, strict=True)]
    if graph.connected and not brute_force.all_connected(graph.predecessors, pieces):
        yield "connected"


def members(fusion: Fusion) -> list[list[int]]:
    """Returns the nodes of each region."""
    groups: list[list[int]] = [[] for _ in range(max(fusion.region, default=-1) + 1)]
    for v, r in enumerate(fusion.region):
        if r >= 0:
            groups[r].append(v)
    return groups


def accepts(graph: Case, groups: list[list[int]]) -> bool:
    """Says whether the checker finds the regions sound."""
    try:
        check(graph.predecessors, groups, types=graph.types)
    except UnsoundPlanError:
        return False
    return True


def spoilt(draw: random.Random, graph: Case, fusion: Fusion) -> list[int]:
    """Returns the regions with two of one type made one, or a node moved; often cyclic."""
    region = list(fusion.region)
    inside = [v for v, r in enumerate(region) if r >= 0]
    for _ in range(3):
        v, w = draw.choice(inside), draw.choice(inside)
        if graph.types[v] == graph.types[w] and region[v] != region[w]:
            old, new = region[v], region[w]
            region = [new if r == old else r for r in region]
            break
    number = {r: i for i, r in enumerate(sorted({r for r in region if r >= 0}))}
    return [number.get(r, -1) for r in region]


def run(job: tuple[int, int, int, int]) -> tuple[Counter[str], list[str]]:
    """Fuzzes the graphs ``first`` to ``last``; returns counts and descriptions of failures."""
    seed, first, last, exact_every = job
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for number in range(first, last):
        graph = case(seed, number)
        fusion = graph.fused()
        wrong = list(faults(graph, fusion))
        if not accepts(graph, members(fusion)):
            wrong.append("checker refuses a sound plan")
        if any(kind >= 0 for kind in graph.types):
            region = spoilt(random.Random(number), graph, fusion)
            sound = brute_force.is_acyclic(graph.predecessors, region)
            counts["spoilt_cyclic"] += not sound
            groups = [[v for v, r in enumerate(region) if r == g] for g in range(max(region) + 1)]
            if accepts(graph, groups) != sound:
                wrong.append("checker errs on a spoilt plan")
        counts["graphs"] += 1
        counts["nodes"] += len(graph.types)
        counts["proved"] += fusion.proved_minimal
        counts[f"method_{fusion.method}"] += 1
        whole = graph.effort == EFFORT and not graph.connected
        if number % exact_every == 0 and len(graph.types) <= 24:
            best = brute_force.fewest_regions(graph.predecessors, graph.types)
            counts["compared"] += whole
            counts["optimal"] += whole and fusion.count == best
            counts["excess_regions"] += fusion.count - best if whole else 0
            if best < fusion.lower_bound:
                wrong.append("bound above the optimum")
        for fault in wrong:
            counts[f"fault: {fault}"] += 1
            failures.append(f"{fault}: --seed {seed} --first {number} --graphs 1")
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--exact-every", type=int, default=10, help="1: compare every small graph")
    parser.add_argument("--report-every", type=int, default=50_000)
    given = parser.parse_args()
    end = given.first + given.graphs
    jobs = (
        (given.seed, first, min(first + BATCH, end), given.exact_every)
        for first in range(given.first, end, BATCH)
    )
    total: Counter[str] = Counter()
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for counts, failures in pool.imap(run, jobs):
            total += counts
            for failure in failures:
                print(json.dumps({"figure": "fuzz_failure", "what": failure}), flush=True)
            if total["graphs"] % given.report_every < BATCH:
                _report("fuzz_progress", total, started)
    _report("fuzz", total, started)
    return 1 if any(key.startswith("fault") for key in total) else 0


def _report(figure: str, counts: Counter[str], started: float) -> None:
    row = {"figure": figure, **sorted_counts(counts), "seconds": round(time.monotonic() - started)}
    print(json.dumps(row), flush=True)


def sorted_counts(counts: Counter[str]) -> dict[str, int]:
    """Returns the counts with the faults, if any, first."""
    faults_first = sorted(counts, key=lambda key: (not key.startswith("fault"), key))
    return {"faults": sum(counts[k] for k in counts if k.startswith("fault"))} | {
        key: counts[key] for key in faults_first
    }


if __name__ == "__main__":
    raise SystemExit(main())
