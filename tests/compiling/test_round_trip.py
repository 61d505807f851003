from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.backends.contract import Backend
from partita.compiling.outline import outline
from partita.compiling.stage import compile as compile_plan
from partita.loading.stage import load
from partita.model import bodies
from partita.partitioning.stage import partition

SEEDS = st.integers(0, 2**32 - 1)


def regions_in(model: Any) -> dict[str, tuple[str, frozenset[str]]]:
    """Returns graph and nodes of every region that the nodes of a model say they came in."""
    found: dict[str, tuple[str, set[str]]] = {}
    for path, graph in model.graphs():
        for node in graph:
            name = node.metadata_props.get("partita.region")
            if name is not None:
                assert found.setdefault(name, (path, set()))[0] == path
                found[name][1].add(node.name)
    return {name: (path, frozenset(nodes)) for name, (path, nodes) in found.items()}


@settings(max_examples=60)
@given(seed=SEEDS)
def test_saved_and_loaded_the_regions_are_the_same(kit, seed: int, tmp_path_factory) -> None:
    model = load(kit.proto(seed))
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing()), seed)
    path = outline(plan).save(tmp_path_factory.mktemp("saved") / "model.onnx")
    again = load(path)
    assert regions_in(again) == {r.name: (r.graph, frozenset(r.nodes)) for r in plan.regions}
    told = json.loads(again.ir.metadata_props.get("partita.regions", "{}"))
    assert {k: v["backend"] for k, v in told.items()} == {r.name: r.backend for r in plan.regions}
    # A weight of a body that travelled inside a region comes back as a weight of the main graph.
    weights = {name for _, graph in model.graphs() for name in graph.initializers}
    assert set(again.parameters) <= weights


@settings(max_examples=40)
@given(seed=SEEDS)
def test_a_second_partition_leaves_regions_alone_and_computes_the_same(kit, seed: int) -> None:
    proto = kit.proto(seed)
    first = kit.random_plan(load(proto), (kit.Numpy(), kit.Passing()), seed, host=0.5)
    again = load(ir.to_proto(outline(first).ir).SerializeToString())

    class Greedy(kit.Binding):
        name = "greedy"

        def why_not(self, node: ir.Node) -> str | None:
            return "it has bodies" if any(True for _ in bodies(node)) else None

    known: dict[str, Backend] = {"numpy": kit.Numpy(), "passing": kit.Passing()}
    plan = partition(again, [Greedy()], resolve=known.__getitem__)
    kept = {r.name: (r.backend, frozenset(r.nodes)) for r in plan.regions if r.backend in known}
    assert kept == {r.name: (r.backend, frozenset(r.nodes)) for r in first.regions}
    assert set(plan.host.values()) <= {"If", "Loop"}
    feeds = kit.feeds_for(again, seed)
    for a, b in zip(compile_plan(plan)(*feeds), kit.expected(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    chained = load(ir.to_proto(outline(plan).ir).SerializeToString())
    assert set(regions_in(chained)) == {r.name for r in plan.regions}


@pytest.mark.engine("onnxruntime")
@pytest.mark.parametrize("name", ["bert", "dlrm", "gru", "mobilenetv3", "whisper_enc"])
def test_a_real_model_cut_at_random_runs_the_same_in_every_form(kit, zoo, name: str) -> None:
    import onnxruntime

    from partita.backends.onnxruntime import OnnxRuntimeBackend

    feeds = dict(np.load(zoo / f"{name}.inputs.npz"))
    wanted = list(np.load(zoo / f"{name}.outputs.npz").values())
    model = load(zoo / f"{name}.onnx")
    plan = kit.random_plan(model, (OnnxRuntimeBackend(threads=1),), 1)
    program = compile_plan(plan, strict=True)
    text = ir.to_proto(outline(plan).ir).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    for found in (list(program.run(feeds).values()), session.run(None, feeds)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
