"""The definitions of ops that ONNX itself defines by other ops."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.inliner
import onnx_ir as ir

from partita.model import captures
from partita.ops import schemas


def function_body(node: ir.Node, opset: int) -> ir.Graph | None:
    """Returns the definition of a node's op as a graph with dtypes, or ``None`` if ONNX has none.

    Attributes of ``node`` are filled in; its inputs are the graph's inputs.

    Args:
        node: A node whose ``version`` and input dtypes are known.
        opset: The version of the default domain under which the definition has to hold: it may use
            no op that changed since it was written.
    """
    written_for = _written_for(node, opset)
    if written_for is None:
        return None
    try:
        inlined = onnx.inliner.inline_selected_functions(
            _alone(node, opset), [(node.domain, node.op_type)], inline_schema_functions=True
        )
        typed = onnx.shape_inference.infer_shapes(inlined)
    except Exception:  # onnx raises bare C++ errors for definitions it cannot build
        return None
    for part in typed.graph.node:
        if (part.op_type, part.domain) == (node.op_type, node.domain) or (
            schemas.since_version(part.op_type, part.domain, opset)
            != schemas.since_version(part.op_type, part.domain, written_for)
        ):
            return None
    graph = ir.from_proto(typed).graph
    for inner in graph.all_nodes():
        inner.version = opset
    return graph


def _written_for(node: ir.Node, opset: int) -> int | None:
    """Returns the newest opset up to ``opset`` for which ONNX wrote a definition of the op."""
    schema = schemas.schema(node.op_type, node.domain, node.version or 1)
    if schema is None:
        return None
    described: Any = schema  # the stubs of onnx leave these properties out
    versions: tuple[int, ...] = (
        *described.function_opset_versions,
        *described.context_dependent_function_opset_versions,
    )
    return max((v for v in versions if v <= opset), default=None)


def _alone(node: ir.Node, opset: int) -> onnx.ModelProto:
    """Returns a model that holds this node and nothing else; weights become inputs."""
    read = dict.fromkeys(v for v in (*node.inputs, *captures(node)) if v is not None)
    graph = onnx.GraphProto(
        name="alone",
        node=[ir.to_proto(node)],
        input=[ir.to_proto(v) for v in read],
        output=[ir.to_proto(v) for v in node.outputs if v.name],
    )
    imports = {"": opset}
    if schemas.canonical_domain(node.domain):
        imports[node.domain] = node.version or 1
    return onnx.ModelProto(
        ir_version=10,
        graph=graph,
        opset_import=[onnx.OperatorSetIdProto(domain=d, version=v) for d, v in imports.items()],
    )
