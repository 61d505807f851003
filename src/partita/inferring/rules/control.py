"""Control flow, sequences and optionals: what bodies return decides."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from partita.inferring.dims import Dim, Dims, divide, is_unknown, unknown
from partita.inferring.rules.elementwise import RULES as _ELEMENTWISE
from partita.inferring.site import Answer, Known, NotInferableError, Rule, Site, axis_of

_SCAN_WITHOUT_BATCH = 9
_DEEPEST_REPEATED_LOOP = 2
"""Loops nested deeper get one look instead of up to three: the looks multiply with each level."""


def join_dims(one: Dims | None, other: Dims | None) -> Dims | None:
    """Returns what is true of both shapes; an unknown of the first one stays the same unknown."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(
        a if a == b or is_unknown(a) else unknown() for a, b in zip(one, other, strict=True)
    )


def join(one: Known, other: Known) -> Known:
    """Returns what is true of both values."""
    kind = one.type if one.type == other.type else None
    return Known(kind, join_dims(one.dims, other.dims))


def _if(site: Site) -> Answer:
    branches = [
        site.state.infer_body(attribute.as_graph(), ())
        for key in ("then_branch", "else_branch")
        if (attribute := site.node.attributes.get(key)) is not None
    ]
    if len(branches) != 2:
        raise NotInferableError
    return [join(a, b) for a, b in zip(branches[0], branches[1], strict=True)]


def _loop(site: Site) -> Answer:
    body = site.node.attributes["body"].as_graph()
    counters = (
        Known(ir.TensorType(ir.DataType.INT64), ()),
        Known(ir.TensorType(ir.DataType.BOOL), ()),
    )
    carried = [site.known(i) for i in range(2, len(site.node.inputs))]
    looks = 2 if site.state.depth < _DEEPEST_REPEATED_LOOP else 0
    for _ in range(looks):
        results = site.state.infer_body(body, (*counters, *carried))
        joined = [join(a, b) for a, b in zip(carried, results[1:], strict=False)]
        if joined == carried:
            break
        carried = joined
    else:
        carried = [Known(known.type, None) for known in carried]
        results = site.state.infer_body(body, (*counters, *carried))
    return [*carried, *(_stacked(known, 0, unknown()) for known in results[1 + len(carried) :])]


def _stacked(known: Known, axis: int, length: Dim) -> Known:
    if known.dims is None:
        return known
    at = axis_of(axis, len(known.dims) + 1)
    return Known(known.type, (*known.dims[:at], length, *known.dims[at:]))


def _scan(site: Site) -> Answer:
    if site.opset < _SCAN_WITHOUT_BATCH:
        return _scan_of_batch(site)
    body = site.node.attributes["body"].as_graph()
    scanned = site.number("num_scan_inputs", 1)
    count = len(site.node.inputs) - scanned
    states = [site.known(i) for i in range(count)]
    axes = site.numbers("scan_input_axes") or (0,) * scanned
    slices: list[Known] = []
    length: Dim = unknown()
    for axis, known in zip(axes, map(site.known, range(count, count + scanned)), strict=True):
        if known.dims is None:
            slices.append(known)
            continue
        at = axis_of(axis, len(known.dims))
        length = known.dims[at]
        slices.append(Known(known.type, known.dims[:at] + known.dims[at + 1 :]))
    results = site.state.infer_body(body, (*states, *slices))
    outputs = results[count:]
    out_axes = site.numbers("scan_output_axes") or (0,) * len(outputs)
    stacked = [_stacked(k, axis, length) for k, axis in zip(outputs, out_axes, strict=True)]
    return [*(join(a, b) for a, b in zip(states, results, strict=False)), *stacked]


