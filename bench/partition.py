"""Growth and quality of partitioning; prints one JSON line a figure.

Growth: ``partita.partition`` of loaded graphs with 1,000 to 100,000 nodes (a chain; a random DAG
with 70 % supported nodes; residual blocks with one unsupported op each), and in the same run
torch.fx's ``CapabilityBasedPartitioner`` on graphs of the same shape, at sizes it can bear.

Quality: number of regions against the exact optimum (brute force) on random DAGs.

    python bench/partition.py [--sizes 1000,10000,100000] [--runs 5] [--fx-seconds 20]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import partita as pt
from partita.model import Model
from partita.partitioning.fusion import fuse
from partita.testing import graphs

SHAPES: dict[str, Callable[[int], Model]] = {
    "chain": graphs.chain,
    "random_dag_70": lambda n: graphs.random_dag(n, supported=0.7, seed=1),
    "residual_blocks": graphs.residual_blocks,
}
UNSUPPORTED = graphs.UNSUPPORTED_OP


class Claims(pt.Backend):
    """Claims every op but one; compiles nothing."""

    name = "claims"

    def why_not(self, node: Any) -> str | None:
        return f"{node.op_type} is not supported" if node.op_type == UNSUPPORTED else None

    def compile(self, region: pt.Region) -> Any:
        raise NotImplementedError


def seconds(call: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def growth(sizes: list[int], runs: int) -> None:
    for shape, build in SHAPES.items():
        models = {size: build(size) for size in sizes}
        times: dict[int, list[float]] = {size: [] for size in sizes}
        for _ in range(runs):
            for size, model in models.items():
                times[size].append(seconds(lambda m=model: pt.partition(m, Claims())))
        for size in sizes:
            plan = pt.partition(models[size], Claims())
            report = {
                "figure": "growth",
                "system": "partita",
                "shape": shape,
                "nodes": size,
                "median_s": round(statistics.median(times[size]), 4),
                "min_s": round(min(times[size]), 4),
                "regions": len(plan.regions),
                "proved_minimal": plan.proved_minimal,
            }
            print(json.dumps(report), flush=True)
        if len(sizes) > 1:
            ratio = statistics.median(times[sizes[-1]]) / statistics.median(times[sizes[-2]])
            row = {
                "figure": "growth_ratio",
                "shape": shape,
                "sizes": sizes[-2:],
                "ratio": round(ratio, 2),
            }
            print(json.dumps(row), flush=True)


def fx_growth(limit: float) -> None:
    """Doubles the size until one call takes longer than ``limit`` seconds."""
    if importlib.util.find_spec("torch") is None:
        print(json.dumps({"figure": "growth", "system": "torch.fx", "absent": "torch"}), flush=True)
        return
    for shape in SHAPES:
        size = 250
        while True:
            took, partitions = fx_partition(SHAPES[shape](size))
            ours = seconds(lambda s=shape, n=size: pt.partition(SHAPES[s](n), Claims()))
            row = {
                "figure": "growth",
                "system": "torch.fx CapabilityBasedPartitioner",
                "shape": shape,
                "nodes": size,
                "seconds": round(took, 4),
                "partitions": partitions,
                "partita_build_and_partition_s": round(ours, 4),
            }
            print(json.dumps(row), flush=True)
            if took * 8 > limit:
                break
            size *= 2


def fx_partition(model: Model) -> tuple[float, int]:
    """Times torch.fx's partitioner on a graph of the same shape."""
    import torch
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    graph = torch.fx.Graph()
    made: dict[Any, Any] = {
        value: graph.placeholder(f"in{i}") for i, value in enumerate(model.inputs)
    }
    for number, node in enumerate(model.graph):
        inputs = [made[v] for v in node.inputs if v in made]
        target = torch.erf if node.op_type == UNSUPPORTED else torch.add
        arguments = (inputs[0],) if target is torch.erf else (inputs[0], inputs[-1])
        made[node.outputs[0]] = graph.create_node(
            "call_function", target, arguments, name=f"n{number}"
        )
    graph.output(tuple(made[v] for v in model.outputs))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function" and node.target is torch.add

    partitioner = CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True)
    start = time.perf_counter()
    partitions = partitioner.propose_partitions()
    return time.perf_counter() - start, len(partitions)


def reference() -> ModuleType:
    """Returns the brute force that the tests compare with."""
    path = Path(__file__).parents[1] / "tests" / "partitioning" / "brute_force.py"
    spec = importlib.util.spec_from_file_location("brute_force", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quality(count: int) -> None:
    fewest_regions = reference().fewest_regions
    for kinds in (1, 2, 3, 4):
        for rest in (True, False):
            if kinds == 1 and not rest:
                continue
            ratios: list[float] = []
            proved = 0
            for seed in range(count):
                predecessors, types = random_types(seed, kinds, rest)
                best = fewest_regions(predecessors, types)
                found = fuse(predecessors, types)
                regions = max(found.region, default=-1) + 1
                assert regions >= best >= found.lower_bound, (seed, regions, best)
                proved += found.proved_minimal
                ratios.append(regions / best if best else 1.0)
            row = {
                "figure": "quality",
                "backends": kinds,
                "host_nodes": rest,
                "graphs": count,
                "mean_ratio": round(statistics.mean(ratios), 5),
                "max_ratio": round(max(ratios), 3),
                "proved_minimal": proved,
            }
            print(json.dumps(row), flush=True)


def random_types(seed: int, kinds: int, rest: bool) -> tuple[list[list[int]], list[int]]:
    """Returns a random DAG of 10 to 22 nodes and a backend (-1: host) for each node."""
    draw = random.Random(seed * 31 + kinds * 7 + rest)
    size = draw.randint(10, 22)
    density = draw.uniform(0.5, 2.5) / size
    predecessors = [[p for p in range(n) if draw.random() < density] for n in range(size)]
    return predecessors, [draw.randrange(-1 if rest else 0, kinds) for _ in range(size)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--fx-seconds", type=float, default=20.0)
    parser.add_argument("--graphs", type=int, default=400)
    given = parser.parse_args()
    growth([int(s) for s in given.sizes.split(",")], given.runs)
    if given.fx_seconds > 0:
        fx_growth(given.fx_seconds)
    if given.graphs > 0:
        quality(given.graphs)


if __name__ == "__main__":
    main()
