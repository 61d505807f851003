from __future__ import annotations

import dataclasses
import json

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita import __version__
from partita.compiling.outline import LEAST_IR_VERSION, outline, plan_hash, travels
from partita.errors import PlanError
from partita.model import Model
from partita.partitioning.plan import Plan

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=80)
@given(seed=SEEDS)
def test_checker_accepts_and_the_reference_computes_the_same(kit, seed: int) -> None:
    proto = kit.proto(seed)
    model = kit.as_model(proto)
    before = model.hash
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing()), seed)
    outlined = ir.to_proto(outline(plan).ir)
    onnx.checker.check_model(outlined, full_check=True)
    assert len(outlined.functions) == len(plan.regions)
    assert kit.as_model(proto).hash == before == model.hash


@pytest.mark.engine("onnxruntime")
@settings(max_examples=60)
@given(seed=SEEDS)
def test_onnxruntime_runs_it_alone_with_the_same_numbers(kit, seed: int) -> None:
    import onnxruntime

    proto = kit.proto(seed)
    model = kit.as_model(proto)
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing()), seed)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Optimising nested Ifs of constant condition, ONNX Runtime 1.31 fails, outlined or not.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = kit.feeds_for(model, seed)
    text = ir.to_proto(outline(plan).ir).SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {v.name: x for v, x in zip(model.inputs, feeds, strict=True)})
    for a, b in zip(found, kit.expected(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def value(name: str, shape: list[int | str], dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))


def weight(name: str, array: np.ndarray) -> ir.Value:
    made = value(name, list(array.shape), ir.DataType.from_numpy(array.dtype))
    made.const_value = ir.Tensor(array, name=name)
    return made


def node(op: str, inputs: list[ir.Value | None], outputs: list[ir.Value], name: str) -> ir.Node:
    return ir.Node("", op, inputs, outputs=outputs, name=name, version=17)


def small_model(ir_version: int = 7) -> Model:
    """Returns x -> MatMul(large) -> Reshape(small) -> Clip("", small) -> y."""
    x, product, shaped, y = (value(n, [2, 32]) for n in ("x", "product", "shaped", "y"))
    large = weight("large", np.ones((32, 32), np.float32))
    shape = weight("shape", np.array([2, 32]))
    most = weight("most", np.array(0.5, np.float32))
    nodes = [
        node("MatMul", [x, large], [product], "multiply"),
        node("Reshape", [product, shape], [shaped], "reshape"),
        node("Clip", [shaped, None, most], [y], "clip"),
    ]
    weights = [large, shape, most]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=weights, opset_imports={"": 17}, name="g")
    return Model(ir.Model(graph, ir_version=ir_version, metadata_props={"author": "somebody"}))


def whole(kit, model: Model, **changes) -> Plan:
    region = kit.region_of(model, list(model.graph), "numpy", "numpy_0", "")
    region = dataclasses.replace(region, **changes)
    return kit.plan((region,), {}, (kit.Numpy(),), model)


def checked(model: Model) -> onnx.ModelProto:
    proto = ir.to_proto(model.ir)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def test_small_parameters_travel_and_large_weights_are_passed(kit) -> None:
    model = small_model()
    proto = checked(outline(whole(kit, model)))
    (function,), (call,) = proto.functions, proto.graph.node
    assert (call.domain, call.op_type, call.name) == ("partita", "numpy_0", "numpy_0")
    assert list(call.input) == list(function.input) == ["x", "large"]
    assert list(call.output) == list(function.output) == ["y"]
    constants = {n.output[0] for n in function.node if n.op_type == "Constant"}
    assert constants == {"shape", "most"}
    assert [i.name for i in proto.graph.initializer] == ["large"]
    assert [n.name for n in function.node if n.op_type != "Constant"] == [
        *("multiply", "reshape", "clip")
    ]
    assert {v.name for v in function.value_info} >= {"x", "product", "shaped", "y"}


def test_a_weight_that_the_host_reads_too_stays_in_the_graph(kit) -> None:
    model = small_model()
    nodes = list(model.graph)
    nodes[0].replace_input_with(1, weight("other", np.ones((32, 32), np.float32)))
    model.graph.initializers.add(nodes[0].inputs[1])
    extra = value("extra", [])
    model.graph.append(node("Neg", [model.parameters["most"]], [extra], "negate"))
    model.graph.outputs.append(extra)
    region = kit.region_of(model, nodes, "numpy", "numpy_0", "")
    proto = checked(outline(kit.plan((region,), {"negate": "Neg"}, (kit.Numpy(),), model)))
    assert [i.name for i in proto.graph.initializer] == ["most", "other"]  # "large" is unread


