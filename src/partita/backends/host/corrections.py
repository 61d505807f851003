# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""Ops that ONNX's reference evaluator lacks, or computes otherwise than ONNX defines them.

Each row says what is wrong without it. Found by comparing with ONNX Runtime on shapes that ONNX's
own tests do not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Node
from partita.backends.host.elementwise import FLOATS, quiet
from partita.backends.kernels import KernelTable

Function = Callable[..., Any]
ML = "ai.onnx.ml"


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    table.kernel("LogSoftmax", since=13, dtypes=FLOATS)(_log_softmax)
    table.kernel("Erf", dtypes=FLOATS)(lambda node: quiet(_erf))
    table.kernel("LRN", dtypes=FLOATS)(_normalise_across_channels)
    table.kernel("LpNormalization", dtypes=FLOATS)(_normalise_by_norm)
    table.kernel("GlobalLpPool", since=2, dtypes=FLOATS)(_global_norm)
    table.kernel("OneHot")(_one_hot)
    table.kernel("MaxRoiPool", dtypes=FLOATS)(_max_of_boxes)
    table.kernel("Multinomial", dtypes=FLOATS)(_sample)
    table.kernel("Optional", "OptionalGetElement")(lambda node: _held)
    table.kernel("OptionalHasElement")(lambda node: _holds)
    table.kernel("CategoryMapper", domain=ML)(_map_categories)
    table.kernel("ZipMap", domain=ML)(_zip_map)
    table.kernel("CastMap", domain=ML)(_cast_map)


def _log_softmax(node: Node) -> Function:
    """The evaluator takes the logarithm of a rounded softmax: -inf from about -100 on."""
    axis = node.attributes.get_int("axis", -1)
    return quiet(lambda x: stable_log_softmax(x, axis).astype(x.dtype))


def stable_log_softmax(x: Array, axis: int) -> Array:
    """Returns the logarithm of the softmax along ``axis``."""
    if not x.size:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _erf(x: Array) -> Array:
    """The evaluator rounds float64 to float32, and calls Python once an element."""
    # imported late: importing partita stays light
    from scipy import special  # pyright: ignore[reportMissingTypeStubs]

    return special.erf(x).astype(x.dtype)


def _normalise_across_channels(node: Node) -> Function:
    """The evaluator takes the batch size for the number of channels, and four dimensions only."""
    size = node.attributes.get_int("size", 1)
    alpha = np.float32(node.attributes.get_float("alpha", 1e-4))
    beta = np.float32(node.attributes.get_float("beta", 0.75))
    bias = np.float32(node.attributes.get_float("bias", 1.0))
    below, above = (size - 1) // 2, size // 2

    def run(x: Array) -> Array:
        squares, channels = x * x, x.shape[1]
        total = np.zeros_like(x)
        for c in range(channels):
            total[:, c] = squares[:, max(0, c - below) : min(channels, c + above + 1)].sum(axis=1)
        return (x / (bias + alpha / size * total) ** beta).astype(x.dtype)

    return quiet(run)


def _normalise_by_norm(node: Node) -> Function:
    """The evaluator sums signed values for odd ``p``."""
    axis, p = node.attributes.get_int("axis", -1), node.attributes.get_int("p", 2)

    def run(x: Array) -> Array:
        norm = _norm(x, p, (axis,))
        return np.where(norm == 0, 0, x / norm).astype(x.dtype)

    return quiet(run)


def _global_norm(node: Node) -> Function:
    p = node.attributes.get_int("p", 2)
    return quiet(lambda x: _norm(x, p, tuple(range(2, x.ndim))).astype(x.dtype))


def _norm(x: Array, p: int, axes: tuple[int, ...]) -> Array:
    return (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1.0 / p)


def _one_hot(node: Node) -> Function:
    """The evaluator multiplies by the values (NaN for infinite ones) and wants a scalar depth."""
    axis = node.attributes.get_int("axis", -1)

    def run(indices: Array, depth: Array, values: Array) -> Array:
        count = int(depth.item())
        place = axis if axis >= 0 else axis + indices.ndim + 1
        shape = [1] * (indices.ndim + 1)
        shape[place] = count
        wrapped = np.expand_dims(np.where(indices < 0, indices + count, indices), place)
        return np.where(np.arange(count).reshape(shape) == wrapped, values[1], values[0]).astype(
            values.dtype
        )

    return quiet(run)


