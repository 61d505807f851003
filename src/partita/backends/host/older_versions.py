# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""Versions of ops from older operator sets, for which the reference evaluator uses a newer meaning.

Each row says what is wrong without it. Found by comparing with ONNX Runtime at every opset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Node
from partita.backends.host import reference
from partita.backends.host.corrections import stable_log_softmax
from partita.backends.host.elementwise import quiet
from partita.backends.kernels import KernelTable

Function = Callable[..., Any]


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    table.kernel("Softmax", since=1, until=12)(lambda node: _flattened(node, _softmax))
    table.kernel("LogSoftmax", since=1, until=12)(lambda node: _flattened(node, _log_softmax))
    table.kernel("Hardmax", since=1, until=12)(lambda node: _flattened(node, _hardmax))
    table.kernel("BatchNormalization", since=1, until=13, where=(_one_output,))(_normalise)
    table.kernel("GroupNormalization", since=18, until=20)(_normalise_groups)
    table.kernel("DequantizeLinear", since=10, until=18)(_dequantize)
    table.kernel("Reshape", since=1, until=4)(_reshape)
    table.kernel("Concat", since=1, until=3)(_concat)
    table.kernel("Split", since=1, until=1)(_split)
    table.kernel("Clip", since=1, until=10)(_clip)
    table.kernel("Scatter", since=9, until=10)(_scatter)
    table.kernel("Dropout", since=1, until=6)(lambda node: _undropped)
    table.kernel("Gemm", since=1, until=6)(_gemm)
    table.kernel("Upsample", since=7, until=8)(_upsample_attribute)
    table.kernel("Upsample", since=9, until=9)(_stretch)
    table.kernel("Resize", since=10, until=10)(_stretch)
    table.kernel("RoiAlign", since=10, until=15)(_align_boxes)
    table.kernel("GridSample", since=16, until=19)(_sample_grid)
    table.kernel("GridSample", since=20, where=(_border_and_cubic,))(
        lambda node: sample_cubic_border(node, attribute_values(node))
    )
    for op_type, function in _BROADCAST.items():
        table.kernel(op_type, since=1, until=6)(_aligned(function))


def _flattened(node: Node, function: Function) -> Function:
    """Before opset 13 everything from ``axis`` on is one dimension."""
    axis = node.attributes.get_int("axis", 1)

    def run(x: Array) -> Array:
        if not x.size:
            return x
        rows = int(np.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]))
        return function(x.reshape(rows, -1)).astype(x.dtype).reshape(x.shape)

    return quiet(run)


def _softmax(x: Array) -> Array:
    exponential = np.exp(x - x.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def _log_softmax(x: Array) -> Array:
    return stable_log_softmax(x, 1)


def _hardmax(x: Array) -> Array:
    result = np.zeros_like(x)
    result[np.arange(len(x)), np.argmax(x, axis=1)] = 1
    return result


def _one_output(node: Node) -> str | None:
    if len([v for v in node.outputs if v.name]) == 1:
        return None
    return "the BatchNormalization kernel computes inference: one output"


def _normalise(node: Node) -> Function:
    """The evaluator normalises by the batch, as if training."""
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))
    spatial = bool(node.attributes.get_int("spatial", 1))

    def run(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        shape = (-1,) + (1,) * (x.ndim - 2) if spatial else scale.shape
        scale, bias, mean, variance = (v.reshape(shape) for v in (scale, bias, mean, variance))
        return (scale * (x - mean) / np.sqrt(variance + epsilon) + bias).astype(x.dtype)

    return quiet(run)


def _normalise_groups(node: Node) -> Function:
    """Opset 18 to 20: scale and bias a group, not a channel."""
    groups = node.attributes.get_int("num_groups", 1)
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))

    def run(x: Array, scale: Array, bias: Array) -> Array:
        rows = x.reshape(x.shape[0], groups, -1)
        mean, variance = rows.mean(axis=2, keepdims=True), rows.var(axis=2, keepdims=True)
        scaled = (rows - mean) / np.sqrt(variance + epsilon) * scale[:, None] + bias[:, None]
        return scaled.astype(x.dtype).reshape(x.shape)

    return quiet(run)


def _dequantize(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 1)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        shape = [1] * x.ndim
        if scale.size > 1:
            shape[axis] = -1
        shift = 0 if zero_point is None else zero_point.astype(np.float32)
        if zero_point is not None:
            shift = np.reshape(shift, shape if zero_point.size > 1 else ())
        factor = scale.reshape(shape if scale.size > 1 else ())
        return ((x.astype(np.float32) - shift) * factor).astype(scale.dtype)

    return quiet(run)


def _reshape(node: Node) -> Function:
    sizes = list(node.attributes.get_ints("shape") or ())
    return lambda x: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(sizes)])


def _concat(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 1)
    return lambda *arrays: np.concatenate(arrays, axis)


def _split(node: Node) -> Function:
    axis, pieces = node.attributes.get_int("axis", 0), len(node.outputs)
    fixed = node.attributes.get_ints("split")

    def run(x: Array, lengths: Array | None = None) -> Sequence[Array]:
        sizes = fixed if lengths is None else lengths.tolist()
        bounds: Any = pieces if not sizes else np.cumsum(sizes)[:-1].tolist()
        return tuple(np.split(x, bounds, axis))

    return run


def _clip(node: Node) -> Function:
    low, high = node.attributes.get_float("min"), node.attributes.get_float("max")

    def run(x: Array) -> Array:
        if low is None and high is None:
            return x
        least, most = (None if b is None else np.asarray(b, x.dtype) for b in (low, high))
        return np.clip(x, least, most)

    return quiet(run)


