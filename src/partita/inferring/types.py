"""Types of outputs, read off the operator's schema: most follow from it without a rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import onnx_ir as ir

from partita.ops import schemas

_NAMES: Mapping[str, ir.DataType] = {
    **{dtype.name.lower(): dtype for dtype in ir.DataType},
    "float": ir.DataType.FLOAT,
    "double": ir.DataType.DOUBLE,
}
_NUMBERS = {dtype.value for dtype in ir.DataType} - {0}
_TYPE = re.compile(r"(tensor|seq|optional)\((.*)\)")


@final
@dataclass(frozen=True)
class OutputType:
    """How the type of one output follows from a schema.

    Attributes:
        fixed: The type, where the schema allows one only.
        same_as: Otherwise, the inputs that have the same type variable.
        onwards: Whether ``same_as`` ends with a variadic input, so that all later ones count.
    """

    fixed: str | None
    same_as: tuple[int, ...] = ()
    onwards: bool = False


def output_types(node: ir.Node) -> list[ir.TypeProtocol | None]:
    """Returns the type of each output as far as attributes, inputs and the schema tell it."""
    opset = node.version or 0
    rules = _output_types(node.op_type, node.domain, opset)
    if rules is None:
        return [None] * len(node.outputs)
    found: list[ir.TypeProtocol | None] = []
    for index in range(len(node.outputs)):
        rule = rules[min(index, len(rules) - 1)] if rules else None
        found.append(None if rule is None else _resolve(rule, node))
    if node.op_type == "LayerNormalization" and len(found) > 1:
        statistics = _from_attribute(node, "stash_type") or ir.DataType.FLOAT
        found[1:] = [ir.TensorType(statistics) for _ in found[1:]]
    special = SPECIAL.get(node.op_type)
    if special is not None and found and node.domain == "":
        dtype = special(node)
        if dtype is not None:
            found[0] = ir.TensorType(dtype)
    return found


def _resolve(rule: OutputType, node: ir.Node) -> ir.TypeProtocol | None:
    if rule.fixed is not None:
        return parse_type(rule.fixed)
    positions = list(rule.same_as)
    if rule.onwards:
        positions.extend(range(positions[-1] + 1, len(node.inputs)))
    for position in positions:
        if position < len(node.inputs):
            value = node.inputs[position]
            if value is not None and value.type is not None:
                return value.type
    return None


@lru_cache(8192)
def _output_types(op_type: str, domain: str, opset: int) -> tuple[OutputType, ...] | None:
    schema = schemas.schema(op_type, domain, opset)
    if schema is None:
        return None
    allowed = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    rules: list[OutputType] = []
    for output in schema.outputs:
        variable = output.type_str
        choices = allowed.get(variable, [variable])
        if len(choices) == 1:
            rules.append(OutputType(choices[0]))
            continue
        same = tuple(i for i, given in enumerate(schema.inputs) if given.type_str == variable)
        last = schema.inputs[same[-1]] if same else None
        onwards = last is not None and str(last.option).endswith("Variadic")
        rules.append(OutputType(None, same, onwards and last is not None and last.is_homogeneous))
    return tuple(rules)


def parse_type(text: str) -> ir.TypeProtocol | None:
    """Returns the type that a schema writes as ``seq(tensor(float))``; ``None`` for maps."""
    match = _TYPE.fullmatch(text)
    if match is None:
        return None
    word, inner = match.groups()
    if word == "tensor":
        dtype = _NAMES.get(inner)
        return None if dtype is None else ir.TensorType(dtype)
    element = parse_type(inner)
    if element is None:
        return None
    return ir.SequenceType(element) if word == "seq" else ir.OptionalType(element)


def fresh(kind: ir.TypeProtocol) -> ir.TypeProtocol:
    """Returns a type of its own: setting the dtype of a value edits the type in place."""
    if isinstance(kind, ir.TensorType):
        return ir.TensorType(kind.dtype, denotation=kind.denotation)
    if isinstance(kind, ir.SequenceType):
        return ir.SequenceType(fresh(kind.elem_type))
    if isinstance(kind, ir.OptionalType):
        return ir.OptionalType(fresh(kind.elem_type))
    return kind


def _from_attribute(node: ir.Node, name: str) -> ir.DataType | None:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != ir.AttributeType.INT:
        return None
    number = attribute.as_int()
    return ir.DataType(number) if number in _NUMBERS else None


def _of_input(node: ir.Node, index: int) -> ir.DataType | None:
    if index >= len(node.inputs):
        return None
    value = node.inputs[index]
    return None if value is None else value.dtype


def _of_tensor(node: ir.Node, name: str) -> ir.DataType | None:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.type != ir.AttributeType.TENSOR:
        return None
    return attribute.as_tensor().dtype


def _quantized(node: ir.Node) -> ir.DataType | None:
    return _of_input(node, 2) or _from_attribute(node, "output_dtype") or ir.DataType.UINT8


TypeRule = Callable[[ir.Node], ir.DataType | None]


def _said_by(name: str, otherwise: int | ir.DataType | None) -> TypeRule:
    """Returns the rule: the type that attribute ``name`` says, else a fixed one or an input's."""

    def rule(node: ir.Node) -> ir.DataType | None:
        said = _from_attribute(node, name)
        if said is not None:
            return said
        if otherwise is None or isinstance(otherwise, ir.DataType):
            return otherwise
        return _of_input(node, otherwise)

    return rule


def _filled(node: ir.Node) -> ir.DataType | None:
    return _of_tensor(node, "value") or ir.DataType.FLOAT


SPECIAL: Mapping[str, TypeRule] = {
    "Bernoulli": _said_by("dtype", 0),
    "BitCast": _said_by("to", None),
    "BlackmanWindow": _said_by("output_datatype", ir.DataType.FLOAT),
    "Cast": _said_by("to", None),
    "ConstantOfShape": _filled,
    "DequantizeLinear": _said_by("output_dtype", 1),
    "EyeLike": _said_by("dtype", 0),
    "HammingWindow": _said_by("output_datatype", ir.DataType.FLOAT),
    "HannWindow": _said_by("output_datatype", ir.DataType.FLOAT),
    "MelWeightMatrix": _said_by("output_datatype", ir.DataType.FLOAT),
    "Multinomial": _said_by("dtype", ir.DataType.INT32),
    "QuantizeLinear": _quantized,
    "RandomNormal": _said_by("dtype", ir.DataType.FLOAT),
    "RandomNormalLike": _said_by("dtype", 0),
    "RandomUniform": _said_by("dtype", ir.DataType.FLOAT),
    "RandomUniformLike": _said_by("dtype", 0),
}
"""Ops whose first output's element type an attribute says."""
