from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from partita.backends.function_bodies import function_body
from partita.ops import schemas
from single import floats, one_node, only_node


@pytest.mark.parametrize(
    ("op", "opset"), [("HardSwish", 14), ("Mish", 18), ("Gelu", 20), ("CastLike", 19)]
)
def test_definition_has_dtypes_and_other_ops(op: str, opset: int) -> None:
    arrays = [floats(3), np.array(0, np.float16)][: 2 if op == "CastLike" else 1]
    graph = function_body(only_node(one_node(op, opset, arrays)), opset)
    assert graph is not None
    assert op not in {n.op_type for n in graph}
    for node in graph:
        assert node.version == opset
        assert all(v.dtype not in (None, ir.DataType.UNDEFINED) for v in node.outputs)


def test_attributes_are_filled_in() -> None:
    graph = function_body(only_node(one_node("Selu", 18, [floats(3)], alpha=2.5)), 18)
    assert graph is not None
    assert not any(a.is_ref() for n in graph for a in n.attributes.values())


def test_an_op_without_definition_has_none() -> None:
    assert function_body(only_node(one_node("MatMul", 13, [floats(2, 2)] * 2)), 13) is None


def test_a_definition_by_ops_that_changed_since_does_not_hold() -> None:
    node = only_node(one_node("Swish", 24, [floats(3)]))
    assert function_body(node, 24) is not None
    assert schemas.since_version("Constant", "", 25) != schemas.since_version("Constant", "", 24)
    assert function_body(node, 25) is None
