"""What small integer tensors hold: shape arithmetic (Shape → Gather → Concat → Reshape) by formula.

Only scalars and vectors are followed, and only up to 64 elements; shapes are not longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_ir as ir

from partita.inferring.dims import Dim, add, floor_divide, largest, multiply, smallest, subtract
from partita.inferring.dims import product as dims_product
from partita.inferring.site import Element, Elements, NotInferableError, Site, axis_of

MOST_ELEMENTS = 64
MOST_CONSTANT_ELEMENTS = 1024
_WHOLE = (ir.DataType.INT64, ir.DataType.INT32)
_KEPT_TYPES = (*_WHOLE, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL)
_AXES_AS_INPUT = 13
_SLICE_INPUTS = 10


def constant_elements(value: ir.Value) -> Elements | None:
    """Returns the elements of a small constant scalar or vector, or ``None``."""
    tensor = value.const_value
    if tensor is None or tensor.dtype not in _KEPT_TYPES or len(tensor.shape) > 1:
        return None
    if tensor.size > MOST_CONSTANT_ELEMENTS:
        return None
    return tuple(tensor.numpy().reshape(-1).tolist())


def follow(site: Site) -> Elements | None:
    """Returns the elements of the first output of a node, as far as they follow from its inputs.

    Raises:
        NotInferableError: Nothing follows.
    """
    rule = RULES.get(site.node.op_type)
    if rule is None or site.node.domain != "":
        return None
    found = rule(site)
    return found if len(found) <= MOST_ELEMENTS else None


def _shape(site: Site) -> Elements:
    dims = site.dims(0)
    return dims[site.number("start", 0) : site.number("end", len(dims))]


def _size(site: Site) -> Elements:
    return (dims_product(site.dims(0)),)


def _same(site: Site) -> Elements:
    return site.elements(0)


def _cast(site: Site) -> Elements:
    target = site.node.outputs[0].dtype
    if target not in _KEPT_TYPES:
        raise NotInferableError
    if target not in _WHOLE:
        return site.elements(0)
    return tuple(_truncated(e) for e in site.elements(0))


def _truncated(element: Element) -> Element:
    return int(element) if isinstance(element, float) and math.isfinite(element) else element


def _gather(site: Site) -> Elements:
    if len(site.dims(0)) != 1 or len(site.dims(1)) > 1:
        raise NotInferableError
    elements = site.elements(0)
    return tuple(elements[axis_of(i, len(elements))] for i in site.integers(1))


def _slice(site: Site) -> Elements:
    elements = site.elements(0)
    if len(site.dims(0)) != 1:
        raise NotInferableError
    if site.opset < _SLICE_INPUTS:
        bounds = (site.numbers("starts"), site.numbers("ends"), (1,))
    else:
        bounds = (site.integers(1), site.integers(2), site.integers(4) if site.has(4) else (1,))
    if any(bound is None or len(bound) != 1 for bound in bounds):
        raise NotInferableError
    start, end, step = (bound[0] for bound in bounds if bound)
    return elements[slice(start, end, step)]


def _concat(site: Site) -> Elements:
    found: list[Element] = []
    for index in range(len(site.node.inputs)):
        dims = site.dims(index)
        known = site.state.elements(site.value(index))
        if known is None:
            if len(dims) != 1 or not isinstance(dims[0], int) or dims[0] > MOST_ELEMENTS:
                raise NotInferableError
            known = (None,) * dims[0]
        found.extend(known)
    return tuple(found)


def _reshape(site: Site) -> Elements:
    # The output is a scalar or vector with the same elements; the driver checks the count.
    return site.elements(0)


def _split(site: Site) -> Elements:
    elements = site.elements(0)
    length = site.state.dims.get(site.node.outputs[0])
    if len(site.dims(0)) != 1 or length is None or not isinstance(length[0], int):
        raise NotInferableError
    return elements[: length[0]]


def _constant_of_shape(site: Site) -> Elements:
    attribute = site.node.attributes.get("value")
    number = 0 if attribute is None else attribute.as_tensor().numpy().reshape(-1).tolist()[0]
    dims = site.state.dims.get(site.node.outputs[0])
    if dims is None or len(dims) > 1 or not all(isinstance(d, int) for d in dims):
        raise NotInferableError
    count = dims_product(dims)
    if not isinstance(count, int) or count > MOST_ELEMENTS:
        raise NotInferableError
    return (number,) * count


def _range(site: Site) -> Elements:
    (start,), (limit,), (delta,) = (site.integers(i) for i in range(3))
    numbers = range(start, limit, delta)
    if len(numbers) > MOST_ELEMENTS:
        raise NotInferableError
    return tuple(numbers)


def _reduce(combine: Callable[[Sequence[Dim]], Dim]) -> Callable[[Site], Elements]:
    def rule(site: Site) -> Elements:
        elements = [e for e in site.elements(0) if e is not None and not isinstance(e, float)]
        if len(elements) != len(site.elements(0)) or len(site.dims(0)) != 1 or not elements:
            raise NotInferableError
        if site.number("noop_with_empty_axes", 0):
            raise NotInferableError
        return (combine(elements),)

    return rule


def _summed(elements: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for element in elements:
        total = add(total, element)
    return total


def _lowest(elements: Sequence[Dim]) -> Dim:
    found = elements[0]
    for element in elements[1:]:
        found = smallest(found, element)
    return found


def _highest(elements: Sequence[Dim]) -> Dim:
    found = elements[0]
    for element in elements[1:]:
        found = largest(found, element)
    return found


def _pairwise(
    on_dims: Callable[[Dim, Dim], Dim | None], on_floats: Callable[[float, float], float | None]
) -> Callable[[Site], Elements]:
    def one(left: Element, right: Element) -> Element:
        if left is None or right is None:
            return None
        if isinstance(left, float) or isinstance(right, float):
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                return on_floats(left, right)
            return None
        return on_dims(left, right)

    def rule(site: Site) -> Elements:
        left, right = site.elements(0), site.elements(1)
        length = max(len(left), len(right))
        if 1 not in (len(left), len(right)) and len(left) != len(right):
            raise NotInferableError
        left, right = left * (length // len(left)), right * (length // len(right))
        return tuple(one(a, b) for a, b in zip(left, right, strict=True))

    return rule


def _divided(left: Dim, right: Dim) -> Dim | None:
    if isinstance(left, int) and isinstance(right, int):
        # ONNX cuts towards zero; only where that is the same as rounding down is it followed.
        return left // right if right > 0 and left >= 0 else None
    return floor_divide(left, right) if isinstance(right, int) and right > 0 else None


def _equal(left: Dim, right: Dim) -> Dim | None:
    if isinstance(left, int) and isinstance(right, int):
        return int(left == right)
    if left == right:
        return 1
    # A sum of sizes is never negative: exporters compare shapes with -1.
    return 0 if {_is_negative(left), _is_negative(right)} == {True, False} else None


def _is_negative(dim: Dim) -> bool | None:
    if isinstance(dim, int):
        return dim < 0
    return False if all(factor > 0 for _, factor in dim.terms) else None


def _where(site: Site) -> Elements:
    condition, left, right = (site.elements(i) for i in range(3))
    length = max(map(len, (condition, left, right)))
    if any(len(e) not in (1, length) for e in (condition, left, right)):
        raise NotInferableError
    rows = zip(*(e * (length // len(e)) for e in (condition, left, right)), strict=True)
    found: list[Element] = []
    for chosen, one, other in rows:
        if isinstance(chosen, (bool, int)):
            found.append(one if chosen else other)
        else:
            found.append(one if one == other else None)
    return tuple(found)


def _unary(on_int: Callable[[Dim], Dim | None], on_float: Callable[[float], float]):
    def rule(site: Site) -> Elements:
        return tuple(
            None if e is None else on_float(e) if isinstance(e, float) else on_int(e)
            for e in site.elements(0)
        )

    return rule


def _absolute(element: Dim) -> Dim | None:
    return abs(element) if isinstance(element, int) else None


RULES: dict[str, Callable[[Site], Elements]] = {
    "Abs": _unary(_absolute, abs),
    "Add": _pairwise(add, lambda a, b: a + b),
    "Cast": _cast,
    "Ceil": _unary(lambda e: e, lambda e: float(math.ceil(e))),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _pairwise(_divided, lambda a, b: a / b if b else None),
    "Equal": _pairwise(_equal, lambda a, b: float(a == b)),
    "Expand": _same,
    "Floor": _unary(lambda e: e, lambda e: float(math.floor(e))),
    "Gather": _gather,
    "Identity": _same,
    "Max": _pairwise(largest, max),
    "Min": _pairwise(smallest, min),
    "Mul": _pairwise(multiply, lambda a, b: a * b),
    "Neg": _unary(lambda e: multiply(e, -1), lambda e: -e),
    "Range": _range,
    "ReduceMax": _reduce(_highest),
    "ReduceMin": _reduce(_lowest),
    "ReduceProd": _reduce(dims_product),
    "ReduceSum": _reduce(_summed),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _same,
    "Sub": _pairwise(subtract, lambda a, b: a - b),
    "Unsqueeze": _same,
    "Where": _where,
}
"""Ops through which elements are followed. Outputs of other rank or count are dropped again."""
