"""Restamping: the same region under another operator set version and file format version.

An engine knows operator sets up to a ceiling. A node at opset 28 whose op has not changed since
opset 14 means the same at 26, so the region can be stamped 26 without changing a node. Where the op
did change in between, the node is still the same when it uses nothing of what changed. Whatever is
left over is refused with a sentence.

Source: https://onnx.ai/onnx/operators/ and ONNX's ``docs/Changelog.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import onnx_ir as ir

from partita.backends.value_types import spelled, type_string
from partita.model import Model, bodies
from partita.ops import schemas

if TYPE_CHECKING:
    from onnx.defs import OpSchema

# Changed meanings that no signature shows: the op does something else from that opset on.
_CHANGED: Mapping[str, tuple[tuple[int, str], ...]] = {
    "Softmax": ((13, "works along one axis instead of flattening"),),
    "LogSoftmax": ((13, "works along one axis instead of flattening"),),
    "Hardmax": ((13, "works along one axis instead of flattening"),),
    "GroupNormalization": ((21, "takes scale and bias a channel instead of a group"),),
    "Resize": ((11, "maps coordinates differently"), (18, "rounds its output size differently")),
    "Cast": ((9, "reads and writes text"),),
    "Scan": ((9, "lost its batch axis"),),
    "BatchNormalization": ((9, "normalises a channel"), (14, "has other outputs in training")),
    "Dropout": ((12, "takes its mode from an input"),),
    "RoiAlign": ((16, "shifts its boxes by half a pixel"),),
    "Upsample": ((10, "is withdrawn"),),
    "Scatter": ((11, "is withdrawn"),),
}

# Attributes of opset 1 to 6 that say nothing about the result when they have one of these values.
_NEUTRAL: Mapping[str, tuple[object, ...] | None] = {
    "consumed_inputs": None,
    "broadcast": (0,),
    "is_test": (1,),
    "output_sequence": (0,),
}


@final
@dataclass(frozen=True)
class Adaptation:
    """What has to change on a node so that it means the same under another version of its op.

    Attributes:
        dropped: Attributes to remove; they say what the other version does anyway.
        added: Integer attributes to set, because the other version has another default.
    """

    dropped: tuple[str, ...] = ()
    added: tuple[tuple[str, int], ...] = ()


UNCHANGED = Adaptation()


def adaptation(node: ir.Node, since: int) -> Adaptation | str:
    """Returns how ``node`` is written for the version of its op introduced in opset ``since``.

    Args:
        node: A node with its ``version`` set.
        since: A version in which ONNX introduced or changed the op.

    Returns:
        The changes, or the sentence that says why there is no way.
    """
    mine = schemas.schema(node.op_type, node.domain, node.version or 1)
    other = schemas.schema(node.op_type, node.domain, since)
    if mine is None or other is None or mine.since_version == other.since_version:
        return UNCHANGED
    return (
        _changed_meaning(node, mine.since_version, other.since_version)
        or _misfit(node, mine, other)
        or _attributes(node, mine, other)
    )


def onnx_version(node: ir.Node, opset: int) -> int | None:
    """Returns the opset that introduced the op as it is at ``opset``, ``None`` if there is none."""
    return schemas.since_version(node.op_type, node.domain, opset)


def restamp(
    model: Model,
    opsets: Mapping[str, int],
    ir_version: int,
    engine_version: Callable[[ir.Node, int], int | None] = onnx_version,
) -> Model:
    """Returns ``model`` stamped with other versions; its nodes are rewritten where they have to be.

    Takes ownership: ``model`` must be the caller's own copy (``Region.to_model`` gives one).

    Args:
        model: The model to restamp.
        opsets: For each domain that changes, the version to import.
        ir_version: The newest file format version allowed.
        engine_version: Gives, for a node and the version to import, the opset that introduced the
            version of the op that the engine knows; ONNX's own answer by default.

    Raises:
        ValueError: A node cannot be written under the other version; ``adaptation`` says why.
    """
    for _, graph in model.graphs():
        for node in graph:
            version = opsets.get(schemas.canonical_domain(node.domain))
            if version is not None:
                _rewrite(node, version, engine_version(node, version))
        for domain in set(graph.opset_imports) & set(opsets):
            graph.opset_imports[domain] = opsets[domain]
    for domain in set(model.ir.opset_imports) & set(opsets):
        model.ir.opset_imports[domain] = opsets[domain]
    model.ir.ir_version = min(model.ir.ir_version, ir_version)
    return model


def signature_since(op_type: str, domain: str = "") -> int:
    """Returns the first opset in which an op had the attributes, inputs and outputs it has today.

    1 for an op that ONNX does not know.
    """
    versions = schemas.versions(op_type, domain)
    newest = schemas.schema(op_type, domain, versions[-1]) if versions else None
    if newest is None:
        return 1
    since = newest.since_version
    for version in reversed(versions):
        schema = schemas.schema(op_type, domain, version)
        if schema is None or not _continues(schema, newest):
            break
        if any(version < changed for changed, _ in _CHANGED.get(op_type, ())):
            break
        since = version
    return since


def _continues(older: OpSchema, newer: OpSchema) -> bool:
    """Tells whether whatever implements ``newer`` also implements ``older``."""
    for key, attribute in older.attributes.items():
        now = newer.attributes.get(key)
        if now is None or (now.type, now.default_value) != (
            attribute.type,
            attribute.default_value,
        ):
            return False
    return all(
        [f.name for f in old] == [f.name for f in new][: len(old)]
        for old, new in ((older.inputs, newer.inputs), (older.outputs, newer.outputs))
    )


def _rewrite(node: ir.Node, version: int, since: int | None) -> None:
    change = UNCHANGED if since is None else adaptation(node, since)
    if isinstance(change, str):
        raise ValueError(f"node '{node.name}': {change}")
    for key in change.dropped:
        del node.attributes[key]
    for key, number in change.added:
        node.attributes[key] = ir.AttrInt64(key, number)
    node.version = version


def _changed_meaning(node: ir.Node, mine: int, other: int) -> str:
    low, high = sorted((mine, other))
    for version, words in _CHANGED.get(node.op_type, ()):
        if low < version <= high:
            return f"{node.op_type} {words} from opset {version} on"
    return ""


def _misfit(node: ir.Node, mine: OpSchema, other: OpSchema) -> str:
    """Says which input or output of ``node`` the other version does not have, or ``""``."""
    for side, values, old, new in (
        ("input", node.inputs, mine.inputs, other.inputs),
        ("output", node.outputs, mine.outputs, other.outputs),
    ):
        for i, value in enumerate(values):
            if value is None or not value.name or (_variadic(old, i) and _variadic(new, i)):
                continue
            if i >= len(new) or new[i].name != old[min(i, len(old) - 1)].name:
                return (
                    f"{side} '{value.name}' has no place in {node.op_type} "
                    f"as of opset {other.since_version}"
                )
    return _unlisted_dtype(node, other)


def _unlisted_dtype(node: ir.Node, other: OpSchema) -> str:
    allowed = {t.type_param_str: set(t.allowed_type_strs) for t in other.type_constraints}
    for side, values, formals in (
        ("input", node.inputs, other.inputs),
        ("output", node.outputs, other.outputs),
    ):
        for i, value in enumerate(values if formals else ()):
            kind = None if value is None or not value.name else type_string(value)
            formal = formals[min(i, len(formals) - 1)].type_str
            if value is not None and kind and kind not in allowed.get(formal, {formal}):
                return (
                    f"{side} '{value.name}' is {spelled(kind)}, which {node.op_type} "
                    f"as of opset {other.since_version} does not know"
                )
    return ""


def _attributes(node: ir.Node, mine: OpSchema, other: OpSchema) -> Adaptation | str:
    dropped: list[str] = []
    for key, attribute in node.attributes.items():
        if key in other.attributes:
            continue
        if not _says_nothing(key, attribute, mine):
            return (
                f"attribute '{key}' = {_short(attribute)} has no place in {node.op_type} "
                f"as of opset {other.since_version}"
            )
        dropped.append(key)
    added: list[tuple[str, int]] = []
    for key, formal in other.attributes.items():
        if key in node.attributes:
            continue
        if formal.required:
            return f"{node.op_type} as of opset {other.since_version} needs attribute '{key}'"
        before = mine.attributes.get(key)
        if before is None or before.default_value == formal.default_value:
            continue
        if before.default_value.type != ir.AttributeType.INT:
            return f"attribute '{key}' has another default as of opset {other.since_version}"
        added.append((key, before.default_value.i))
    return Adaptation(tuple(dropped), tuple(added))


def _says_nothing(key: str, attribute: ir.Attr, schema: OpSchema) -> bool:
    """Tells whether leaving an attribute out changes nothing."""
    if key in _NEUTRAL:
        harmless = _NEUTRAL[key]
        return harmless is None or attribute.value in harmless
    formal = schema.attributes.get(key)
    if formal is None or formal.default_value.type != attribute.type:
        return False
    return ir.from_proto(formal.default_value).value == attribute.value


def _variadic(formals: Sequence[OpSchema.FormalParameter], index: int) -> bool:
    return bool(formals) and index >= len(formals) - 1 and "Variadic" in str(formals[-1].option)


def _short(attribute: ir.Attr) -> str:
    return repr(attribute.value)[:40]


def every_node(nodes: Iterator[ir.Node] | tuple[ir.Node, ...]) -> Iterator[ir.Node]:
    """Yields nodes and the nodes of their bodies, outer before inner."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        for _, graph in bodies(node):
            stack.extend(graph)