def _scatter(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 0)

    def run(x: Array, indices: Array, updates: Array) -> Array:
        result = x.copy()
        where: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
        where[axis] = indices
        result[tuple(where)] = updates
        return result

    return run


def _undropped(x: Array) -> tuple[Array, Array]:
    return x, np.ones_like(x)


def _gemm(node: Node) -> Function:
    """The evaluator leaves out ``beta`` unless ``broadcast`` is set."""
    alpha, beta = node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)
    left, right = node.attributes.get_int("transA", 0), node.attributes.get_int("transB", 0)

    def run(a: Array, b: Array, c: Array) -> Array:
        product = np.dot(a.T if left else a, b.T if right else b)
        return (product * np.float32(alpha) + c * np.float32(beta)).astype(a.dtype)

    return quiet(run)


def _upsample_attribute(node: Node) -> Function:
    scales = np.array(node.attributes.get_floats("scales") or (), np.float32)
    stretch = _stretch(node)
    return lambda x: stretch(x, scales)


def _stretch(node: Node) -> Function:
    """Before opset 11: output pixel ``i`` lies at input pixel ``i / scale``."""
    if node.attributes.get_string("mode", "nearest") == "nearest":
        return _repeat
    attributes = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    sources = (node.inputs[0], None, ir.Value(name="scales", type=_FLOAT))
    newer = _today(node, "Resize", 13, sources, attributes)
    return lambda x, scales: newer(x, None, scales)


def _repeat(x: Array, scales: Array) -> Array:
    """Takes the nearest pixel: rounded down when growing, up when shrinking."""
    for axis, scale in enumerate(scales.tolist()):
        if scale == 1:
            continue
        places = np.arange(int(np.floor(x.shape[axis] * scale))) / np.float32(scale)
        rounded = np.floor(places) if scale > 1 else np.ceil(places)
        x = np.take(x, np.clip(rounded, 0, x.shape[axis] - 1).astype(int), axis)
    return x


def _align_boxes(node: Node) -> Function:
    """Before opset 16 boxes were not shifted by half a pixel."""
    attributes = {**attribute_values(node), "coordinate_transformation_mode": "output_half_pixel"}
    return _today(node, "RoiAlign", 16, node.inputs, attributes)


def _sample_grid(node: Node) -> Function:
    """Before opset 20 two modes had other names."""
    attributes = attribute_values(node)
    mode = attributes.get("mode", "bilinear")
    attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if attributes["mode"] == "cubic" and attributes.get("padding_mode") == "border":
        return sample_cubic_border(node, attributes)
    return _today(node, "GridSample", 20, node.inputs, attributes)


def _border_and_cubic(node: Node) -> str | None:
    modes = node.attributes.get_string("mode"), node.attributes.get_string("padding_mode")
    return None if modes == ("cubic", "border") else "the GridSample kernel takes cubic with border"


def sample_cubic_border(node: Node, attributes: Mapping[str, Any]) -> Function:
    """The evaluator clips the place itself, not the pixels around it.

    Three pixels beyond the edge every neighbour is the edge pixel, so a padded image and places
    clipped to it give the same values without a border mode.
    """
    aligned = bool(attributes.get("align_corners", 0))
    run = _today(node, "GridSample", 20, node.inputs, {**attributes, "padding_mode": "zeros"})
    margin = 6

    def call(x: Array, grid: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (margin, margin), (margin, margin)), "edge")
        places = np.empty_like(grid)
        for i, size in enumerate((x.shape[3], x.shape[2])):
            pixel = (
                (grid[..., i] + 1) * ((size - 1) / 2)
                if aligned
                else ((grid[..., i] + 1) * size - 1) / 2
            )
            pixel = np.clip(pixel, -3, size + 2) + margin
            wide = size + 2 * margin
            places[..., i] = pixel * 2 / (wide - 1) - 1 if aligned else (pixel * 2 + 1) / wide - 1
        return run(padded, places)

    return call


_FLOAT = ir.TensorType(ir.DataType.FLOAT)


def attribute_values(node: Node) -> dict[str, Any]:
    """Returns the values of a node's attributes by name."""
    return {key: attribute.value for key, attribute in node.attributes.items()}


def _today(
    node: Node,
    op_type: str,
    version: int,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, Any],
) -> Function:
    """Returns the call of a newer op that does the same; the node's own values are not touched."""
    copies = [None if v is None else ir.Value(name=v.name, type=v.type) for v in inputs]
    newer = ir.node(op_type, copies, attributes=dict(attributes), version=version, name=node.name)
    for value, original in zip(newer.outputs, node.outputs, strict=True):
        value.name, value.type = original.name, original.type
    run = reference.evaluated(newer)
    return lambda *arrays: run(*arrays)[0]


def _aligned(function: Function) -> Callable[[Node], Function]:
    """Before opset 7 the second operand is aligned at ``axis`` instead of at the end."""

    def emit(node: Node) -> Function:
        axis = node.attributes.get_int("axis")

        def run(a: Array, b: Array) -> Array:
            if axis is not None and b.ndim < a.ndim:
                start = axis if axis >= 0 else axis + a.ndim
                b = b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))
            result = np.asarray(function(a, b))
            return result if result.dtype == bool else result.astype(a.dtype)

        return quiet(run)

    return emit


def _divide(a: Array, b: Array) -> Array:
    return np.divide(a, b) if a.dtype.kind == "f" else np.trunc(a / b)


_BROADCAST: Mapping[str, Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Pow": np.power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
}
