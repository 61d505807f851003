from __future__ import annotations

import gc
import logging
import threading
import weakref
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.backends.contract import Backend, FunctionExecutable
from partita.compiling.stage import compile as compile_plan
from partita.errors import CompileError, PlanError, RunError
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.partitioning.stage import partition

SEEDS = st.integers(0, 2**32 - 1)
WIDTH = 64


def value(name: str, shape: list[Any] | None = None, dtype: Any = ir.DataType.FLOAT) -> ir.Value:
    dims = ir.Shape([2, WIDTH] if shape is None else shape)
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=dims)


def weight(name: str, array: np.ndarray) -> ir.Value:
    made = value(name, list(array.shape), ir.DataType.from_numpy(array.dtype))
    made.const_value = ir.Tensor(array, name=name)
    return made


def node(op: str, inputs: list[ir.Value | None], output: ir.Value, name: str, **a: Any) -> ir.Node:
    attributes = [ir.AttrInt64(k, v) for k, v in a.items()]
    return ir.Node("", op, inputs, attributes, outputs=[output], name=name, version=17)


def dense(layers: int = 3) -> Model:
    """x -> MatMul, Relu -> … -> y, every layer with a weight of its own."""
    x = value("x")
    nodes, weights, current = [], [], x
    for i in range(layers):
        w = weight(f"w{i}", np.random.default_rng(i).standard_normal((WIDTH, WIDTH)).astype("f4"))
        product, out = value(f"m{i}"), value(f"r{i}" if i < layers - 1 else "y")
        nodes.append(node("MatMul", [current, w], product, f"matmul{i}"))
        nodes.append(node("Relu", [product], out, f"relu{i}"))
        weights.append(w)
        current = out
    graph = ir.Graph([x], [current], nodes=nodes, initializers=weights, opset_imports={"": 17})
    return Model(ir.Model(graph, ir_version=10))


def plan_of(kit: Any, model: Model, *cuts: tuple[str, int, int], backends: Any) -> Plan:
    """Returns a plan with one region a ``(backend, first node, end)``; the rest is the host's."""
    nodes = list(model.graph)
    regions = tuple(
        kit.region_of(model, nodes[a:b], backend, f"{backend}_{i}", "")
        for i, (backend, a, b) in enumerate(cuts)
    )
    taken = {name for region in regions for name in region.nodes}
    host = {str(n.name): n.op_type for n in nodes if n.name not in taken}
    return Plan(regions, host, backends=tuple(backends), model=model)


def feeds() -> np.ndarray:
    return np.random.default_rng(9).standard_normal((2, WIDTH)).astype("f4")


def right(model: Model, x: np.ndarray) -> np.ndarray:
    for v in model.parameters.values():
        x = np.maximum(x @ v.const_value.numpy(), 0)
    return x


@settings(max_examples=150)
@given(seed=SEEDS)
def test_program_of_a_random_plan_equals_the_reference(kit, seed: int) -> None:
    proto = kit.proto(seed)
    model = kit.as_model(proto)
    backends = (kit.Numpy(), kit.Passing(), kit.Binding())
    plan = kit.random_plan(model, backends, seed)
    program = compile_plan(plan)
    given_arrays = kit.feeds_for(model, seed)
    wanted = kit.expected(proto, given_arrays)
    for _ in range(2):
        found = program(*given_arrays)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            assert a.dtype == b.dtype


