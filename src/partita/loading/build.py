"""From a validated protobuf message to ``onnx_ir``, with every tensor and type checked.

``onnx_ir.serde`` does the same for files that somebody vouches for; here each fault gets an error
that names its place, external weights pass through ``external``, and sparse weights become dense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, final

import onnx
import onnx_ir as ir

from partita.errors import InvalidModelError, ModelError
from partita.loading.attributes import AttributeReader
from partita.loading.places import placed
from partita.loading.tensors import TensorReader
from partita.loading.types import TypeReader
from partita.ops.schemas import canonical_domain

_Message = TypeVar("_Message")
Scope = dict[str, ir.Value]

QUANTIZATION = "quant_parameter_tensor_names"
"""Key of ``Value.meta`` under which ``onnx_ir`` keeps quantisation annotations."""


@final
class Builder:
    """Builds one model; recursion follows bodies alone, whose depth has been checked."""

    def __init__(self, file: str, tensors: TensorReader, types: TypeReader) -> None:
        self._file, self._tensors, self._types = file, tensors, types
        self._attributes = AttributeReader(tensors, types, self._graph)

    def model(self, proto: onnx.ModelProto, opsets: Mapping[str, int]) -> ir.Model:
        """Returns the model.

        Raises:
            ModelError: A tensor, a type or an attribute is not legal or cannot be taken.
        """
        graph = self._graph(proto.graph, [])
        graph.opset_imports.update(opsets)
        return ir.Model(
            graph,
            ir_version=proto.ir_version,
            producer_name=_text(proto.producer_name),
            producer_version=_text(proto.producer_version),
            domain=_text(proto.domain),
            model_version=proto.model_version if proto.HasField("model_version") else None,
            doc_string=_text(proto.doc_string),
            functions=[self._function(function) for function in proto.functions],
            metadata_props=_metadata(proto.metadata_props),
        )

    def _graph(self, proto: onnx.GraphProto, scopes: list[Scope]) -> ir.Graph:
        annotations = {a.tensor_name: a for a in proto.quantization_annotation}
        declared = {info.name: info for info in proto.value_info}
        values: Scope = {}
        inputs = [self._declared_value(info.name, info, values) for info in proto.input]
        weights = [self._weight(t.name, t, self._tensors.read, values) for t in proto.initializer]
        weights += [
            self._weight(t.values.name, t, self._tensors.read_sparse, values)
            for t in proto.sparse_initializer
        ]
        nodes = self._nodes(proto.node, values, declared, scopes)
        outputs = [self._describe(values[info.name], info) for info in proto.output]
        for name, annotation in annotations.items():
            if name in values:
                entries = _metadata(annotation.quant_parameter_tensor_names)
                values[name].meta[QUANTIZATION] = entries
        return ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=weights,
            doc_string=_text(proto.doc_string),
            name=_text(proto.name),
            metadata_props=_metadata(proto.metadata_props),
        )

    def _function(self, proto: onnx.FunctionProto) -> ir.Function:
        declared = {info.name: info for info in proto.value_info}
        values: Scope = {}
        inputs = [self._declared_value(n, declared.get(n), values) for n in proto.input]
        nodes = self._nodes(proto.node, values, declared, [])
        graph = ir.Graph(
            inputs,
            [values[name] for name in proto.output],
            nodes=nodes,
            opset_imports={canonical_domain(o.domain): o.version for o in proto.opset_import},
            name=proto.name,
            metadata_props=_metadata(proto.metadata_props),
        )
        defaults = [self._attributes.read(a, [], proto.domain) for a in proto.attribute_proto]
        open_ones = [ir.Attr(n, ir.AttributeType.UNDEFINED, None) for n in proto.attribute]
        return ir.Function(
            canonical_domain(proto.domain),
            proto.name,
            proto.overload,
            graph=graph,
            attributes=[*defaults, *open_ones],
        )

    def _nodes(
        self,
        protos: Iterable[onnx.NodeProto],
        values: Scope,
        declared: Mapping[str, onnx.ValueInfoProto],
        scopes: list[Scope],
    ) -> list[ir.Node]:
        # Bodies may read what an outer node further down makes, so all outputs come first.
        outputs = [
            [self._declared_value(n, declared.get(n), values) for n in p.output] for p in protos
        ]
        scopes.append(values)
        nodes = [self._node(p, o, scopes) for p, o in zip(protos, outputs, strict=True)]
        scopes.pop()
        return nodes

    def _node(self, proto: onnx.NodeProto, outputs: list[ir.Value], scopes: list[Scope]) -> ir.Node:
        attributes: list[ir.Attr] = []
        if proto.attribute:
            attributes = self._node_attributes(proto, scopes)
        return ir.Node(
            proto.domain,
            proto.op_type,
            [_find(name, scopes) for name in proto.input],
            attributes,
            overload=proto.overload,
            outputs=outputs,
            name=proto.name,
            doc_string=_text(proto.doc_string),
            metadata_props=_metadata(proto.metadata_props),
        )

    def _node_attributes(self, proto: onnx.NodeProto, scopes: list[Scope]) -> list[ir.Attr]:
        try:
            return [self._attributes.read(a, scopes, proto.domain) for a in proto.attribute]
        except ModelError as error:
            raise placed(error, self._file, node=proto.name or proto.op_type) from None

    def _declared_value(
        self, name: str, info: onnx.ValueInfoProto | None, values: Scope
    ) -> ir.Value:
        value = ir.Value(name=name)
        if name:
            values[name] = value
        return value if info is None else self._describe(value, info)

    def _describe(self, value: ir.Value, info: onnx.ValueInfoProto) -> ir.Value:
        try:
            found_type, shape = self._types.read(info.type)
        except ModelError as error:
            raise placed(error, self._file, value=value.name) from None
        value.type = found_type or value.type
        value.shape = shape if shape is not None else value.shape
        if info.metadata_props:
            value.metadata_props.update(_metadata(info.metadata_props) or {})
        return value

    def _weight(
        self,
        name: str,
        proto: _Message,
        read: Callable[[_Message], ir.TensorProtocol],
        values: Scope,
    ) -> ir.Value:
        try:
            tensor = read(proto)
        except ModelError as error:
            raise placed(error, self._file, value=name) from None
        value = values.get(name) or ir.Value(name=name)
        if value.dtype not in (None, tensor.dtype):
            raise InvalidModelError(
                f"is declared {value.dtype}, but its stored data are {tensor.dtype}",
                file=self._file,
                value=name,
            )
        value.const_value = tensor
        value.type = ir.TensorType(tensor.dtype)
        value.shape = ir.Shape(tensor.shape.numpy(), frozen=True)
        values[name] = value
        return value


def _find(name: str, scopes: list[Scope]) -> ir.Value | None:
    if not name:
        return None
    for values in reversed(scopes):
        found = values.get(name)
        if found is not None:
            return found
    raise InvalidModelError("is read, but nothing has this name", value=name)


def _text(text: str) -> str | None:
    # What is not UTF-8 comes out of a message as bytes; nobody needs it.
    return text if text.__class__ is str and text else None


def _metadata(entries: Iterable[Any]) -> dict[str, str] | None:
    found = {e.key: e.value for e in entries}
    for text in (*found, *found.values()):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidModelError(f"its metadata are not UTF-8: {text!r:.60}")
    return found or None
