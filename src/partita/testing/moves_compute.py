"""The moves of the random generator that do arithmetic over many elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from partita.testing.draft import (
    FLOAT,
    INT64,
    LARGEST_SIZE,
    LARGEST_VALUE,
    NUMBERS,
    Draft,
    Drawn,
)
from partita.testing.moves import Move, solid


def _image(draft: Draft) -> Drawn | None:
    return draft.pick(lambda d: d.dtype == FLOAT and d.rank == 4 and solid(d))


def _matmul(draft: Draft) -> bool:
    """Multiplies by a weight of its own, or by a value that happens to fit."""
    a = draft.pick(lambda d: d.dtype == FLOAT and d.rank >= 2 and d.sizes[-1] > 0)
    if a is None:
        return False
    inner = a.sizes[-1]
    b = draft.pick(
        lambda d: (
            d.dtype == FLOAT
            and d.rank == 2
            and d.sizes[0] == inner
            and d.bound * a.bound * inner <= LARGEST_VALUE
        )
    )
    if b is None or draft.rng.random() < 0.6:
        b = draft.weight((inner, draft.rng.randrange(1, 6)), 1.0 / inner)
    sizes, bound = (*a.sizes[:-1], b.sizes[1]), a.bound * b.bound * inner
    if math.prod(sizes) > LARGEST_SIZE or bound > LARGEST_VALUE:
        return False
    draft.node("MatMul", [a, b], [(FLOAT, sizes, bound, False)])
    return True


def _gemm(draft: Draft) -> bool:
    a = draft.pick(lambda d: d.dtype == FLOAT and d.rank == 2 and solid(d))
    if a is None:
        return False
    turned_a, turned_b = draft.rng.random() < 0.3, draft.rng.random() < 0.5
    rows, inner = a.sizes[::-1] if turned_a else a.sizes
    columns = draft.rng.randrange(1, 6)
    b = draft.weight((columns, inner) if turned_b else (inner, columns), 1.0 / inner)
    c = draft.weight(draft.rng.choice(((columns,), (1, columns), (rows, columns), ())))
    alpha, beta = draft.rng.choice(((1.0, 1.0), (0.5, 2.0)))
    bound = a.bound + 2
    if bound > LARGEST_VALUE:
        return False
    attributes: Mapping[str, Any] = {
        "transA": int(turned_a),
        "transB": int(turned_b),
        "alpha": alpha,
        "beta": beta,
    }
    inputs = [a, b, c] if draft.rng.random() < 0.7 else [a, b]
    draft.node("Gemm", inputs, [(FLOAT, (rows, columns), bound, False)], attributes)
    return True


def _window(
    draft: Draft, x: Drawn, pads: Sequence[int]
) -> tuple[list[int], list[int], list[int]] | None:
    """Draws a kernel and strides for an image; returns them with the output's height and width."""
    kernel = [draft.rng.choice((1, 2, 3)) for _ in range(2)]
    strides = [draft.rng.choice((1, 1, 2)) for _ in range(2)]
    padded = [x.sizes[2 + i] + pads[i] + pads[2 + i] for i in range(2)]
    if any(p < k for p, k in zip(padded, kernel, strict=True)):
        return None
    sizes = [(p - k) // s + 1 for p, k, s in zip(padded, kernel, strides, strict=True)]
    return kernel, strides, sizes


def _conv(draft: Draft) -> bool:
    x = _image(draft)
    if x is None:
        return False
    pads = [draft.rng.choice((0, 1)) for _ in range(4)]
    window = _window(draft, x, pads)
    if window is None:
        return False
    kernel, strides, sizes = window
    channels = x.sizes[1]
    groups = channels if draft.rng.random() < 0.3 else 1
    filters = groups * draft.rng.choice((1, 2))
    inner = channels // groups * math.prod(kernel)
    inputs = [x, draft.weight((filters, channels // groups, *kernel), 1.0 / inner)]
    if draft.rng.random() < 0.6:
        inputs.append(draft.weight((filters,)))
    shape, bound = (x.sizes[0], filters, *sizes), x.bound + 1
    if math.prod(shape) > LARGEST_SIZE or bound > LARGEST_VALUE:
        return False
    attributes: Mapping[str, Any] = {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": pads,
        "group": groups,
    }
    draft.node("Conv", inputs, [(FLOAT, shape, bound, False)], attributes)
    return True


def _pool(op_type: str) -> Move:
    def move(draft: Draft) -> bool:
        x = _image(draft)
        if x is None:
            return False
        window = _window(draft, x, (0, 0, 0, 0))
        if window is None:
            return False
        kernel, strides, sizes = window
        output = (FLOAT, (*x.sizes[:2], *sizes), x.bound, x.exact and op_type == "MaxPool")
        draft.node(op_type, [x], [output], {"kernel_shape": kernel, "strides": strides})
        return True

    return move


def _global_pool(op_type: str) -> Move:
    def move(draft: Draft) -> bool:
        x = _image(draft)
        if x is None:
            return False
        output = (FLOAT, (*x.sizes[:2], 1, 1), x.bound, x.exact and op_type == "GlobalMaxPool")
        draft.node(op_type, [x], [output])
        return True

    return move


def _reduced(draft: Draft, x: Drawn) -> tuple[list[int], bool, tuple[int, ...], int]:
    """Draws axes to reduce; returns them, whether they are kept, the sizes and the fan-in."""
    axes = sorted(draft.rng.sample(range(x.rank), draft.rng.randrange(1, x.rank + 1)))
    keep = draft.rng.random() < 0.5
    sizes = tuple(1 if i in axes else s for i, s in enumerate(x.sizes) if keep or i not in axes)
    return axes, keep, sizes, math.prod(x.sizes[i] for i in axes)


def _reduction(
    op_type: str, bound: Callable[[float, int], float], keeps: bool, axes_are_attribute: bool
) -> Move:
    """A row for a reduction; in opset 18 all of them but ArgMax take axes as an input."""

    def move(draft: Draft) -> bool:
        x = draft.pick(lambda d: d.dtype in NUMBERS and d.rank >= 1 and solid(d))
        if x is None or (op_type in ("ReduceMean", "ReduceL2") and x.dtype != FLOAT):
            return False
        axes, keep, sizes, count = _reduced(draft, x)
        largest = bound(x.bound, count)
        if largest > LARGEST_VALUE:
            return False
        exact = x.exact and (keeps or x.dtype != FLOAT)
        attributes: dict[str, Any] = {"keepdims": int(keep)}
        inputs = [x]
        if axes_are_attribute:
            attributes["axes"] = axes
        elif len(axes) < x.rank or draft.rng.random() < 0.5:
            inputs.append(draft.integers(*(a - x.rank if a % 2 else a for a in axes)))
        draft.node(op_type, inputs, [(x.dtype, sizes, largest, exact)], attributes)
        return True

    return move


def _arg(op_type: str) -> Move:
    def move(draft: Draft) -> bool:
        x = draft.pick(lambda d: d.dtype in NUMBERS and d.rank >= 1 and d.exact and solid(d))
        if x is None or INT64 not in draft.dtypes:
            return False
        axis, keep = draft.rng.randrange(x.rank), draft.rng.randrange(2)
        sizes = [1 if i == axis else s for i, s in enumerate(x.sizes) if keep or i != axis]
        output = (INT64, sizes, float(x.sizes[axis]), True)
        draft.node(op_type, [x], [output], {"axis": axis, "keepdims": keep})
        return True

    return move


def _einsum(draft: Draft) -> bool:
    a = draft.pick(lambda d: d.dtype == FLOAT and d.rank == 2 and solid(d))
    if a is None or a.bound + 1 > LARGEST_VALUE:
        return False
    b = draft.weight((3, a.sizes[1]), 1.0 / a.sizes[1])
    output = (FLOAT, (3, a.sizes[0]), a.bound, False)
    draft.node("Einsum", [a, b], [output], {"equation": "ij,kj->ki"})
    return True


def _space(draft: Draft) -> bool:
    x = draft.pick(
        lambda d: (
            d.dtype == FLOAT
            and d.rank == 4
            and solid(d)
            and d.sizes[2] % 2 == 0
            and d.sizes[3] % 2 == 0
        )
    )
    if x is None:
        return False
    n, c, h, w = x.sizes
    output = (FLOAT, (n, 4 * c, h // 2, w // 2), x.bound, x.exact)
    draft.node("SpaceToDepth", [x], [output], {"blocksize": 2})
    return True


def _constant_weights(draft: Draft) -> bool:
    """A node that reads weights alone: computed once, wherever it lands."""
    a = draft.weight((2, 3))
    draft.node("Mul", [a, draft.constant(np.array(0.5, np.float32))], [(FLOAT, (2, 3), 1, True)])
    return True


COMPUTE: Mapping[str, Move] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "MaxPool": _pool("MaxPool"),
    "AveragePool": _pool("AveragePool"),
    "GlobalAveragePool": _global_pool("GlobalAveragePool"),
    "GlobalMaxPool": _global_pool("GlobalMaxPool"),
    "ReduceSum": _reduction("ReduceSum", lambda b, n: b * n, False, False),
    "ReduceMean": _reduction("ReduceMean", lambda b, n: b, False, False),
    "ReduceMax": _reduction("ReduceMax", lambda b, n: b, True, False),
    "ReduceMin": _reduction("ReduceMin", lambda b, n: b, True, False),
    "ReduceL2": _reduction("ReduceL2", lambda b, n: b * math.sqrt(n), False, False),
    "ArgMax": _arg("ArgMax"),
    "ArgMin": _arg("ArgMin"),
    "Einsum": _einsum,
    "SpaceToDepth": _space,
}
"""Moves that contract, pool or reduce."""

LONELY: Move = _constant_weights
"""A move without an operand, for a draft that has none to offer."""
