"""Whether a node is a legal use of its operator, by ONNX's own schemas."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import onnx

from partita.errors import printable
from partita.ops import schemas

_NUMBERS: dict[str, int] = dict(onnx.AttributeProto.AttributeType.items())
_NAMES = {number: name for name, number in _NUMBERS.items()}


@final
@dataclass(frozen=True)
class Signature:
    """What the schema of one op at one opset allows.

    Attributes:
        inputs: Fewest and most inputs.
        outputs: Fewest and most outputs.
        attributes: The number of each attribute's type (``onnx.AttributeProto.AttributeType``).
        required: Attributes that have to be there.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: Mapping[str, int]
    required: frozenset[str]


@lru_cache(8192)
def why_unknown(op_type: str, domain: str, opset: int) -> str | None:
    """Returns why there is no such op at ``opset``, or ``None`` if there is or nobody can tell.

    Ops of domains that ``onnx`` holds no schemas for are taken on trust.
    """
    domain = schemas.canonical_domain(domain)
    if domain not in schemas.known_domains():
        return None
    shown = "the default domain" if domain == "" else f"domain '{domain}'"
    name = printable(op_type)
    existing = schemas.versions(op_type, domain)
    if not existing:
        close = difflib.get_close_matches(op_type, schemas.known_ops(domain), n=3, cutoff=0.6)
        hint = "give custom ops a domain of their own"
        if close:
            hint = f"did you mean {' or '.join(close)}?"
        return f"{shown} has no op {name} in any version; {hint}"
    found = schemas.schema(op_type, domain, opset)
    if found is None:
        return f"{name} came with opset {existing[0]} of {shown}; the model imports opset {opset}"
    if found.deprecated:
        return (
            f"{name} was withdrawn in opset {found.since_version} of {shown}; the model imports "
            f"opset {opset}; export it again"
        )
    return None


@lru_cache(8192)
def signature(op_type: str, domain: str, opset: int) -> Signature | None:
    """Returns what the schema allows, or ``None`` for an op without a schema."""
    found = schemas.schema(op_type, domain, opset)
    if found is None:
        return None
    return Signature(
        (found.min_input, found.max_input),
        (found.min_output, found.max_output),
        {name: _type_number(a) for name, a in found.attributes.items()},
        frozenset(name for name, a in found.attributes.items() if a.required),
    )


def why_illegal(
    allowed: Signature, inputs: int, outputs: int, attributes: Mapping[str, int]
) -> str | None:
    """Returns how a node breaks its op's schema, or ``None``.

    Args:
        allowed: What the schema allows.
        inputs: Number of inputs, those left out at the end not counted.
        outputs: Number of outputs, those left out at the end not counted.
        attributes: Type number of each attribute present.
    """
    for what, found, (least, most) in (
        ("input", inputs, allowed.inputs),
        ("output", outputs, allowed.outputs),
    ):
        if found < least or found > most:
            plural = "" if found == 1 else "s"
            return f"has {found} {what}{plural}; its op takes {_range(least, most)}"
    missing = allowed.required - attributes.keys()
    if missing:
        return f"lacks attribute '{min(missing)}'"
    for name, number in attributes.items():
        wanted = allowed.attributes.get(name, number)
        if wanted != number:
            return f"has attribute '{name}' of type {_type(number)}; its op wants {_type(wanted)}"
    return None


def _type_number(attribute: onnx.defs.OpSchema.Attribute) -> int:
    # The enumeration is not the protobuf one, but has the same names.
    return _NUMBERS[str(attribute.type).rpartition(".")[2]]


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most > 2**30 else f"{least} to {most}"


def _type(number: int) -> str:
    return _NAMES.get(number, str(number))
