"""Ops that rearrange elements: reshape, cut, join, pick and pad."""

from __future__ import annotations

from collections.abc import Sequence

from partita.inferring.dims import (
    Dim,
    Dims,
    add,
    broadcast_shapes,
    divide,
    is_unknown,
    multiply,
    product,
    smallest,
    subtract,
    unknown,
)
from partita.inferring.site import Answer, Element, NotInferableError, Rule, Site, axis_of

_AXES_AS_INPUT = 13
_SLICE_INPUTS = 10
_PAD_INPUTS = 11
_FAR = 2**31 - 1
_LARGEST_RANK = 64


def dims_from(elements: Sequence[Element]) -> Dims:
    """Returns the shape that a shape tensor says; what is not known becomes an unknown.

    Raises:
        NotInferableError: There are too many elements for a shape.
    """
    if len(elements) > _LARGEST_RANK:
        raise NotInferableError
    return tuple(unknown() if e is None or isinstance(e, float) else e for e in elements)


def target(site: Site, index: int) -> Dims:
    """Returns what input ``index`` says as a shape; at least its rank."""
    try:
        return dims_from(site.elements(index))
    except NotInferableError:
        length = site.dims(index)
        if len(length) != 1 or not isinstance(length[0], int) or length[0] > _LARGEST_RANK:
            raise
        return tuple(unknown() for _ in range(length[0]))


def _reshape(site: Site) -> Answer:
    given = site.numbers("shape")
    wanted: Dims = given if given is not None else target(site, 1)
    dims = site.dims_if_known(0)
    zero_copies = site.number("allowzero", 0) == 0
    result: list[Dim] = []
    for index, dim in enumerate(wanted):
        if dim == 0 and zero_copies:
            dim = unknown() if dims is None or index >= len(dims) else dims[index]
        result.append(dim)
    if result.count(-1) > 1:
        raise NotInferableError
    if -1 in result:
        result[result.index(-1)] = _rest(dims, [dim for dim in result if dim != -1])
    elif dims is not None and sum(map(is_unknown, result)) == 1:
        place = next(i for i, dim in enumerate(result) if is_unknown(dim))
        result[place] = _rest(dims, result[:place] + result[place + 1 :])
    return [tuple(result)]


def _rest(dims: Dims | None, others: list[Dim]) -> Dim:
    if dims is None:
        return unknown()
    exact = divide(product(dims), product(others))
    return unknown() if exact is None else exact


def _flatten(site: Site) -> Answer:
    dims = site.dims(0)
    axis = site.number("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    if not 0 <= axis <= len(dims):
        raise NotInferableError
    return [(product(dims[:axis]), product(dims[axis:]))]


def _transpose(site: Site) -> Answer:
    dims = site.dims(0)
    order = site.numbers("perm") or tuple(reversed(range(len(dims))))
    if sorted(order) != list(range(len(dims))):
        raise NotInferableError
    return [tuple(dims[axis] for axis in order)]


def _axes(site: Site) -> tuple[int, ...] | None:
    if site.opset < _AXES_AS_INPUT:
        return site.numbers("axes")
    return site.integers(1) if site.has(1) else None


def _rank_of(dims: Dims, change: int) -> Answer:
    """Returns what is known when the axes are not: how many dimensions there are."""
    return [tuple(unknown() for _ in range(len(dims) + change))]


def _squeeze(site: Site) -> Answer:
    dims = site.dims(0)
    try:
        axes = _axes(site)
    except NotInferableError:
        return _rank_of(dims, -_length(site, 1))
    if axes is None:
        if not all(isinstance(dim, int) for dim in dims):
            raise NotInferableError
        return [tuple(dim for dim in dims if dim != 1)]
    gone = {axis_of(axis, len(dims)) for axis in axes}
    return [tuple(dim for i, dim in enumerate(dims) if i not in gone)]


def _unsqueeze(site: Site) -> Answer:
    dims = site.dims(0)
    try:
        axes = _axes(site)
    except NotInferableError:
        return _rank_of(dims, _length(site, 1))
    if axes is None:
        raise NotInferableError
    rank = len(dims) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise NotInferableError
    rest = iter(dims)
    return [tuple(1 if i in new else next(rest) for i in range(rank))]


def _concat(site: Site) -> Answer:
    shapes = [site.dims(i) for i in range(len(site.node.inputs))]
    axis = axis_of(site.number("axis", 1), len(shapes[0]))
    result = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(result):
            raise NotInferableError
        for i, dim in enumerate(shape):
            if i == axis:
                result[i] = add(result[i], dim)
            elif is_unknown(result[i]) or (isinstance(dim, int) and dim != result[i]):
                result[i] = dim if not isinstance(result[i], int) else unknown()
    return [tuple(result)]


def _split(site: Site) -> Answer:
    dims, count = site.dims(0), len(site.node.outputs)
    axis = axis_of(site.number("axis", 0), len(dims))
    sizes: Sequence[Element] | None = site.numbers("split")
    if site.has(1):
        try:
            sizes = site.elements(1)
        except NotInferableError:
            sizes = [None] * count
    if sizes is None:
        sizes = _even_parts(dims[axis], site.number("num_outputs", 0), count)
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in dims_from(sizes)]


