"""The rules that one node must keep, whatever graph it stands in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import final

import onnx

from partita.errors import printable
from partita.loading import operators
from partita.loading.functions import Calls, Identifier, identify

_GRAPH_TYPES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@final
@dataclass(frozen=True)
class NodeRules:
    """Judges nodes of one graph or function; what it needs of a schema is looked up once an op.

    Attributes:
        imported: ``{domain: version}`` in force, the default domain as ``""``.
        functions: Identifiers of the model's functions.
        declared: Attribute parameters that may be referred to; ``None`` outside functions.
        calls: Takes down each call of a function.
        longest: Most characters of a name.
    """

    imported: Mapping[str, int]
    functions: Collection[Identifier]
    declared: frozenset[str] | None
    calls: Calls
    longest: int
    _allowed: dict[tuple[str, str], operators.Signature | str | None] = field(
        default_factory=dict[tuple[str, str], operators.Signature | str | None]
    )

    def why_illegal(self, node: onnx.NodeProto) -> str | None:
        """Returns the rule that ``node`` breaks as a sentence, or ``None``."""
        for text in (node.op_type, node.domain, node.name, node.overload):
            if text.__class__ is not str:
                return f"{text!r:.40} is not UTF-8"
            if len(text) > self.longest:
                return f"has a name of {len(text):,} characters; at most {self.longest:,} are taken"
        if self.is_call(node):
            self.calls.add(identify(node.domain, node.op_type, node.overload))
            return self._why_illegal_attributes(node)
        key = (node.domain, node.op_type)
        allowed = self._allowed.get(key, "")
        if allowed == "":
            allowed = self._allowed[key] = self._look_up(*key)
        if isinstance(allowed, str):
            return allowed
        fault = self._why_illegal_attributes(node) if node.attribute else None
        if fault is not None or allowed is None:
            return fault
        types = {a.name: a.type for a in node.attribute}
        inputs, outputs = node.input, node.output
        return operators.why_illegal(allowed, _count(inputs), _count(outputs), types)

    def is_call(self, node: onnx.NodeProto) -> bool:
        """Tells whether ``node`` calls a function of the model."""
        return (
            bool(self.functions)
            and identify(node.domain, node.op_type, node.overload) in self.functions
        )

    def _look_up(self, domain: str, op_type: str) -> operators.Signature | str | None:
        if not op_type:
            return "has no op_type"
        canonical = "" if domain == "ai.onnx" else domain
        version = self.imported.get(canonical)
        if version is None:
            return (
                f"is of domain '{printable(domain)}', which the model does not import "
                "(opset_import)"
            )
        unknown = operators.why_unknown(op_type, domain, version)
        return unknown or operators.signature(op_type, domain, version)

    def _why_illegal_attributes(self, node: onnx.NodeProto) -> str | None:
        seen: set[str] = set()
        for attribute in node.attribute:
            name = attribute.name
            if name.__class__ is not str or not name or len(name) > self.longest:
                return "has an attribute without a legal name"
            if name in seen:
                return f"has two attributes named '{printable(name)}'"
            seen.add(name)
            reference = attribute.ref_attr_name
            if reference and (self.declared is None or reference not in self.declared):
                return (
                    f"attribute '{printable(name)}' refers to '{printable(reference)}', "
                    "which no function declares here"
                )
            if attribute.type not in _GRAPH_TYPES and (attribute.HasField("g") or attribute.graphs):
                return f"attribute '{printable(name)}' holds a graph but is not of type GRAPH"
        return None


def _count(names: Collection[str]) -> int:
    count = len(names)
    if count and not names[-1]:  # pyright: ignore
        listed = list(names)
        while listed and not listed[-1]:
            listed.pop()
        return len(listed)
    return count