def _max_of_boxes(node: Node) -> Function:
    rows, columns = node.attributes.get_ints("pooled_shape") or (1, 1)
    scale = np.float32(node.attributes.get_float("spatial_scale", 1.0))

    def run(x: Array, boxes: Array) -> Array:
        result = np.zeros((len(boxes), x.shape[1], rows, columns), x.dtype)
        for box, into in zip(boxes, result, strict=True):
            image = x[int(box[0])]
            left, top, right, bottom = np.floor(box[1:] * scale + 0.5).astype(int).tolist()
            for r, (y0, y1) in enumerate(_bins(top, bottom, rows, image.shape[1])):
                for c, (x0, x1) in enumerate(_bins(left, right, columns, image.shape[2])):
                    part = image[:, y0:y1, x0:x1]
                    into[:, r, c] = part.max(axis=(1, 2)) if part.size else 0
        return result

    return quiet(run)


def _bins(first: int, last: int, count: int, limit: int) -> list[tuple[int, int]]:
    size = max(last - first + 1, 1) / count
    edges = [(int(np.floor(i * size)), int(np.ceil((i + 1) * size))) for i in range(count)]
    return [tuple(min(max(e + first, 0), limit) for e in pair) for pair in edges]  # pyright: ignore[reportReturnType]


def _sample(node: Node) -> Function:
    count = node.attributes.get_int("sample_size", 1)
    dtype = ir.DataType(node.attributes.get_int("dtype", ir.DataType.INT32.value)).numpy()
    seed = node.attributes.get_float("seed")

    def run(logits: Array) -> Array:
        random = np.random.default_rng(None if seed is None else abs(int(seed)))
        weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        bounds = np.cumsum(weights, axis=1)
        drawn = random.uniform(size=(len(logits), count)) * bounds[:, -1:]
        picked = [np.searchsorted(b, d, side="right") for b, d in zip(bounds, drawn, strict=True)]
        return np.stack(picked).astype(dtype)

    return quiet(run)


def _held(x: Any = None) -> Any:
    """An optional is its value or ``None``; the evaluator wraps it in a list."""
    return x


def _holds(x: Any = None) -> Array:
    return np.array(x is not None)


def _map_categories(node: Node) -> Function:
    numbers = list(node.attributes.get_ints("cats_int64s") or ())
    words = list(node.attributes.get_strings("cats_strings") or ())
    unknown_number = node.attributes.get_int("default_int64", -1)
    unknown_word = node.attributes.get_string("default_string", "_Unused")

    def run(x: Array) -> Array:
        if x.dtype.kind in "OU":
            found = dict(zip(words, numbers, strict=True))
            mapped: list[Any] = [
                found.get(_text(v), unknown_number) for v in x.reshape(-1).tolist()
            ]
            return np.array(mapped, np.int64).reshape(x.shape)
        names = dict(zip(numbers, words, strict=True))
        mapped = [names.get(v, unknown_word) for v in x.reshape(-1).tolist()]
        return np.array(mapped, object).reshape(x.shape)

    return run


def _zip_map(node: Node) -> Function:
    words, numbers = (
        node.attributes.get_strings("classlabels_strings"),
        node.attributes.get_ints("classlabels_int64s"),
    )
    labels = list(words or numbers or ())

    def run(x: Array) -> list[dict[Any, float]]:
        rows = x.reshape(1, -1) if x.ndim == 1 else x
        return [dict(zip(labels, row.tolist(), strict=True)) for row in rows]

    return run


def _cast_map(node: Node) -> Function:
    target = node.attributes.get_string("cast_to", "TO_FLOAT")
    sparse = node.attributes.get_string("map_form", "DENSE") == "SPARSE"
    length = node.attributes.get_int("max_map", 1)
    dtype: Any = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[target]

    def run(x: dict[int, Any]) -> Array:
        if not sparse:
            values = [x[key] for key in sorted(x)]
            return np.array([_converted(v, dtype) for v in values], dtype).reshape(1, -1)
        result = np.full((1, length), "" if dtype is object else 0, dtype)
        for key, value in x.items():
            result[0, key] = _converted(value, dtype)
        return result

    return run


def _converted(value: Any, dtype: Any) -> Any:
    return (
        str(value)
        if dtype is object
        else float(value)
        if dtype is np.float32
        else int(float(value))
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