def _scan_of_batch(site: Site) -> Answer:
    """Follows the first Scan (opset 8): an input of lengths, then a batch axis in front of all."""
    body = site.node.attributes["body"].as_graph()
    count = len(site.node.inputs) - 1 - site.number("num_scan_inputs", 1)
    known = [site.known(i) for i in range(1, len(site.node.inputs))]
    around = next((k.dims[:2] for k in known[count:] if k.dims is not None), None)
    inner = [_inner(k, 1) for k in known[:count]] + [_inner(k, 2) for k in known[count:]]
    results = site.state.infer_body(body, inner)
    if around is None:
        raise NotInferableError
    states = [_wrapped(r, around[:1]) for r in results[:count]]
    return [*states, *(_wrapped(r, around) for r in results[count:])]


def _inner(known: Known, axes: int) -> Known:
    return Known(known.type, None if known.dims is None else known.dims[axes:])


def _wrapped(known: Known, around: Dims) -> Known:
    return Known(known.type, None if known.dims is None else around + known.dims)


def _optional_element(site: Site) -> Answer:
    known = site.known(0)
    if isinstance(known.type, ir.OptionalType):
        return [Known(known.type.elem_type, known.dims)]
    return [known]


def _element(known: Known) -> Known:
    if isinstance(known.type, (ir.SequenceType, ir.OptionalType)):
        return Known(known.type.elem_type, known.dims)
    return known


def _sequence_of(known: Known) -> Known:
    return Known(None if known.type is None else ir.SequenceType(known.type), known.dims)


def _sequence_map(site: Site) -> Answer:
    body = site.node.attributes["body"].as_graph()
    elements = [_element(site.known(i)) for i in range(len(site.node.inputs))]
    return [_sequence_of(known) for known in site.state.infer_body(body, elements)]


def _sequence_construct(site: Site) -> Answer:
    known = site.known(0)
    for index in range(1, len(site.node.inputs)):
        known = join(known, site.known(index))
    return [_sequence_of(known)]


def _sequence_empty(site: Site) -> Answer:
    dtype = ir.DataType(site.number("dtype", 1))
    return [Known(ir.SequenceType(ir.TensorType(dtype)), None)]


def _sequence_at(site: Site) -> Answer:
    return [_element(site.known(0))]


def _sequence_insert(site: Site) -> Answer:
    sequence = site.known(0)
    return [Known(sequence.type, join_dims(sequence.dims, site.dims_if_known(1)))]


def _concat_from_sequence(site: Site) -> Answer:
    known = _element(site.known(0))
    axis = site.number("axis", 0)
    if known.dims is None or site.number("new_axis", 0) == 1:
        return [_stacked(known, axis, unknown())]
    at = axis_of(axis, len(known.dims))
    return [Known(known.type, (*known.dims[:at], unknown(), *known.dims[at + 1 :]))]


def _split_to_sequence(site: Site) -> Answer:
    known = site.known(0)
    if known.dims is None:
        return [_sequence_of(known)]
    at = axis_of(site.number("axis", 0), len(known.dims))
    part: Sequence[Dim] = (unknown(),)
    if not site.has(1):
        part = (1,) if site.number("keepdims", 1) else ()
    elif site.dims(1) == ():
        (size,) = site.elements_or_none(1, 1)
        if isinstance(size, int) and divide(known.dims[at], size) is not None:
            part = (size,)
    return [_sequence_of(Known(known.type, (*known.dims[:at], *part, *known.dims[at + 1 :])))]


def _optional(site: Site) -> Answer:
    if site.has(0):
        known = site.known(0)
    else:
        declared = site.node.attributes["type"].value
        known = Known(declared.type, None)
    return [Known(None if known.type is None else ir.OptionalType(known.type), known.dims)]


def _scalar(site: Site) -> Answer:
    return [()]


RULES: dict[str, Rule] = {
    "ConcatFromSequence": _concat_from_sequence,
    "If": _if,
    "Loop": _loop,
    "Optional": _optional,
    "OptionalGetElement": _optional_element,
    "OptionalHasElement": _scalar,
    "Scan": _scan,
    "SequenceAt": _sequence_at,
    "SequenceConstruct": _sequence_construct,
    "SequenceEmpty": _sequence_empty,
    "SequenceErase": _ELEMENTWISE["Identity"],
    "SequenceInsert": _sequence_insert,
    "SequenceLength": _scalar,
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_to_sequence,
}
