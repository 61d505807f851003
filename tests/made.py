"""Small models from text, and backends made of a set of op types."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx.parser

from partita.backends.contract import Backend, Node, Region
from partita.model import Model
from partita.verbs import load


def backend_of(backend: str, ops: Collection[str], **members: Any) -> Backend:
    """Returns a backend that claims op types and refuses the rest with a sentence."""

    def why_not(self: Backend, node: Node) -> str | None:
        return None if node.op_type in ops else f"{node.op_type} is not one of {sorted(ops)}"

    def compile(self: Backend, region: Region) -> Any:
        raise NotImplementedError

    body = {"name": backend, "why_not": why_not, "compile": compile, **members}
    return type("Made", (Backend,), body)()


def model_of(text: str) -> Model:
    """Returns a loaded model from ONNX text: ``<nodes>`` of a graph x[2,3] -> y[2,3]."""
    header = '<ir_version: 10, opset_import: ["" : 20]> g (float[2,3] x) => (float[2,3] y)'
    return load(onnx.parser.parse_model(f"{header} {{ {text} }}"), fold=False)


CHAIN = """
    [a] va = Relu(x)
    [b] vb = Exp(va)
    [c] vc = Relu(vb)
    [d] vd = Softmax(vc)
    [e] y = Relu(vd)
"""
HAZARD = """
    [start] s = Relu(x)
    [outside] o = Exp(s)
    [side] t = Relu(s)
    [end] y = Add(o, t)
"""
