from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.ops import schemas

ALL = [(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()]


@given(st.sampled_from(ALL), st.integers(1, 40))
def test_schema_is_the_newest_that_is_not_newer_than_the_opset(entry, opset):
    domain, name, _ = entry
    older = [v for d, n, v in ALL if (d, n) == (domain, name) and v <= opset]
    assert schemas.since_version(name, domain, opset) == max(older, default=None)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_spellings_of_the_default_domain_find_the_schema(domain):
    found = schemas.schema("Softmax", domain, 12)
    assert found is not None
    assert found.since_version == 11
    assert "Softmax" in schemas.known_ops(domain)
    assert schemas.versions("Softmax", domain) == (1, 11, 13)


def test_unknown_op_and_unknown_domain_have_no_schema():
    assert schemas.schema("Sofmax", "", 17) is None
    assert schemas.schema("Softmax", "com.example", 17) is None
    assert schemas.schema("Softmax", "", 0) is None
    assert schemas.known_ops("com.example") == frozenset()
    assert schemas.latest_opset("com.example") == 0


def test_latest_opset_is_onnx_own():
    assert schemas.latest_opset() == onnx.defs.onnx_opset_version()
    assert schemas.latest_opset("ai.onnx.ml") >= 5
    assert {"", "ai.onnx.ml"} <= schemas.known_domains()


def _node(op_type, inputs=(), attributes=(), domain=""):
    return ir.Node(domain, op_type, inputs, attributes)


def test_random_ops_and_custom_ops_are_not_deterministic():
    assert not schemas.is_deterministic(_node("RandomNormal"))
    assert not schemas.is_deterministic(_node("Bernoulli"))
    assert not schemas.is_deterministic(_node("Relu", domain="com.example"))
    assert schemas.is_deterministic(_node("Relu"))


@pytest.mark.parametrize(
    ("training", "deterministic"), [(None, True), (False, True), (True, False)]
)
def test_dropout_is_deterministic_unless_it_trains(training, deterministic):
    mode = None
    if training is not None:
        mode = ir.Value(name="t", const_value=ir.tensor(np.array(training)))
    node = _node("Dropout", [ir.Value(name="x"), None, mode])
    assert schemas.is_deterministic(node) is deterministic


def test_a_body_that_draws_numbers_makes_its_node_random():
    inner = _node("RandomUniform")
    body = ir.Graph([], inner.outputs, nodes=[inner])
    node = _node("If", [ir.Value(name="c")], [ir.AttrGraph("then_branch", body)])
    assert not schemas.is_deterministic(node)