@settings(max_examples=60)
@given(seed=SEEDS)
def test_partition_and_compile_equal_the_reference(kit, seed: int) -> None:
    def picky(backend: Any, salt: int) -> Backend:
        class Picky(backend):
            def why_not(self, node: ir.Node) -> str | None:
                return "not mine" if zlib.crc32(f"{salt}{node.name}".encode()) % 3 else None

        return Picky()

    proto = kit.proto(seed)
    model = kit.as_model(proto)
    backends = [picky(kit.Binding, seed), picky(kit.Passing, seed + 1), picky(kit.Broken, seed + 2)]
    plan = partition(model, backends, resolve={}.__getitem__)
    given_arrays = kit.feeds_for(model, seed)
    program = compile_plan(plan)
    for a, b in zip(program(*given_arrays), kit.expected(proto, given_arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@settings(max_examples=50)
@given(seed=SEEDS)
def test_broken_backends_cost_no_result(kit, seed: int) -> None:
    proto = kit.proto(seed)
    model = kit.as_model(proto)
    plan = kit.random_plan(model, (kit.Broken(), kit.Numpy()), seed)
    program = compile_plan(plan)
    given_arrays = kit.feeds_for(model, seed)
    for a, b in zip(program(*given_arrays), kit.expected(proto, given_arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert {f.backend for f in program.report.fallbacks} <= {"broken"}


@settings(max_examples=50)
@given(seed=SEEDS)
def test_nothing_a_caller_receives_is_shared(kit, seed: int) -> None:
    """Writing into every output changes neither the inputs nor the next run."""
    model = kit.as_model(kit.proto(seed))
    program = compile_plan(kit.random_plan(model, (kit.Binding(),), seed, host=0.6))
    given_arrays = kit.feeds_for(model, seed)
    before = [a.copy() for a in given_arrays]
    first = program(*given_arrays)
    kept = [a.copy() for a in first]
    for output in first:
        output.fill(1e6)
    for a, b in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(program(*given_arrays), kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_stand_in_order_and_name_their_nodes(kit) -> None:
    plan = plan_of(kit, dense(), ("passing", 2, 5), backends=[kit.Passing()])
    program = compile_plan(plan)
    assert [(s.name, s.backend, s.nodes) for s in program.steps] == [
        ("matmul0", "host", ("matmul0",)),
        ("relu0", "host", ("relu0",)),
        ("passing_0", "passing", ("matmul1", "relu1", "matmul2")),
        ("relu2", "host", ("relu2",)),
    ]
    assert program.steps[2].inputs == ("r0", "w1", "w2")
    assert program.steps[2].outputs == ("m2",)


def test_a_region_is_ready_before_nodes_that_stand_earlier_in_the_model(kit) -> None:
    model = dense(2)
    x, w = model.inputs[0], model.parameters["w0"]
    late, out = value("late"), value("out")
    model.graph.append(node("MatMul", [x, w], late, "late"))
    model.graph.append(node("Add", [late, model.outputs[0]], out, "last"))
    model.graph.outputs[0] = out
    nodes = {n.name: n for n in model.graph}
    region = kit.region_of(model, [nodes["matmul1"], nodes["late"]], "numpy", "numpy_0", "")
    host = {str(n): nodes[n].op_type for n in nodes if n not in region.nodes}
    program = compile_plan(Plan((region,), host, backends=(kit.Numpy(),), model=model))
    assert [s.name for s in program.steps] == ["matmul0", "relu0", "numpy_0", "relu1", "last"]


def test_what_no_output_needs_is_not_run(kit) -> None:
    model = dense(1)
    dead = node("Neg", [model.inputs[0]], value("dead"), "dead")
    model.graph.append(dead)
    plan = plan_of(kit, model, ("broken", 2, 3), backends=[kit.Broken()])
    program = compile_plan(plan)
    assert [s.name for s in program.steps] == ["matmul0", "relu0"]
    assert not program.report.fallbacks


def test_the_report_tells_who_compiled_what_and_what_is_held(kit) -> None:
    backends = [kit.Numpy(), kit.Passing()]
    plan = plan_of(kit, dense(), ("numpy", 0, 2), ("passing", 2, 4), backends=backends)
    report = compile_plan(plan).report
    size = WIDTH * WIDTH * 4
    assert [(r.name, r.backend, r.nodes, r.owned_bytes) for r in report.regions] == [
        ("numpy_0", "numpy", 2, size),
        ("passing_1", "passing", 2, 0),
    ]
    assert report.held_bytes == 2 * size
    assert report.host_steps == 2
    assert 0 < sum(r.seconds for r in report.regions) <= report.seconds
    assert report.to_dict()["regions"][0]["name"] == "numpy_0"


def test_a_shared_weight_is_held_once(kit) -> None:
    model = dense(1)
    again = value("again")
    model.graph.append(node("MatMul", [model.outputs[0], model.parameters["w0"]], again, "again"))
    model.graph.outputs[0] = again
    assert compile_plan(plan_of(kit, model, backends=[])).report.held_bytes == WIDTH * WIDTH * 4


def test_progress_counts_regions(kit) -> None:
    told: list[tuple[int, int, str]] = []
    plan = plan_of(kit, dense(), ("numpy", 0, 2), ("numpy", 4, 6), backends=[kit.Numpy()])
    compile_plan(plan, progress=lambda *words: told.append(words))
    assert told == [(0, 2, "numpy_0"), (1, 2, "numpy_1"), (2, 2, "")]


# Weights ------------------------------------------------------------------------------------------


def test_weights_that_an_engine_owns_are_freed_with_the_model(kit) -> None:
    class Swallowing(Backend):
        name = "swallowing"

        def why_not(self, node: ir.Node) -> str | None:
            return None

        def compile(self, region: Any) -> Any:
            return lambda x: (x + 1,)

    model = dense()
    arrays = [weakref.ref(v.const_value.numpy()) for v in model.parameters.values()]
    alive = weakref.ref(model)
    # The last layer stays with the host: its own weight is needed, the others are not.
    plan = plan_of(kit, model, ("swallowing", 0, 4), backends=[Swallowing()])
    program = compile_plan(plan)
    del model, plan
    gc.collect()
    assert alive() is None
    assert [a() is None for a in arrays] == [True, True, False]
    assert program(feeds())[0].shape == (2, WIDTH)


def test_control_flow_on_the_host_keeps_no_model_alive(kit) -> None:
    proto, seed = None, 0
    while proto is None or not {"If", "Loop"} <= {n.op_type for n in proto.graph.node}:
        seed += 1
        proto = kit.proto(seed)
    model = kit.as_model(proto)
    alive = weakref.ref(model), weakref.ref(model.graph)
    program = compile_plan(kit.random_plan(model, (kit.Passing(),), seed, host=1.0))
    given_arrays = kit.feeds_for(model, seed)
    del model
    gc.collect()
    assert [a() for a in alive] == [None, None]
    for a, b in zip(program(*given_arrays), kit.expected(proto, given_arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# Failures -----------------------------------------------------------------------------------------


def failing_backend(kit: Any, error: BaseException) -> Backend:
    class Failing(kit.Numpy):
        name = "failing"

        def compile(self, region: Any) -> Any:
            raise error

    return Failing()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("odd\nshape"), "ValueError: odd shape"),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_a_failed_region_goes_to_the_next_backend_with_one_line(kit, caplog, error, text) -> None:
    plan = plan_of(
        kit, dense(), ("failing", 0, 4), backends=[failing_backend(kit, error), kit.Numpy()]
    )
    with caplog.at_level(logging.WARNING, "partita.compiling"):
        program = compile_plan(plan)
    (fallback,) = program.report.fallbacks
    assert (fallback.region, fallback.backend, fallback.to) == ("failing_0", "failing", "numpy")
    assert fallback.error == text
    assert [r.getMessage() for r in caplog.records] == [str(fallback)]
    assert str(fallback) == (
        f"region 'failing_0': failing could not compile it ({text}); numpy runs it instead"
    )
    assert program.steps[0].backend == "numpy"
    np.testing.assert_allclose(program(feeds())[0], right(dense(), feeds()), rtol=1e-5)


def test_where_all_backends_fail_the_host_runs_node_by_node(kit) -> None:
    backends = [failing_backend(kit, ValueError("no")), kit.Broken()]
    plan = plan_of(kit, dense(), ("failing", 0, 4), backends=backends)
    program = compile_plan(plan)
    assert [(f.backend, f.to) for f in program.report.fallbacks] == [
        ("failing", "broken"),
        ("broken", "host"),
    ]
    assert [s.backend for s in program.steps] == ["host"] * 6
    np.testing.assert_allclose(program(feeds())[0], right(dense(), feeds()), rtol=1e-5)


def test_a_fallback_sees_the_region_as_its_own(kit) -> None:
    seen: list[Any] = []

    class Curious(kit.Numpy):
        name = "curious"
        options = {"level": 3}  # noqa: RUF012

        def why_not_region(self, region: Any) -> dict[str, str]:
            return {"note": "reviewed"}

        def compile(self, region: Any) -> Any:
            seen.append(region)
            return super().compile(region)

    plan = plan_of(kit, dense(), ("broken", 0, 4), backends=[kit.Broken(), Curious(level=5)])
    first = replace(plan.regions[0], attributes={"mine": "x"}, strategy="s")
    compile_plan(replace(plan, regions=(first,)))
    assert seen[0].backend == "curious"
    assert dict(seen[0].options) == {"level": 5}
    assert dict(seen[0].attributes) == {"note": "reviewed"}
    assert seen[0].strategy == ""


def test_a_fallback_whose_review_raises_does_not_stop_the_run(kit) -> None:
    class Raising(kit.Numpy):
        name = "raising"

        def why_not_region(self, region: Any) -> Any:
            raise KeyError("review")

    plan = plan_of(kit, dense(), ("broken", 0, 6), backends=[kit.Broken(), Raising()])
    program = compile_plan(plan)
    assert program.report.fallbacks[-1].to == "host"


def test_a_backend_that_returns_nothing_callable_has_failed(kit) -> None:
    class Empty(kit.Numpy):
        name = "empty"

        def compile(self, region: Any) -> Any:
            return None

    program = compile_plan(plan_of(kit, dense(), ("empty", 0, 6), backends=[Empty()]))
    assert program.report.fallbacks[0].error == (
        "TypeError: compile returned NoneType; it needs an Executable or a function"
    )


def test_a_backend_that_is_not_there_has_failed(kit) -> None:
    program = compile_plan(plan_of(kit, dense(), ("numpi", 0, 6), backends=[kit.Numpy()]))
    assert program.report.fallbacks[0].backend == "numpi"
    assert "did you mean 'numpy'" in program.report.fallbacks[0].error


def test_strict_raises_with_region_backend_and_cause(kit) -> None:
    plan = plan_of(kit, dense(), ("broken", 0, 6), backends=[kit.Broken(), kit.Numpy()])
    with pytest.raises(CompileError) as caught:
        compile_plan(plan, strict=True)
    assert str(caught.value) == (
        "backend 'broken' could not compile region 'broken_0' (nodes 'matmul0', 'relu0', "
        "'matmul1', 'relu1', 'matmul2' and 1 more): MemoryError: no room for this region"
    )
    assert isinstance(caught.value.__cause__, MemoryError)


def test_an_op_that_nobody_knows_is_named(kit) -> None:
    model = dense(1)
    model.graph[1].op_type = "Reul"
    with pytest.raises(CompileError, match="relu0"):
        compile_plan(plan_of(kit, model, backends=[]))


def test_a_run_time_failure_names_the_region_and_is_not_retried(kit) -> None:
    calls: list[int] = []

    class Late(kit.Numpy):
        name = "late"

        def compile(self, region: Any) -> Any:
            def run(*inputs: Any) -> Any:
                calls.append(1)
                raise ArithmeticError("overflow")

            return FunctionExecutable(run)

    program = compile_plan(plan_of(kit, dense(), ("late", 0, 2), backends=[Late(), kit.Numpy()]))
    message = (
        r"step 'late_0' of backend 'late' failed \(nodes 'matmul0', 'relu0'\): ArithmeticError"
    )
    with pytest.raises(RunError, match=message):
        program(feeds())
    assert calls == [1]


def test_a_plan_without_a_model_is_refused() -> None:
    with pytest.raises(PlanError, match="no model"):
        compile_plan(Plan((), {}))


# Engines ------------------------------------------------------------------------------------------


@pytest.mark.engine("onnxruntime")
@pytest.mark.parametrize("cuts", [[(0, 6)], [(0, 2), (2, 4), (4, 6)], [(0, 2), (3, 6)]])
def test_regions_of_an_engine_run_in_many_threads(kit, cuts) -> None:
    from partita.backends.onnxruntime import OnnxRuntimeBackend

    model = dense()
    plan = plan_of(
        kit,
        model,
        *[("onnxruntime", a, b) for a, b in cuts],
        backends=[OnnxRuntimeBackend(threads=1)],
    )
    program = compile_plan(plan, strict=True)
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(40):
            x = random.standard_normal((2, WIDTH)).astype("f4")
            if not np.allclose(program(x)[0], right(model, x), rtol=1e-3, atol=1e-3):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.engine("onnxruntime")
def test_an_engine_writes_into_the_callers_buffer(kit) -> None:
    from partita.backends.onnxruntime import OnnxRuntimeBackend

    model = dense()
    backends = [OnnxRuntimeBackend(threads=1)]
    program = compile_plan(plan_of(kit, model, ("onnxruntime", 0, 6), backends=backends))
    out = np.zeros((2, WIDTH), "f4")
    for _ in range(2):
        (found,) = program(feeds(), out={"y": out})
        assert found is out
        np.testing.assert_allclose(out, right(model, feeds()), rtol=1e-4)
