from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.compiling.verify import bisect
from partita.errors import InputError, RunError, UsageError
from partita.model import bodies


def wrong_at(kit: Any, culprit: str, how: Any = lambda x: x + 1) -> Any:
    """Returns a backend that computes rightly, but for the first output of one node."""

    class Wrong(kit.Numpy):
        name = "wrong"

        def compile(self, region: Any) -> Any:
            run = kit.Numpy().compile(region)
            if culprit not in region.nodes:
                return run
            inner = set(region.cut.nodes[region.nodes.index(culprit)].outputs)
            spoilt = [i for i, v in enumerate(region.cut.outputs) if v in inner]

            def call(*inputs: Any) -> Any:
                return [how(r) if i in spoilt else r for i, r in enumerate(run(*inputs))]

            return call

    return Wrong()


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_right_plans_have_no_culprit(kit, seed: int) -> None:
    model = kit.as_model(kit.proto(seed))
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing(), kit.Binding()), seed)
    assert bisect(plan, kit.feeds_for(model, seed), rtol=1e-4, atol=1e-4) is None


@settings(max_examples=120)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_first_region_that_differs_is_found(kit, seed: int) -> None:
    """A region that is wrong in what it hands out is named, wherever its graph lies."""
    model = kit.as_model(kit.proto(seed))
    reached = [n for n in model.graph if any(v.is_graph_output() for v in n.outputs)]
    if not reached or any(True for n in reached for _ in bodies(n)):
        return
    culprit = reached[seed % len(reached)]
    backend = wrong_at(kit, str(culprit.name), lambda x: x + (1 if x.dtype != bool else 0))
    plan = kit.random_plan(model, (backend,), seed, host=0.3)
    if str(culprit.name) in plan.host or 0 in (model.inputs[0].shape or ()):
        return
    found = bisect(plan, kit.feeds_for(model, seed))
    assert found is not None
    assert found.region == plan.region_of[str(culprit.name)].name
    assert found.nodes == (culprit.name,)


def chain(kit: Any, ops: list[str]) -> Any:
    value = lambda n: ir.Value(  # noqa: E731
        name=n, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 3])
    )
    current = first = value("file")
    nodes = []
    for i, op in enumerate(ops):
        made = value(f"v{i}")
        node = ir.Node("", op, [current], outputs=[made], name=f"{op}{i}", version=17)
        nodes.append(node)
        current = made
    graph = ir.Graph([first], [current], nodes=nodes, opset_imports={"": 17})
    return type(kit.as_model(kit.proto(0)))(ir.Model(graph, ir_version=10))


X = np.arange(-3, 3, dtype="f4").reshape(2, 3)


def test_a_long_region_shrinks_to_the_node_at_fault(kit, tmp_path) -> None:
    class Miscompiling(kit.Numpy):
        """Takes Sin for Cos in any region."""

        name = "miscompiling"

        def compile(self, region: Any) -> Any:
            model = region.to_model()
            for node in model.graph:
                node.op_type = {"Sin": "Cos"}.get(node.op_type, node.op_type)
            return kit.run_model(model, region.inputs)

    model = chain(kit, ["Neg"] * 11 + ["Sin"] + ["Neg"] * 9)
    region = kit.region_of(model, list(model.graph), "miscompiling", "miscompiling_0", "")
    plan = kit.plan((region,), {}, (Miscompiling(),), model)
    found = bisect(plan, {"file": X}, folder=tmp_path / "repro")
    assert found is not None
    assert found.nodes == ("Sin11",)
    assert "region 'miscompiling_0' of miscompiling is the first to differ" in str(found)
    check_reproduction(kit, tmp_path / "repro")


def check_reproduction(kit: Any, folder: Any) -> None:
    """The folder alone shows the difference: no partita needed."""
    assert sorted(p.name for p in folder.iterdir()) == [
        *("actual.npz", "expected.npz", "inputs.npz", "model.onnx", "reproduction.json")
    ]
    facts = json.loads((folder / "reproduction.json").read_text())
    assert facts["nodes"] == ["Sin11"]
    model = ir.load(folder / "model.onnx")
    inputs = dict(np.load(folder / "inputs.npz", allow_pickle=False))
    expected = dict(np.load(folder / "expected.npz", allow_pickle=False))
    actual = dict(np.load(folder / "actual.npz", allow_pickle=False))
    (name,) = expected
    np.testing.assert_allclose(expected[name], np.sin(inputs["v10"]), rtol=1e-6)
    np.testing.assert_allclose(actual[name], np.cos(inputs["v10"]), rtol=1e-6)
    run = kit.run_model(type("M", (), {"ir": model})(), list(inputs))
    np.testing.assert_allclose(run(*inputs.values())[0], expected[name], rtol=1e-6)


def test_a_difference_that_only_a_fusion_shows_stays_whole(kit) -> None:
    class Fusing(kit.Numpy):
        """Wrong where Neg and Sin stand together, right alone."""

        name = "fusing"

        def compile(self, region: Any) -> Any:
            run = kit.Numpy().compile(region)
            ops = [n.op_type for n in region.ir_nodes]
            fused = ("Neg", "Sin") in itertools.pairwise(ops)
            return (lambda x: [r + 1 for r in run(x)]) if fused else run

    model = chain(kit, ["Abs", "Abs", "Neg", "Sin", "Abs", "Abs"])
    region = kit.region_of(model, list(model.graph), "fusing", "fusing_0", "")
    found = bisect(kit.plan((region,), {}, (Fusing(),), model), [X])
    assert found is not None
    assert found.nodes == ("Neg2", "Sin3")


def test_another_backend_can_be_the_reference(kit) -> None:
    model = chain(kit, ["Neg", "Abs"])
    region = kit.region_of(model, list(model.graph), "numpy", "numpy_0", "")
    plan = kit.plan((region,), {}, (kit.Numpy(),), model)
    assert bisect(plan, [X], reference=kit.Passing()) is None
    found = bisect(plan, [X], reference=wrong_at(kit, "Abs1"))
    assert found is not None
    assert found.region == "numpy_0"


def test_a_step_that_fails_is_no_difference(kit) -> None:
    class Failing(kit.Numpy):
        name = "failing"

        def compile(self, region: Any) -> Any:
            def run(*inputs: Any) -> Any:
                raise ArithmeticError("overflow")

            return run

    model = chain(kit, ["Neg", "Abs"])
    region = kit.region_of(model, list(model.graph), "failing", "failing_0", "")
    plan = kit.plan((region,), {}, (Failing(),), model)
    with pytest.raises(RunError, match=r"failing_0.*ArithmeticError: overflow"):
        bisect(plan, [X])
    with pytest.raises(InputError, match="no input is named"):
        bisect(plan, {"x": X})


def test_a_folder_of_something_else_is_left_alone(kit, tmp_path) -> None:
    model = chain(kit, ["Neg", "Abs"])
    region = kit.region_of(model, list(model.graph), "wrong", "wrong_0", "")
    plan = kit.plan((region,), {}, (wrong_at(kit, "Abs1"),), model)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="exists and holds something else"):
        bisect(plan, [X], folder=tmp_path / "mine")
    assert [p.name for p in tmp_path.rglob("*")] == ["mine", "thesis.txt"]
    for _ in range(2):  # an earlier reproduction is replaced
        found = bisect(plan, [X], folder=tmp_path / "new" / "repro")
        assert found is not None
        assert found.folder == tmp_path / "new" / "repro"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["repro"]