def _even_parts(size: Dim, parts: int, outputs: int) -> list[Element]:
    exact = divide(size, outputs)
    if exact is not None:
        return [exact] * outputs
    if not isinstance(size, int) or parts != outputs:
        return [None] * outputs
    each = -(-size // parts)
    return [max(0, min(each, size - i * each)) for i in range(parts)]


def _slice(site: Site) -> Answer:
    dims = list(site.dims(0))
    if site.opset < _SLICE_INPUTS:
        starts: Sequence[Element] = site.numbers("starts") or ()
        ends: Sequence[Element] = site.numbers("ends") or ()
        axes = site.numbers("axes") or tuple(range(len(starts)))
        steps: Sequence[Element] = (1,) * len(starts)
    else:
        try:
            axes = site.integers(3) if site.has(3) else tuple(range(_length(site, 1)))
        except NotInferableError:
            return [tuple(unknown() for _ in dims)]
        starts = site.elements_or_none(1, len(axes))
        ends = site.elements_or_none(2, len(axes))
        steps = site.elements_or_none(4, len(axes)) if site.has(4) else (1,) * len(axes)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index = axis_of(axis, len(dims))
        dims[index] = sliced(dims[index], start, end, step)
    return [tuple(dims)]


def _length(site: Site, index: int) -> int:
    (length,) = site.dims(index)
    if not isinstance(length, int) or length > _LARGEST_RANK:
        raise NotInferableError
    return length


def sliced(size: Dim, start: Element, end: Element, step: Element) -> Dim:
    """Returns how many elements ``[start:end:step]`` takes of ``size``, by numpy's rules."""
    if isinstance(start, float) or isinstance(end, float) or not isinstance(step, int):
        return unknown()
    if start is None or end is None or step == 0:
        return unknown()
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(range(*slice(start, end, step).indices(size)))
    if step == -1 and start == -1 and isinstance(end, int) and end <= -_FAR:
        return size
    if step != 1 or not isinstance(start, int):
        return unknown()
    if end == size or (isinstance(end, int) and end >= _FAR):
        # Fewer than ``start`` elements would give none; nobody exports that.
        return subtract(size, start) if start >= 0 else smallest(size, -start)
    if isinstance(end, int) and end < 0 <= start:
        return subtract(size, start - end)
    return smallest(size, end) if start == 0 and end != 0 else unknown()


def _gather(site: Site) -> Answer:
    dims, indices = site.dims(0), site.dims(1)
    axis = axis_of(site.number("axis", 0), len(dims))
    return [(*dims[:axis], *indices, *dims[axis + 1 :])]


def _gather_elements(site: Site) -> Answer:
    return [site.dims(1)]


def _gather_nd(site: Site) -> Answer:
    dims, indices = site.dims(0), site.dims(1)
    batch, depth = site.number("batch_dims", 0), indices[-1]
    if not isinstance(depth, int) or batch < 0 or not 1 <= depth <= len(dims) - batch:
        raise NotInferableError
    return [(*indices[:-1], *dims[batch + depth :])]


def _pad(site: Site) -> Answer:
    dims = list(site.dims(0))
    axes = tuple(range(len(dims)))
    if site.opset < _PAD_INPUTS:
        pads: Sequence[Element] = site.numbers("pads") or site.numbers("paddings") or ()
    else:
        axes = site.integers(3) if site.has(3) else axes
        pads = site.elements_or_none(1, 2 * len(axes))
    if len(pads) != 2 * len(axes):
        raise NotInferableError
    for position, axis in enumerate(axes):
        index = axis_of(axis, len(dims))
        before, after = pads[position], pads[position + len(axes)]
        if isinstance(before, (float, type(None))) or isinstance(after, (float, type(None))):
            dims[index] = unknown()
        else:
            dims[index] = add(add(dims[index], before), after)
    return [tuple(dims)]


def _tile(site: Site) -> Answer:
    dims = site.dims(0)
    repeats = dims_from(site.elements_or_none(1, len(dims)))
    return [tuple(multiply(a, b) for a, b in zip(dims, repeats, strict=True))]


def _expand(site: Site) -> Answer:
    return [broadcast_shapes((site.dims(0), target(site, 1)))]


def _depth_to_space(site: Site) -> Answer:
    batch, channels, height, width = site.dims(0)
    block = site.number("blocksize", 0)
    fewer = divide(channels, block * block)
    if block < 1 or fewer is None:
        raise NotInferableError
    return [(batch, fewer, multiply(height, block), multiply(width, block))]


def _space_to_depth(site: Site) -> Answer:
    batch, channels, height, width = site.dims(0)
    block = site.number("blocksize", 0)
    rows, columns = divide(height, block), divide(width, block)
    more = multiply(channels, block * block)
    if block < 1:
        raise NotInferableError
    return [(batch, more, rows or unknown(), columns or unknown())]


def _center_crop_pad(site: Site) -> Answer:
    dims = list(site.dims(0))
    axes = site.numbers("axes") or tuple(range(len(dims)))
    for axis, size in zip(axes, target(site, 1), strict=True):
        dims[axis_of(axis, len(dims))] = size
    return [tuple(dims)]


RULES: dict[str, Rule] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
