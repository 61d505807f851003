"""Convolutions, pools and resampling: ops that slide a window or sample a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from partita.inferring.dims import (
    Dim,
    Dims,
    add,
    ceil_divide,
    divide,
    floor_divide,
    multiply,
    product,
    subtract,
    unknown,
)
from partita.inferring.rules.movement import dims_from, target
from partita.inferring.site import Answer, Element, NotInferableError, Rule, Site, axis_of

_DROPS_WINDOWS_BEHIND_THE_END = 22
_RESIZE_WITH_ROI = 11
_UPSAMPLE_WITH_INPUT = 9


def window_count(site: Site, spatial: Dims, kernel: Dims) -> Dims:
    """Returns how many windows of size ``kernel`` fit along each spatial axis.

    Source: the formulas of https://onnx.ai/onnx/operators/onnx__MaxPool.html.
    """
    rank = len(spatial)
    strides = _listed(site, "strides", rank, 1)
    dilations = _listed(site, "dilations", rank, 1)
    pads = _listed(site, "pads", 2 * rank, 0)
    padding = site.text("auto_pad", "NOTSET")
    counts: list[Dim] = []
    for i in range(rank):
        if strides[i] < 1:
            raise NotInferableError
        if padding in ("SAME_UPPER", "SAME_LOWER"):
            counts.append(ceil_divide(spatial[i], strides[i]))
            continue
        reach = add(multiply(subtract(kernel[i], 1), dilations[i]), 1)
        before, after = (0, 0) if padding == "VALID" else (pads[i], pads[rank + i])
        room = subtract(add(spatial[i], before + after), reach)
        rounded_up = site.number("ceil_mode", 0) == 1 and padding == "NOTSET"
        count = add(floor_divide(room, strides[i]), 1)
        if rounded_up:
            count = _rounded_up(site, room, strides[i], add(spatial[i], before))
        counts.append(count)
    return tuple(counts)


def _rounded_up(site: Site, room: Dim, stride: int, end: Dim) -> Dim:
    up = add(ceil_divide(room, stride), 1)
    if up == add(floor_divide(room, stride), 1):
        return up
    if not isinstance(up, int) or not isinstance(end, int):
        return unknown()
    if (up - 1) * stride < end:
        return up
    # A window that would start behind the end: dropped since opset 22, left to engines before.
    return up - 1 if site.opset >= _DROPS_WINDOWS_BEHIND_THE_END else unknown()


def _listed(site: Site, name: str, length: int, default: int) -> tuple[int, ...]:
    found = site.numbers(name)
    if not found:
        return (default,) * length
    if len(found) != length:
        raise NotInferableError
    return found


def _kernel(site: Site, weights: Dims | None) -> Dims:
    given = site.numbers("kernel_shape")
    if given:
        return given
    if weights is None:
        raise NotInferableError
    return weights[2:]


def _convolution(weight_input: int) -> Rule:
    def rule(site: Site) -> Answer:
        dims, weights = site.dims(0), site.dims(weight_input)
        kernel = _kernel(site, weights)
        if len(dims) < 3 or len(kernel) != len(dims) - 2:
            raise NotInferableError
        return [(dims[0], weights[0], *window_count(site, dims[2:], kernel))]

    return rule


def _pool(site: Site) -> Answer:
    dims = site.dims(0)
    kernel = _kernel(site, None)
    if len(dims) < 3 or len(kernel) != len(dims) - 2:
        raise NotInferableError
    return [(*dims[:2], *window_count(site, dims[2:], kernel))] * 2


def _global_pool(site: Site) -> Answer:
    dims = site.dims(0)
    if len(dims) < 2:
        raise NotInferableError
    return [(*dims[:2], *(1 for _ in dims[2:]))]


def _conv_transpose(site: Site) -> Answer:
    dims, weights = site.dims(0), site.dims(1)
    kernel = _kernel(site, weights)
    rank = len(dims) - 2
    if rank < 1 or len(kernel) != rank or len(weights) < 2:
        raise NotInferableError
    channels = multiply(weights[1], site.number("group", 1))
    given = site.numbers("output_shape")
    if given:
        return [(dims[0], channels, *given[-rank:])]
    extra = _listed(site, "output_padding", rank, 0)
    return [(dims[0], channels, *_stretched(site, dims[2:], kernel, extra))]


def _stretched(site: Site, spatial: Dims, kernel: Dims, extra: tuple[int, ...]) -> Dims:
    rank = len(spatial)
    strides = _listed(site, "strides", rank, 1)
    dilations = _listed(site, "dilations", rank, 1)
    pads = _listed(site, "pads", 2 * rank, 0)
    padding = site.text("auto_pad", "NOTSET")
    sizes: list[Dim] = []
    for i in range(rank):
        if padding in ("SAME_UPPER", "SAME_LOWER"):
            sizes.append(multiply(spatial[i], strides[i]))
            continue
        around = 0 if padding == "VALID" else pads[i] + pads[rank + i]
        reach = add(multiply(subtract(kernel[i], 1), dilations[i]), 1 + extra[i] - around)
        sizes.append(add(multiply(subtract(spatial[i], 1), strides[i]), reach))
    return tuple(sizes)


def _max_unpool(site: Site) -> Answer:
    dims = site.dims(0)
    if site.has(2):
        return [site.integers(2)]
    kernel = _kernel(site, None)
    if len(kernel) != len(dims) - 2:
        raise NotInferableError
    return [(*dims[:2], *_stretched(site, dims[2:], kernel, (0,) * len(kernel)))]


def _max_roi_pool(site: Site) -> Answer:
    return [(site.dims(1)[0], site.dims(0)[1], *(site.numbers("pooled_shape") or ()))]


def _roi_align(site: Site) -> Answer:
    size = (site.number("output_height", 1), site.number("output_width", 1))
    return [(site.dims(1)[0], site.dims(0)[1], *size)]


def _columns_to_image(site: Site) -> Answer:
    dims, image, block = site.dims(0), target(site, 1), target(site, 2)
    channels = divide(dims[1], product(block))
    return [(dims[0], unknown() if channels is None else channels, *image)]


def _grid_sample(site: Site) -> Answer:
    dims, grid = site.dims(0), site.dims(1)
    return [(dims[0], dims[1], *grid[1:-1])]


def _affine_grid(site: Site) -> Answer:
    batch, axes, _ = site.dims(0)
    if not isinstance(axes, int):
        raise NotInferableError
    return [(batch, *target(site, 1)[2:], axes)]


def _resize(site: Site) -> Answer:
    dims = site.dims(0)
    later = site.opset >= _RESIZE_WITH_ROI
    axes = site.numbers("axes") or tuple(range(len(dims)))
    positions = [axis_of(axis, len(dims)) for axis in axes]
    result = list(dims)
    if later and site.has(3):
        stretched = site.text("keep_aspect_ratio_policy", "stretch") == "stretch"
        sizes: Sequence[Dim] = [unknown()] * len(axes)
        if stretched:
            sizes = dims_from(site.elements_or_none(3, len(axes)))
    elif site.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        sizes = [unknown()] * len(axes)
    else:
        scales = site.elements_or_none(2 if later else 1, len(axes))
        sizes = [_scaled(dims[p], s) for p, s in zip(positions, scales, strict=True)]
    for position, size in zip(positions, sizes, strict=True):
        result[position] = size
    return [tuple(result)]


def _upsample(site: Site) -> Answer:
    dims = site.dims(0)
    if site.opset >= _UPSAMPLE_WITH_INPUT:
        scales = site.elements_or_none(1, len(dims))
    else:
        scales = tuple(site.node.attributes["scales"].as_floats())
    return [tuple(_scaled(dim, s) for dim, s in zip(dims, scales, strict=True))]


def _scaled(dim: Dim, scale: Element) -> Dim:
    if not isinstance(scale, (int, float)) or not math.isfinite(scale) or scale <= 0:
        return unknown()
    if isinstance(dim, int):
        if dim * scale > 2**40:
            raise NotInferableError
        exact = math.floor(dim * scale)
        # Engines multiply in float32; where that rounds differently, nobody can tell.
        return exact if math.floor(np.float32(dim) * np.float32(scale)) == exact else unknown()
    if float(scale).is_integer():
        return multiply(dim, int(scale))
    inverse = 1 / scale
    return floor_divide(dim, int(inverse)) if inverse.is_integer() else unknown()


RULES: dict[str, Rule] = {
    "AffineGrid": _affine_grid,
    "AveragePool": _pool,
    "Col2Im": _columns_to_image,
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _convolution(1),
    "GlobalAveragePool": _global_pool,
    "GlobalLpPool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GridSample": _grid_sample,
    "LpPool": _pool,
    "MaxPool": _pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
    "QLinearConv": _convolution(3),
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "Upsample": _upsample,
}
