"""A model in memory (``onnx_ir.Model``) as a protobuf message without its weights.

So a caller's model passes the same checks as a file, is copied on the way and never edited, and
not a byte of its weights is copied: the message refers to each tensor by a number.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import onnx
import onnx_ir as ir

from partita.errors import InvalidModelError, LimitError
from partita.loading.build import QUANTIZATION
from partita.loading.external import ExternalData
from partita.loading.limits import Limits
from partita.loading.tensors import GIVEN, TensorReader

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    RepeatedComposite = RepeatedCompositeFieldContainer

_KIND = ir.AttributeType


@final
class Skeleton:
    """Builds the message of one model.

    Attributes:
        proto: The message.
        tensors: The tensors that it refers to, by number.
    """

    def __init__(self, model: ir.Model, limits: Limits) -> None:
        """Builds the message.

        Raises:
            InvalidModelError: A node reads a value that nothing in the model makes.
            LimitError: Bodies are nested too deeply.
        """
        self.proto = onnx.ModelProto(ir_version=model.ir_version)
        self.tensors: dict[str, ir.TensorProtocol] = {}
        self._limits = limits
        self._external: dict[Path, ExternalData] = {}
        self._names: dict[ir.Value, str] = {}
        self._taken: dict[str, object] = {}
        self._set_header(model)
        self._fill_graph(self.proto.graph, model.graph, 0)
        for function in model.functions.values():
            self._names.clear()
            self._taken.clear()
            self._fill_function(self.proto.functions.add(), function)

    def _set_header(self, model: ir.Model) -> None:
        self.proto.producer_name = model.producer_name or ""
        self.proto.producer_version = model.producer_version or ""
        self.proto.domain = model.domain or ""
        self.proto.doc_string = model.doc_string or ""
        if model.model_version is not None:
            self.proto.model_version = model.model_version
        _fill_imports(self.proto.opset_import, model.opset_imports)
        _fill_entries(self.proto.metadata_props, model.metadata_props)

    def _fill_graph(self, proto: onnx.GraphProto, graph: ir.Graph, depth: int) -> None:
        if depth > self._limits.body_depth:
            raise LimitError(
                f"bodies are nested deeper than {self._limits.body_depth} (Limits.body_depth)"
            )
        proto.name = graph.name or ""
        self._declare(graph, (*graph.inputs, *graph.initializers.values()), graph)
        for value in graph.inputs:
            self._fill_value(proto.input.add(), value)
        for value in graph.initializers.values():
            if value.const_value is None:
                raise InvalidModelError("is a weight without data", value=value.name)
            self._fill_tensor(proto.initializer.add(), value.const_value, self._names[value])
        for node in graph:
            self._fill_node(proto.node.add(), node, depth)
            for value in node.outputs:
                if value in self._names and (value.type is not None or value.shape is not None):
                    self._fill_value(proto.value_info.add(), value)
        for value in graph.outputs:
            self._name(value, None)
            self._fill_value(proto.output.add(), value)
        for value in self._names:
            annotation = value.meta.get(QUANTIZATION)
            if annotation and value.graph is graph:
                entry = proto.quantization_annotation.add(tensor_name=self._names[value])
                _fill_entries(entry.quant_parameter_tensor_names, annotation)
        _fill_entries(proto.metadata_props, graph.metadata_props)

    def _fill_function(self, proto: onnx.FunctionProto, function: ir.Function) -> None:
        proto.domain, proto.name, proto.overload = (
            function.domain,
            function.name,
            function.overload,
        )
        _fill_imports(proto.opset_import, function.opset_imports)
        _fill_entries(proto.metadata_props, function.metadata_props)
        self._declare(function.graph, function.inputs, function)
        proto.input.extend(self._names[value] for value in function.inputs)
        for name, attribute in function.attributes.items():
            if attribute.value is None:
                proto.attribute.append(name)
            else:
                self._fill_attribute(proto.attribute_proto.add(), attribute, None, 0)
        for node in function:
            self._fill_node(proto.node.add(), node, 0)
        proto.output.extend(self._name(value, None) for value in function.outputs)

    def _declare(self, owner: object, values: Iterable[ir.Value], nodes: Iterable[ir.Node]) -> None:
        """Names all values of a graph; a name of an outer value is not used again.

        Raises:
            InvalidModelError: Two values of the graph have one name.
        """
        made = (value for node in nodes for value in node.outputs if value.name)
        for value in (*values, *made):
            if value in self._names:
                continue
            name, number = value.name or "", 0
            if self._taken.get(name) is owner:
                raise InvalidModelError("two values of one graph have this name", value=name)
            while name in self._taken:
                number += 1
                name = f"{value.name}_{number}"
            self._taken[name] = owner
            self._names[value] = name

    def _name(self, value: ir.Value | None, node: ir.Node | None) -> str:
        if value is None or not value.name:
            return ""
        if value not in self._names:
            raise InvalidModelError(
                "is read, but no node, input or weight of the model makes it",
                node=node.name if node else None,
                value=value.name,
            )
        return self._names[value]

    def _fill_node(self, proto: onnx.NodeProto, node: ir.Node, depth: int) -> None:
        proto.op_type, proto.domain, proto.name = node.op_type, node.domain, node.name or ""
        proto.overload = node.overload
        if node.doc_string:
            proto.doc_string = node.doc_string
        proto.input.extend(self._name(value, node) for value in node.inputs)
        proto.output.extend(self._names.get(value, "") for value in node.outputs)
        for attribute in node.attributes.values():
            self._fill_attribute(proto.attribute.add(), attribute, node, depth)
        _fill_entries(proto.metadata_props, node.metadata_props)

    def _fill_attribute(
        self, proto: onnx.AttributeProto, attribute: ir.Attr, node: ir.Node | None, depth: int
    ) -> None:
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(proto, attribute)
        elif attribute.type in (_KIND.TENSOR, _KIND.TENSORS, _KIND.GRAPH, _KIND.GRAPHS):
            proto.name = attribute.name
            proto.type = int(attribute.type)  # pyright: ignore[reportAttributeAccessIssue]
            if attribute.type == _KIND.TENSOR:
                self._fill_tensor(proto.t, attribute.as_tensor(), "")
            elif attribute.type == _KIND.TENSORS:
                for tensor in attribute.as_tensors():
                    self._fill_tensor(proto.tensors.add(), tensor, "")
            elif attribute.type == _KIND.GRAPH:
                self._fill_graph(proto.g, attribute.as_graph(), depth + 1)
            else:
                for graph in attribute.as_graphs():
                    self._fill_graph(proto.graphs.add(), graph, depth + 1)
        else:
            ir.serde.serialize_attribute_into(proto, attribute)

    def _fill_value(self, proto: onnx.ValueInfoProto, value: ir.Value) -> None:
        ir.serde.serialize_value_into(proto, value)
        proto.name = self._names[value]

    def _fill_tensor(self, proto: onnx.TensorProto, tensor: ir.TensorProtocol, name: str) -> None:
        proto.name = name
        proto.data_type = int(tensor.dtype)
        proto.dims.extend(int(dim) for dim in tensor.shape.numpy())
        proto.data_location = onnx.TensorProto.EXTERNAL
        number = str(len(self.tensors))
        proto.external_data.add(key=GIVEN, value=number)
        self.tensors[number] = self._own(tensor)

    def _own(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Returns a tensor of partita's own over the same memory; files are opened by partita."""
        if isinstance(tensor, ir.serde.TensorProtoTensor):
            return TensorReader(ExternalData(None), self._limits).read(tensor.raw)
        if isinstance(tensor, ir.ExternalTensor):
            return self._reopened(tensor)
        shape = ir.Shape(tensor.shape.numpy(), frozen=True)
        if isinstance(tensor, ir.StringTensor):
            return ir.StringTensor(tensor.raw, shape=shape)
        if isinstance(tensor, ir.PackedTensor):
            return ir.PackedTensor(tensor.raw, tensor.dtype, shape=shape)
        if isinstance(tensor, ir.Tensor) and isinstance(tensor.raw, np.ndarray):
            return ir.Tensor(tensor.raw, dtype=tensor.dtype, shape=shape)
        return ir.LazyTensor(lambda: tensor, dtype=tensor.dtype, shape=shape)

    def _reopened(self, tensor: ir.ExternalTensor) -> ir.TensorProtocol:
        proto = onnx.TensorProto(
            data_type=int(tensor.dtype),
            dims=tensor.shape.numpy(),
            data_location=onnx.TensorProto.EXTERNAL,
        )
        proto.external_data.add(key="location", value=str(tensor.location))
        for key, number in (("offset", tensor.offset), ("length", tensor.length)):
            if number is not None:
                proto.external_data.add(key=key, value=str(number))
        folder = Path(tensor.base_dir or ".")
        external = self._external.setdefault(folder, ExternalData(folder))
        return TensorReader(external, self._limits).read(proto)


def _fill_imports(
    protos: RepeatedComposite[onnx.OperatorSetIdProto], imports: Mapping[str, int]
) -> None:
    for domain, version in imports.items():
        protos.add(domain=domain, version=version)


def _fill_entries(
    protos: RepeatedComposite[onnx.StringStringEntryProto], entries: Mapping[str, str]
) -> None:
    for key, text in entries.items():
        protos.add(key=key, value=text)
