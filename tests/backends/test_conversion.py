from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from partita.backends import conversion
from partita.backends.conversion import UNCHANGED, Adaptation, adaptation, restamp, signature_since
from partita.backends.host import HostBackend
from partita.ops import schemas
from single import floats, one_node, only_node, region_of

UNARY = ("Relu", "Sigmoid", "Tanh", "Softplus", "Elu", "HardSigmoid", "Erf", "Neg", "Floor")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "Equal")


@settings(max_examples=60)
@given(
    op=st.sampled_from(UNARY + BINARY),
    versions=st.tuples(st.integers(8, 27), st.integers(8, 27)),
    shape=st.lists(st.integers(0, 4), max_size=3),
)
def test_restamped_node_computes_the_same(
    op: str, versions: tuple[int, int], shape: list[int]
) -> None:
    before, after = versions
    assume(schemas.since_version(op, "", min(versions)) is not None)
    arrays = [floats(*shape, seed=n) for n in range(2 if op in BINARY else 1)]
    model = one_node(op, before, arrays)
    since = schemas.since_version(op, "", after)
    assert since is not None
    assume(isinstance(adaptation(only_node(model), since), Adaptation))
    wanted = HostBackend().compile(region_of(model))(*arrays)
    copy = region_of(model).to_model()
    moved = restamp(copy, {"": after}, 9)
    assert moved.opset == after
    assert moved.ir.ir_version == 9
    assert only_node(moved).version == after
    got = HostBackend().compile(region_of(moved))(*arrays)
    np.testing.assert_array_equal(got[0], wanted[0])
    assert model.opset == before


@settings(max_examples=100)
@given(data=st.data())
def test_adapted_node_is_legal_in_the_other_version(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(schemas.known_ops(""))))
    known = schemas.versions(op, "")
    mine, other = data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))
    schema = schemas.schema(op, "", mine)
    assert schema is not None
    node = ir.Node(
        "",
        op,
        [ir.Value(name=f.name) for f in schema.inputs[: schema.min_input]],
        num_outputs=max(schema.min_output, 1),
        version=mine,
    )
    change = adaptation(node, other)
    if isinstance(change, str):
        assert len(change.split()) > 4
        return
    formal = schemas.schema(op, "", other)
    assert formal is not None
    kept = set(node.attributes) - set(change.dropped)
    assert kept | {key for key, _ in change.added} <= set(formal.attributes)


@pytest.mark.parametrize(
    ("op", "opset", "since", "attributes", "expected"),
    [
        ("Relu", 28, 14, {}, UNCHANGED),
        ("SpaceToDepth", 28, 13, {"blocksize": 2}, UNCHANGED),
        ("SpaceToDepth", 28, 13, {"blocksize": 2, "mode": "DCR"}, Adaptation(("mode",))),
        ("Add", 6, 7, {"consumed_inputs": [0]}, None),
    ],
)
def test_unused_novelties_are_dropped(
    op: str, opset: int, since: int, attributes: dict[str, Any], expected: Adaptation | None
) -> None:
    values = [ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT))]
    given_attributes = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
    node = ir.Node("", op, values, given_attributes, version=opset)
    node.outputs[0].name = "y"
    change = adaptation(node, since)
    assert change == (expected or Adaptation(("consumed_inputs",)))


@pytest.mark.parametrize(
    ("op", "opset", "since", "attributes", "dtype", "sentence"),
    [
        (
            "SpaceToDepth",
            28,
            13,
            {"blocksize": 2, "mode": "CRD"},
            ir.DataType.FLOAT,
            "attribute 'mode' = 'CRD' has no place in SpaceToDepth as of opset 13",
        ),
        (
            "Celu",
            28,
            12,
            {},
            ir.DataType.BFLOAT16,
            "input 'x' is bfloat16, which Celu as of opset 12 does not know",
        ),
        (
            "Softmax",
            13,
            11,
            {"axis": 1},
            ir.DataType.FLOAT,
            "Softmax works along one axis instead of flattening from opset 13 on",
        ),
    ],
)
def test_used_novelties_are_refused(
    op: str, opset: int, since: int, attributes: dict[str, Any], dtype: ir.DataType, sentence: str
) -> None:
    given_attributes = [ir.convenience.convert_attribute(k, v) for k, v in attributes.items()]
    node = ir.Node(
        "", op, [ir.Value(name="x", type=ir.TensorType(dtype))], given_attributes, version=opset
    )
    node.outputs[0].name = "y"
    assert adaptation(node, since) == sentence


def test_restamp_names_the_node_that_cannot_be_moved() -> None:
    model = one_node("SpaceToDepth", 28, [floats(1, 1, 4, 4)], blocksize=2, mode="CRD")
    with pytest.raises(ValueError, match="node 'node': attribute 'mode' = 'CRD' has no place"):
        restamp(region_of(model).to_model(), {"": 26}, 13)


def test_bodies_are_restamped_too() -> None:
    model = one_node("If", 27, [np.array(True)], then_branch=_body(), else_branch=_body())
    moved = restamp(region_of(model).to_model(), {"": 26}, 13)
    inner = [node for path, graph in moved.graphs() if path for node in graph]
    assert inner
    assert all(node.version == 26 for node in inner)


def _body() -> onnx.GraphProto:
    graph = onnx.parser.parse_graph(
        "g () => (float[1] y) { x = Constant<value_floats=[-1.0]>() y = Abs(x) }"
    )
    return graph


@pytest.mark.parametrize(
    ("op", "since"),
    [("Relu", 6), ("Softmax", 13), ("Clip", 11), ("TopK", 10), ("Add", 7), ("NoSuchOp", 1)],
)
def test_signature_since_is_where_todays_meaning_began(op: str, since: int) -> None:
    assert signature_since(op) == since


def test_every_changed_meaning_names_a_real_version() -> None:
    for op, changes in conversion._CHANGED.items():
        assert {version for version, _ in changes} <= set(schemas.versions(op, ""))
