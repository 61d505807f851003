"""Attributes of nodes: from protobuf messages to ``onnx_ir``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import onnx
import onnx_ir as ir

from partita.errors import InvalidModelError, UnsupportedModelError, printable
from partita.loading.tensors import TensorReader
from partita.loading.types import TypeReader
from partita.ops.schemas import canonical_domain, known_domains

_P = onnx.AttributeProto
_FIELD_OF = {_P.TENSOR: "t", _P.GRAPH: "g", _P.SPARSE_TENSOR: "sparse_tensor", _P.TYPE_PROTO: "tp"}
GraphReader = Callable[[onnx.GraphProto, list[dict[str, ir.Value]]], ir.Graph]


@final
class AttributeReader:
    """Builds attributes; a sparse Constant becomes a dense one."""

    def __init__(self, tensors: TensorReader, types: TypeReader, graph: GraphReader) -> None:
        self._tensors, self._types, self._graph = tensors, types, graph

    def read(
        self, proto: onnx.AttributeProto, scopes: list[dict[str, ir.Value]], domain: str
    ) -> ir.Attr:
        """Returns the attribute.

        Args:
            proto: The message.
            scopes: Values that its body may read, the innermost scope last.
            domain: Domain of the node that carries it.

        Raises:
            InvalidModelError: It has no type or no value of its type, or is text but not UTF-8.
            UnsupportedModelError: It holds a sparse tensor and is not the value of a Constant.
        """
        name = proto.name
        kind = _kind(proto)
        if proto.ref_attr_name:
            return ir.RefAttr(name, proto.ref_attr_name, kind)
        if kind == ir.AttributeType.SPARSE_TENSOR and name == "sparse_value":
            # All consumers of a Constant get to see the dense tensor anyway.
            return ir.AttrTensor("value", self._tensors.read_sparse(proto.sparse_tensor))
        value = self._value(proto, kind, scopes)
        if isinstance(value, bytes) and canonical_domain(domain) in known_domains():
            raise InvalidModelError(f"attribute '{printable(name)}' is not UTF-8: {value!r:.60}")
        return ir.Attr(name, kind, value)

    def _value(
        self,
        proto: onnx.AttributeProto,
        kind: ir.AttributeType,
        scopes: list[dict[str, ir.Value]],
    ) -> Any:
        match kind:
            case ir.AttributeType.INT:
                return proto.i
            case ir.AttributeType.FLOAT:
                return proto.f
            case ir.AttributeType.STRING:
                return _text(proto.s)
            case ir.AttributeType.INTS:
                return tuple(proto.ints)
            case ir.AttributeType.FLOATS:
                return tuple(proto.floats)
            case ir.AttributeType.STRINGS:
                return _texts(proto)
            case ir.AttributeType.TENSOR:
                return self._tensors.read(proto.t)
            case ir.AttributeType.TENSORS:
                return tuple(self._tensors.read(t) for t in proto.tensors)
            case ir.AttributeType.GRAPH:
                return self._graph(proto.g, scopes)
            case ir.AttributeType.GRAPHS:
                return tuple(self._graph(g, scopes) for g in proto.graphs)
            case ir.AttributeType.TYPE_PROTO:
                return ir.TypeAndShape(*self._types.read(proto.tp))
            case ir.AttributeType.TYPE_PROTOS:
                return tuple(ir.TypeAndShape(*self._types.read(t)) for t in proto.type_protos)
            case _:
                raise UnsupportedModelError(
                    f"attribute '{printable(proto.name)}' holds a sparse tensor; partita takes "
                    "them as weights and in Constant alone"
                )


def _kind(proto: onnx.AttributeProto) -> ir.AttributeType:
    shown = f"attribute '{printable(proto.name)}'"
    if proto.type == _P.UNDEFINED:
        raise InvalidModelError(f"{shown} has no type")
    try:
        kind = ir.AttributeType(proto.type)
    except ValueError:
        raise InvalidModelError(f"{shown} is of the unknown type {proto.type}") from None
    field = _FIELD_OF.get(proto.type)
    if field is not None and not proto.ref_attr_name and not proto.HasField(field):
        raise InvalidModelError(f"{shown} is of type {kind.name}, but holds none")
    return kind


def _texts(proto: onnx.AttributeProto) -> tuple[str, ...]:
    texts = [_text(s) for s in proto.strings]
    for text in texts:
        if isinstance(text, bytes):
            raise InvalidModelError(
                f"attribute '{printable(proto.name)}' is not UTF-8: {text!r:.60}"
            )
    return tuple(str(text) for text in texts)


def _text(raw: bytes) -> str | bytes:
    # Custom ops keep compiled engines in string attributes; those stay bytes.
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
