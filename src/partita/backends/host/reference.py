# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""One ONNX op through ONNX's own reference evaluator.

The implementation is chosen and built once; a call costs a few microseconds beyond the arithmetic.

Source: https://onnx.ai/onnx/api/reference.html
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from partita.backends.contract import Call, Node
from partita.backends.value_types import type_string
from partita.errors import CompileError, UnknownNameError, printable
from partita.model import bodies
from partita.ops import schemas


def why_not(node: Node) -> str | None:
    """Returns ``None`` if the reference evaluator implements the op, otherwise a sentence."""
    return _why_not(node.op_type, schemas.canonical_domain(node.domain), node.version or 1)


@cache
def _why_not(op_type: str, domain: str, version: int) -> str | None:
    where = f" of domain '{printable(domain)}'" if domain else ""
    schema: Any = schemas.schema(op_type, domain, version)  # the stubs of onnx leave much out
    if schema is None:
        return _absent(op_type, domain, where, version)
    if schema.deprecated:
        return f"{op_type}{where} was withdrawn by opset {version}"
    if schema.has_function or schema.has_context_dependent_function:
        return None
    if op_type == "ImageDecoder" and importlib.util.find_spec("PIL") is None:
        return "ImageDecoder needs Pillow; pip install pillow"
    try:
        _implementation(op_type, domain, version)
    except Exception:  # the evaluator says "there is none" in several ways
        return f"ONNX's reference evaluator does not implement {op_type}{where}"
    return None


def _absent(op_type: str, domain: str, where: str, version: int) -> str:
    versions = schemas.versions(op_type, domain)
    if versions:
        return f"{op_type}{where} came with opset {versions[0]}; the node is at {version}"
    known = schemas.known_ops(domain)
    if not known:
        return f"the host knows no op of domain '{printable(domain)}'"
    return str(UnknownNameError(f"op of ONNX{where}", op_type, known))


def _implementation(op_type: str, domain: str, version: int) -> Any:
    node = onnx.NodeProto(op_type=op_type, domain=domain)
    probe = onnx.FunctionProto(name="probe", opset_import=[_opset(domain, version)])
    return ReferenceEvaluator(probe)._load_impl(node)  # pyright: ignore[reportPrivateUsage]


def evaluated(node: Node) -> Call:
    """Returns the call of one node without bodies: inputs in (``None`` if left out), a tuple out.

    Results have the dtypes that the node's outputs are known to have.

    Raises:
        CompileError: The reference evaluator cannot build the op.
    """
    proto = ir.to_proto(node)
    kinds = [None if v is None else type_string(v) for v in node.inputs]
    wanted = [
        v.type.dtype.numpy() if isinstance(v.type, ir.TensorType) else None for v in node.outputs
    ]
    left_out = any(v is not None and k is None for v, k in zip(node.inputs, kinds, strict=True))
    if left_out and _needs_types(node):
        return _typed_late(node, proto, wanted)
    types = [None if v is None or v.type is None else ir.to_proto(v).type for v in node.inputs]
    return _cast(_built(node, proto, types), wanted)


def _built(node: Node, proto: onnx.NodeProto, types: Sequence[Any]) -> Callable[..., Any]:
    """Builds the evaluator's object for a node and returns its bound method."""
    graph = onnx.GraphProto(
        name="one",
        node=[proto],
        input=[
            onnx.ValueInfoProto(name=name, type=kind)
            for name, kind in {n: t for n, t in zip(proto.input, types, strict=True) if n}.items()
        ],
        output=[onnx.ValueInfoProto(name=name) for name in proto.output if name],
    )
    domain, version = schemas.canonical_domain(node.domain), node.version or 1
    imports = {"": version} if domain == "" else {"": _companion(node), node.domain: version}
    model = onnx.ModelProto(
        ir_version=10, graph=graph, opset_import=[_opset(d, v) for d, v in imports.items()]
    )
    try:
        return ReferenceEvaluator(model).rt_nodes_[0].run
    except Exception as error:  # the evaluator raises whatever its ops raise
        raise CompileError(
            f"node '{node.name}': ONNX's reference evaluator refuses {node.op_type}: "
            f"{printable(str(error), 300)}"
        ) from error


def _typed_late(node: Node, proto: onnx.NodeProto, wanted: Sequence[Any]) -> Call:
    """Waits for arrays: an op defined by other ops is built for the dtypes it meets."""
    built: dict[tuple[Any, ...], Call] = {}

    def call(*inputs: Any) -> Sequence[Any]:
        key = tuple(getattr(x, "dtype", None) for x in inputs)
        found = built.get(key)
        if found is None:
            types = [None if d is None else _tensor_type(d) for d in key]
            found = built[key] = _cast(_built(node, proto, types), wanted)
        return found(*inputs)

    return call


def _cast(run: Callable[..., Any], wanted: Sequence[Any]) -> Call:
    """Gives results the dtypes that ONNX promises; some implementations let numpy decide."""

    def call(*inputs: Any) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            results = run(*inputs)
        return tuple(_as_dtype(r, w) for r, w in zip(results, wanted, strict=False))

    return call


def _as_dtype(result: Any, dtype: Any) -> Any:
    if not isinstance(result, np.ndarray) or result.dtype == dtype:
        return result
    if result.dtype.kind in "UT":
        return result.astype(object)
    return result if dtype is None or result.dtype.kind in "OS" else result.astype(dtype)


def _needs_types(node: Node) -> bool:
    schema: Any = schemas.schema(node.op_type, node.domain, node.version or 1)
    return schema is not None and schema.has_context_dependent_function


def _companion(node: Node) -> int:
    """Returns an opset of the default domain for a node of another domain: that of its bodies."""
    inner = (n for _, graph in bodies(node) for n in graph.all_nodes() if not n.domain)
    return max((n.version for n in inner if n.version), default=schemas.latest_opset(""))


def _opset(domain: str, version: int) -> onnx.OperatorSetIdProto:
    return onnx.OperatorSetIdProto(domain=domain, version=version)


def _tensor_type(dtype: Any) -> onnx.TypeProto:
    elem_type = ir.DataType.from_numpy(np.dtype(dtype)).value
    return onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=elem_type))
