from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir
import pytest

from partita import verbs
from partita.backends.contract import Backend, Call, Node, Region
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.reporting.advice import advice, advice_table


class Takes(Backend):
    name = "takes"
    options = MappingProxyType({"ops": ()})

    def why_not(self, node: Node) -> str | None:
        return None if node.op_type in self.options["ops"] else f"{node.op_type} has no kernel"

    def compile(self, region: Region) -> Call:
        raise AssertionError("nothing is compiled here")


def plan_of(*ops: str, taken: tuple[str, ...], **rules: object) -> Plan:
    """Returns the plan of a chain of ops for a backend that takes some."""
    kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape((2, 3))
    value = first = ir.Value(name="x", type=kind, shape=shape)
    nodes: list[ir.Node] = []
    for i, op in enumerate(ops):
        nodes.append(ir.Node("", op, [value], name=f"n{i}"))
        value = nodes[-1].outputs[0]
        value.name, value.type, value.shape = f"v{i}", kind, shape
    graph = ir.Graph([first], [value], nodes=nodes, opset_imports={"": 20}, name="g")
    model: Model = verbs.load(ir.Model(graph, ir_version=10))
    return verbs.partition(model, [Takes(ops=taken)], **rules)  # pyright: ignore[reportArgumentType]


CHAIN = ("Relu", "Exp", "Relu", "Exp", "Relu", "Abs", "Relu")


@pytest.mark.parametrize("op", ["Exp", "Abs"])
def test_what_is_promised_comes_true(op: str) -> None:
    (found,) = [a for a in advice(plan_of(*CHAIN, taken=("Relu",))) if a.op_type == op]
    after = plan_of(*CHAIN, taken=("Relu", op))
    assert (found.before, found.after) == (4, len(after.regions))
    assert found.reason == f"{op} has no kernel"


def test_the_worst_comes_first() -> None:
    found = advice(plan_of(*CHAIN, taken=("Relu",)))
    assert [(a.op_type, a.nodes, a.after) for a in found] == [("Exp", 2, 2), ("Abs", 1, 3)]
    table = advice_table(found)
    assert table.rows[0] == (
        "takes taking Exp (2 nodes)",
        "4 regions → 2",
        "Exp has no kernel",
    )


def test_there_is_none_where_nothing_would_merge() -> None:
    assert advice(plan_of("Relu", "Exp", taken=("Relu",))) == ()
    assert advice(plan_of("Relu", "Relu", taken=("Relu",))) == ()
    assert advice(plan_of("Exp", taken=())) == ()


def test_there_is_none_where_fusion_alone_did_not_decide() -> None:
    assert advice(plan_of(*CHAIN, taken=("Relu",), max_regions=2)) == ()
