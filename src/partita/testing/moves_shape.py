"""The moves of the random generator that move elements about: shapes, slices, joins, sorting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partita.testing.draft import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    LARGEST_SIZE,
    LARGEST_VALUE,
    NUMBERS,
    Draft,
    Drawn,
)
from partita.testing.moves import Move, solid


def _moved(
    draft: Draft, op_type: str, inputs: Sequence[Drawn | None], sizes: Sequence[int], **more: Any
) -> bool:
    """Adds a node that moves the elements of its first input into a tensor of ``sizes``."""
    x = inputs[0]
    if x is None or math.prod(sizes) > LARGEST_SIZE:
        return False
    rigid = more.pop("rigid", False)
    bound = max(d.bound for d in inputs if d is not None and d.dtype == x.dtype)
    exact = all(d.exact for d in inputs if d is not None)
    draft.node(op_type, inputs, [(x.dtype, sizes, bound, exact)], more, rigid=rigid)
    return True


def _transpose(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 2)
    if x is None:
        return False
    if draft.rng.random() < 0.3:
        return _moved(draft, "Transpose", [x], x.sizes[::-1])
    order = draft.rng.sample(range(x.rank), x.rank)
    return _moved(draft, "Transpose", [x], [x.sizes[i] for i in order], perm=order)


def _targets(sizes: Sequence[int]) -> list[list[int]]:
    """Returns other shapes of as many elements."""
    count = math.prod(sizes)
    found = [[count], [1, count], [*sizes, 1]]
    found.extend([[a, count // a] for a in range(2, 9) if count and count % a == 0])
    found.extend([[2, a, count // a // 2] for a in (2, 3) if count and count % (2 * a) == 0])
    return found


def _reshape(draft: Draft) -> bool:
    x = draft.pick(lambda d: True)
    if x is None:
        return False
    sizes = draft.rng.choice(_targets(x.sizes))
    written = list(sizes)
    if solid(x) and draft.rng.random() < 0.5:
        written[draft.rng.randrange(len(sizes))] = -1
    # A size of 0 would mean "as in the input", which is wanted for empty tensors only here.
    if not solid(x):
        sizes = written = list(x.sizes)
    return _moved(draft, "Reshape", [x, draft.integers(*written)], sizes, rigid=-1 not in written)


def _shape_arithmetic(draft: Draft) -> bool:
    """Reshapes by computed numbers: Shape, Gather, Concat, Reshape, as exporters write it."""
    x = draft.pick(lambda d: d.rank >= 2 and solid(d))
    if x is None or INT64 not in draft.dtypes:
        return False
    (shape,) = draft.node("Shape", [x], [(INT64, (x.rank,), max(x.sizes), True)], rigid=True)
    (first,) = draft.node(
        "Gather", [shape, draft.integers(0)], [(INT64, (1,), x.sizes[0], True)], {"axis": 0}
    )
    (target,) = draft.node(
        "Concat", [first, draft.integers(-1)], [(INT64, (2,), x.sizes[0], True)], {"axis": 0}
    )
    rest = math.prod(x.sizes[1:])
    draft.node("Reshape", [x, target], [(x.dtype, (x.sizes[0], rest), x.bound, x.exact)])
    return True


def _filled_like(draft: Draft) -> bool:
    """Makes a constant of a computed shape: Shape, ConstantOfShape."""
    x = draft.pick(lambda d: True)
    if x is None or INT64 not in draft.dtypes:
        return False
    (shape,) = draft.node("Shape", [x], [(INT64, (x.rank,), max((*x.sizes, 0)), True)], rigid=True)
    made = draft.node("ConstantOfShape", [shape], [(FLOAT, x.sizes, 0.0, True)])
    return bool(made)


def _flatten(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 1 and solid(d))
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank + 1)
    sizes = (math.prod(x.sizes[:axis]), math.prod(x.sizes[axis:]))
    return _moved(draft, "Flatten", [x], sizes, axis=axis)


def _unsqueeze(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank <= 3)
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank + 1)
    sizes = [*x.sizes[:axis], 1, *x.sizes[axis:]]
    return _moved(draft, "Unsqueeze", [x, draft.integers(axis)], sizes)


def _squeeze(draft: Draft) -> bool:
    x = draft.pick(lambda d: 1 in d.sizes and not d.flexible)
    if x is None:
        return False
    axis = x.sizes.index(1)
    if x.sizes.count(1) == 1 and draft.rng.random() < 0.4:
        return _moved(draft, "Squeeze", [x], [s for s in x.sizes if s != 1])
    sizes = [*x.sizes[:axis], *x.sizes[axis + 1 :]]
    return _moved(draft, "Squeeze", [x, draft.integers(axis - x.rank)], sizes)


def _expand(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank <= 3 and not d.flexible)
    if x is None:
        return False
    sizes = [
        draft.rng.choice((1, 2)),
        *(draft.rng.choice((s, 3)) if s == 1 else s for s in x.sizes),
    ]
    return _moved(draft, "Expand", [x, draft.integers(*sizes)], sizes, rigid=True)


def _tile(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 1)
    if x is None:
        return False
    repeats = [draft.rng.choice((1, 1, 2)) for _ in x.sizes]
    sizes = [s * r for s, r in zip(x.sizes, repeats, strict=True)]
    return _moved(draft, "Tile", [x, draft.integers(*repeats)], sizes)


def _concat(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 1)
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank)

    def fits(d: Drawn) -> bool:
        same = d.rank == x.rank and d.dtype == x.dtype
        return same and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(d.sizes, x.sizes, strict=True))
        )

    others = [draft.pick(fits) for _ in range(draft.rng.randrange(1, 3))]
    parts = [x, *(d for d in others if d is not None)]
    sizes = [sum(d.sizes[axis] for d in parts) if i == axis else s for i, s in enumerate(x.sizes)]
    return _moved(draft, "Concat", parts, sizes, axis=draft.rng.choice((axis, axis - x.rank)))


def _split(draft: Draft) -> bool:
    """Splits into two or three outputs; later nodes may read only some of them."""
    x = draft.pick(lambda d: d.rank >= 1 and not d.flexible and max(d.sizes) >= 2)
    if x is None:
        return False
    axis = x.sizes.index(max(x.sizes))
    first = draft.rng.randrange(1, x.sizes[axis])
    parts = [first, x.sizes[axis] - first]
    if parts[1] > 1 and draft.rng.random() < 0.5:
        parts = [first, 1, parts[1] - 1]
    outputs = [
        (x.dtype, [p if i == axis else s for i, s in enumerate(x.sizes)], x.bound, x.exact)
        for p in parts
    ]
    draft.node("Split", [x, draft.integers(*parts)], outputs, {"axis": axis})
    return True


def _slice(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 1 and not d.flexible)
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank)
    size = x.sizes[axis]
    start, end, step = draft.rng.choice(
        ((0, size, 2), (1, 2**31, 1), (-1, -(2**31), -1), (0, -1, 1), (0, max(1, size // 2), 1))
    )
    kept = len(range(size)[start:end:step])
    if kept == 0 and draft.rng.random() < 0.9:
        return False
    sizes = [kept if i == axis else s for i, s in enumerate(x.sizes)]
    inputs = [x, *(draft.integers(n) for n in (start, end, axis - x.rank, step))]
    return _moved(draft, "Slice", inputs, sizes)


def _gather(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 1 and solid(d) and not d.flexible)
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank)
    size = x.sizes[axis]
    shape = draft.rng.choice(((), (1,), (2,), (2, 2)))
    generator = np.random.default_rng(draft.rng.randrange(2**32))
    dtype = draft.rng.choice((np.int64, np.int32))
    indices = draft.constant(np.asarray(generator.integers(-size, size, shape), dtype))
    # The element type of indices may be that of the data: their bound says nothing.
    sizes = [*x.sizes[:axis], *shape, *x.sizes[axis + 1 :]]
    if math.prod(sizes) > LARGEST_SIZE:
        return False
    draft.node("Gather", [x, indices], [(x.dtype, sizes, x.bound, x.exact)], {"axis": axis})
    return True


def _pad(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype in NUMBERS and 1 <= d.rank <= 4 and solid(d))
    if x is None:
        return False
    mode = draft.rng.choice(("constant", "constant", "edge", "reflect"))
    if mode == "reflect" and min(x.sizes) < 2:
        return False
    before, after = ([draft.rng.choice((0, 0, 1)) for _ in x.sizes] for _ in range(2))
    fill = draft.constant(np.array(draft.rng.choice((0, -1)), x.dtype))
    sizes = [b + s + a for b, s, a in zip(before, x.sizes, after, strict=True)]
    if math.prod(sizes) > LARGEST_SIZE:
        return False
    inputs = [x, draft.integers(*before, *after)]
    if mode == "constant" and draft.rng.random() < 0.7:
        inputs.append(fill)
    draft.node("Pad", inputs, [(x.dtype, sizes, max(1, x.bound), x.exact)], {"mode": mode})
    return True


def _resize(draft: Draft) -> bool:
    """Doubles height and width; the region of interest is left out."""
    x = draft.pick(lambda d: d.dtype == FLOAT and d.rank == 4 and solid(d))
    if x is None or 4 * x.count > LARGEST_SIZE:
        return False
    scales = draft.constant(np.array([1, 1, 2, 2], np.float32))
    sizes = [*x.sizes[:2], 2 * x.sizes[2], 2 * x.sizes[3]]
    mode = draft.rng.choice(("nearest", "linear"))
    draft.node(
        "Resize",
        [x, None, scales],
        [(FLOAT, sizes, x.bound, x.exact and mode == "nearest")],
        {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    )
    return True


def _top_k(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype in NUMBERS and d.rank >= 1 and d.exact and d.sizes[-1] >= 1)
    if x is None or INT64 not in draft.dtypes or not solid(x):
        return False
    k = draft.rng.randrange(1, x.sizes[-1] + 1)
    sizes = [*x.sizes[:-1], k]
    outputs = [(x.dtype, sizes, x.bound, True), (INT64, sizes, x.sizes[-1], True)]
    draft.node("TopK", [x, draft.integers(k)], outputs, {"largest": draft.rng.randrange(2)})
    return True


def _cumulative_sum(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype in (FLOAT, INT32, INT64) and d.rank >= 1 and solid(d))
    if x is None:
        return False
    axis = draft.rng.randrange(x.rank)
    bound = x.bound * x.sizes[axis]
    if bound > LARGEST_VALUE:
        return False
    at = draft.constant(np.array(axis, np.int64))
    draft.node("CumSum", [x, at], [(x.dtype, x.sizes, bound, x.exact and x.dtype != FLOAT)])
    return True


def _one_hot(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype == INT64 and 1 <= d.rank <= 2 and d.bound <= 4 and solid(d))
    if x is None or x.count * 5 > LARGEST_SIZE:
        return False
    depth = draft.constant(np.array(5, np.int64))
    values = draft.constant(np.array([0, 1], np.float32))
    draft.node("OneHot", [x, depth, values], [(FLOAT, (*x.sizes, 5), 1.0, True)], {"axis": -1})
    return True


def _triangle(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.rank >= 2 and d.dtype != BOOL and d.dtype != INT32 and solid(d))
    return x is not None and _moved(draft, "Trilu", [x], x.sizes, upper=draft.rng.randrange(2))


SHAPE: Mapping[str, Move] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Shape": _shape_arithmetic,
    "ConstantOfShape": _filled_like,
    "Flatten": _flatten,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "Resize": _resize,
    "TopK": _top_k,
    "CumSum": _cumulative_sum,
    "OneHot": _one_hot,
    "Trilu": _triangle,
}
"""Moves whose output has another shape or order than their operands."""