def test_metadata_say_where_the_region_comes_from(kit) -> None:
    model = small_model()
    attributes, strategy = {"note": 'a "quoted" word'}, "fast"
    plan = whole(kit, model, attributes=attributes, strategy=strategy, precision="bfloat16")
    proto = checked(outline(plan))
    facts = {p.key: p.value for p in proto.functions[0].metadata_props}
    assert json.loads(facts.pop("partita.attributes")) == attributes
    assert facts == {
        "partita.backend": "numpy",
        "partita.strategy": "fast",
        "partita.precision": "bfloat16",
        "partita.plan": plan_hash(plan),
    }
    facts = {p.key: p.value for p in proto.metadata_props}
    assert facts["author"] == "somebody"
    assert facts["partita.version"] == __version__
    assert facts["partita.plan"] == plan_hash(plan)
    assert json.loads(facts["partita.regions"])["numpy_0"]["backend"] == "numpy"
    assert plan_hash(plan) != plan_hash(whole(kit, model))


@pytest.mark.parametrize(("before", "after"), [(3, LEAST_IR_VERSION), (10, 10), (11, 11)])
def test_the_ir_version_is_raised_where_functions_need_it(kit, before: int, after: int) -> None:
    assert checked(outline(whole(kit, small_model(before)))).ir_version == after


def test_the_model_stays_as_it_is_and_weights_are_shared(kit) -> None:
    model = small_model()
    before = ir.to_proto(model.ir).SerializeToString(deterministic=True)
    outlined = outline(whole(kit, model))
    assert ir.to_proto(model.ir).SerializeToString(deterministic=True) == before
    assert outlined.parameters["large"].const_value is model.parameters["large"].const_value
    outlined.graph[0].inputs[0].name = "renamed"
    assert model.inputs[0].name == "x"


def test_a_region_without_inputs_and_one_that_nobody_reads(kit) -> None:
    model = small_model()
    made, dead = value("made", []), value("dead", [])
    first = node("Neg", [model.parameters["most"]], [made], "constant")
    second = node("Abs", [model.parameters["most"]], [dead], "unread")
    model.graph.extend([first, second])
    model.graph.outputs.append(made)
    regions = [
        kit.region_of(model, [first], "numpy", "numpy_0", ""),
        kit.region_of(model, [second], "numpy", "numpy_1", ""),
    ]
    assert (regions[0].inputs, regions[1].outputs) == ((), ())
    host = {n.name: n.op_type for n in list(model.graph)[:3]}
    proto = checked(outline(kit.plan(regions, host, (kit.Numpy(),), model)))
    calls = {n.name: n for n in proto.graph.node}
    assert list(calls["numpy_0"].input) == []
    assert list(calls["numpy_1"].output) == ["dead"]


def test_an_input_handed_out_and_an_output_twice(kit) -> None:
    model = small_model()
    model.graph.outputs.extend([model.inputs[0], model.graph.outputs[0]])
    proto = checked(outline(whole(kit, model)))
    assert [o.name for o in proto.graph.output] == ["y", "x", "y"]


@pytest.mark.parametrize(
    ("array", "travelling"),
    [
        (np.zeros(3, np.float32), True),
        (np.zeros(256, np.float32), True),
        (np.zeros(257, np.float32), False),
        (np.zeros(8192, np.int64), True),
        (np.zeros((1, 200), np.int64), False),
        (np.zeros(8193, np.int64), False),
        (np.zeros(2, ml_dtypes.bfloat16), False),  # Constant takes it from opset 13 on only
        (np.zeros(2, ml_dtypes.int4), False),
        (np.zeros(0, np.float32), True),
    ],
)
def test_what_travels(array: np.ndarray, travelling: bool) -> None:
    assert travels(weight("w", array), {"": 17}) is travelling
    assert not travels(weight("w", array), {"ai.onnx.ml": 3})


def test_texts_travel() -> None:
    text = ir.Value(name="t", const_value=ir.StringTensor([b"a", b"b"], shape=ir.Shape([2])))
    assert travels(text, {"": 17})


def test_regions_in_bodies_become_calls_there(kit) -> None:
    found = 0
    for seed in range(60):
        proto = kit.proto(seed)
        model = kit.as_model(proto)
        plan = kit.random_plan(model, (kit.Numpy(),), seed, host=0.5)
        outlined = outline(plan)
        places = {path: {n.op_type for n in graph} for path, graph in outlined.graphs()}
        for region in plan.regions:
            found += bool(region.graph)
            assert region.name in places[region.graph]
    assert found > 10


def test_a_plan_without_a_model_has_no_outline() -> None:
    with pytest.raises(PlanError, match="no model"):
        outline(Plan((), {}))
