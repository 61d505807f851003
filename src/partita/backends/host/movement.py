# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""Ops that move elements about, in numpy. Results may be views of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partita.backends.contract import Array, Node
from partita.backends.kernels import KernelTable

Function = Callable[..., Any]


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    table.kernel("Identity", since=1)(lambda node: _same)
    table.kernel("Reshape", since=5)(_reshape)
    table.kernel("Transpose")(_transpose)
    table.kernel("Flatten")(_flatten)
    table.kernel("Squeeze", since=13)(lambda node: _squeeze)
    table.kernel("Unsqueeze", since=13)(lambda node: _unsqueeze)
    table.kernel("Squeeze", since=1, until=12)(_squeeze_attribute)
    table.kernel("Unsqueeze", since=1, until=12)(_unsqueeze_attribute)
    table.kernel("Concat", since=4)(_concat)
    table.kernel("Gather", since=1)(_gather)
    table.kernel("GatherElements", since=11)(_gather_elements)
    table.kernel("Slice", since=10)(lambda node: _slice)
    table.kernel("Expand", since=8)(lambda node: _expand)
    table.kernel("Shape", since=1)(_shape)
    table.kernel("Size", since=1)(lambda node: _size)
    table.kernel("Split", since=13)(_split)
    table.kernel("Tile", since=6)(lambda node: np.tile)


def _same(x: Any) -> Any:
    return x


def _reshape(node: Node) -> Function:
    keeps_zeros = bool(node.attributes.get_int("allowzero", 0))

    def run(x: Array, shape: Array) -> Array:
        sizes = shape.tolist()
        if not keeps_zeros:
            sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
        return x.reshape(sizes)

    return run


def _transpose(node: Node) -> Function:
    order = node.attributes.get_ints("perm")
    return lambda x: np.transpose(x, order or None)


def _flatten(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 1)

    def run(x: Array) -> Array:
        rows = int(np.prod(x.shape[:axis])) if axis else 1
        return x.reshape(rows, int(np.prod(x.shape[axis:])) if axis else x.size)

    return run


def _squeeze(x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x) if axes is None else np.squeeze(x, _axes(axes))


def _unsqueeze(x: Array, axes: Array) -> Array:
    return np.expand_dims(x, _axes(axes))


def _squeeze_attribute(node: Node) -> Function:
    axes = node.attributes.get_ints("axes")
    return lambda x: np.squeeze(x, tuple(axes) if axes else None)


def _unsqueeze_attribute(node: Node) -> Function:
    axes = tuple(node.attributes.get_ints("axes") or ())
    return lambda x: np.expand_dims(x, axes)


def _concat(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 0)
    return lambda *arrays: np.concatenate(arrays, axis)


def _gather(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 0)
    return lambda x, indices: np.asarray(np.take(x, indices, axis=axis))


def _gather_elements(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 0)

    def run(x: Array, indices: Array) -> Array:
        where: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
        where[axis] = indices
        return x[tuple(where)]

    return run


def _slice(
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    first, last = starts.reshape(-1).tolist(), ends.reshape(-1).tolist()
    along = range(len(first)) if axes is None else axes.reshape(-1).tolist()
    stride = [1] * len(first) if steps is None else steps.reshape(-1).tolist()
    cut: list[Any] = [slice(None)] * x.ndim
    for begin, end, axis, step in zip(first, last, along, stride, strict=True):
        cut[axis] = slice(begin, end, step)
    return x[tuple(cut)]


def _expand(x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))).copy()


def _shape(node: Node) -> Function:
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end")
    return lambda x: np.array(x.shape[slice(start, end)], np.int64)


def _size(x: Array) -> Array:
    return np.array(x.size, np.int64)


def _split(node: Node) -> Function:
    axis, pieces = node.attributes.get_int("axis", 0), len(node.outputs)

    def run(x: Array, lengths: Array | None = None) -> Sequence[Array]:
        if lengths is None:
            size = -(-x.shape[axis] // pieces)
            bounds = [min(size * i, x.shape[axis]) for i in range(1, pieces)]
        else:
            bounds = np.cumsum(lengths)[:-1].tolist()
        return tuple(np.split(x, bounds, axis))

    return run


def _axes(axes: Array) -> tuple[int, ...]:
    return tuple(axes.reshape(-1).tolist())
