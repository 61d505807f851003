"""The moves of the random generator: one row an op, each adds one node (or a few) to a draft.

A move answers ``False`` when the draft holds no operand for it. Rows keep numbers tame: bounds are
followed through every op, and what float rounding could flip (comparing, rounding, sorting,
converting to integers) is applied to exact values only. So two engines that are both right agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from partita.testing.draft import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    INTEGERS,
    LARGEST_SIZE,
    LARGEST_VALUE,
    NUMBERS,
    Draft,
    Drawn,
)

Move = Callable[[Draft], bool]
Bound = Callable[[float], float]


def solid(drawn: Drawn) -> bool:
    """Tells whether a value has elements at all."""
    return drawn.count > 0


def _unary(op_type: str, dtypes: Sequence[str], bound: Bound, keeps: bool, needs: bool) -> Move:
    """A row for an op of one operand: ``keeps`` exactness, ``needs`` it."""

    def move(draft: Draft) -> bool:
        x = draft.pick(lambda d: d.dtype in dtypes and (d.exact or not needs))
        if x is None or bound(x.bound) > LARGEST_VALUE:
            return False
        draft.node(op_type, [x], [(x.dtype, x.sizes, bound(x.bound), x.exact and keeps)])
        return True

    return move


def _one(_: float) -> float:
    return 1.0


def _same(bound: float) -> float:
    return bound


def _next(bound: float) -> float:
    return bound + 1


def _exponential(bound: float) -> float:
    return math.exp(min(bound, 100.0))


Row = tuple[str, Sequence[str], Bound, bool, bool]
UNARY_ROWS: Sequence[Row] = (
    ("Relu", (FLOAT,), _same, True, False),
    ("Neg", NUMBERS, _same, True, False),
    ("Abs", NUMBERS, _same, True, False),
    ("Identity", (*NUMBERS, BOOL), _same, True, False),
    ("Sign", (FLOAT, *INTEGERS), _one, True, True),
    ("Floor", (FLOAT,), _next, True, True),
    ("Ceil", (FLOAT,), _next, True, True),
    ("Round", (FLOAT,), _next, True, True),
    ("Tanh", (FLOAT,), _one, False, False),
    ("Sigmoid", (FLOAT,), _one, False, False),
    ("Erf", (FLOAT,), _one, False, False),
    ("Sin", (FLOAT,), _one, False, False),
    ("Softplus", (FLOAT,), _next, False, False),
    ("Elu", (FLOAT,), _same, False, False),
    ("LeakyRelu", (FLOAT,), _same, False, False),
    ("HardSigmoid", (FLOAT,), _one, False, False),
    ("Exp", (FLOAT,), _exponential, False, False),
    ("Not", (BOOL,), _one, True, False),
)
UNARY: Mapping[str, Move] = {row[0]: _unary(*row) for row in UNARY_ROWS}


def broadcast(a: Drawn, b: Drawn) -> tuple[int, ...] | None:
    """Returns the sizes of two operands together, or ``None`` if they do not fit."""
    try:
        sizes = np.broadcast_shapes(a.sizes, b.sizes)
    except ValueError:
        return None
    return sizes if math.prod(sizes) <= LARGEST_SIZE else None


def _pair(draft: Draft, dtypes: Sequence[str], exact: bool) -> tuple[Drawn, Drawn] | None:
    """Draws two operands that fit; the second is sometimes a weight, sometimes the first again."""
    a = draft.pick(lambda d: d.dtype in dtypes and (d.exact or not exact))
    if a is None:
        return None
    if draft.rng.random() < 0.35:
        kept = draft.rng.randrange(a.rank + 1)
        return a, draft.weight(a.sizes[kept:], 1.0, a.dtype)
    b = draft.pick(
        lambda d: d.dtype == a.dtype and (d.exact or not exact) and broadcast(a, d) is not None
    )
    return None if b is None else (a, b)


def _binary(
    op_type: str,
    dtypes: Sequence[str],
    bound: Callable[[float, float], float],
    keeps: bool = False,
    needs: bool = False,
    result: str | None = None,
) -> Move:
    """A row for an op of two operands; whole numbers stay exact under every one of them."""

    def move(draft: Draft) -> bool:
        pair = _pair(draft, dtypes, needs)
        if pair is None:
            return False
        a, b = pair
        sizes, largest = broadcast(a, b), bound(a.bound, b.bound)
        if sizes is None or largest > LARGEST_VALUE:
            return False
        exact = a.exact and b.exact and (keeps or a.dtype != FLOAT)
        if draft.rng.random() < 0.5:
            a, b = b, a
        draft.node(op_type, [a, b], [(result or a.dtype, sizes, largest, exact)])
        return True

    return move


def _sum(a: float, b: float) -> float:
    return a + b


def _unit(_: float, __: float) -> float:
    return 1.0


BINARY: Mapping[str, Move] = {
    "Add": _binary("Add", NUMBERS, _sum),
    "Sub": _binary("Sub", NUMBERS, _sum),
    "Mul": _binary("Mul", NUMBERS, lambda a, b: a * b),
    "Max": _binary("Max", NUMBERS, max, keeps=True),
    "Min": _binary("Min", NUMBERS, max, keeps=True),
    "And": _binary("And", (BOOL,), _unit, keeps=True),
    "Or": _binary("Or", (BOOL,), _unit, keeps=True),
    "Xor": _binary("Xor", (BOOL,), _unit, keeps=True),
    "Equal": _binary("Equal", (*NUMBERS, BOOL), _unit, True, True, BOOL),
    "Less": _binary("Less", NUMBERS, _unit, True, True, BOOL),
    "Greater": _binary("Greater", NUMBERS, _unit, True, True, BOOL),
    "LessOrEqual": _binary("LessOrEqual", NUMBERS, _unit, True, True, BOOL),
    "GreaterOrEqual": _binary("GreaterOrEqual", NUMBERS, _unit, True, True, BOOL),
}


def _divide(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype == FLOAT)
    if x is None:
        return False
    divisor = draft.constant(np.array(draft.rng.choice((2.0, -4.0, 3.0)), np.float32))
    draft.node("Div", [x, divisor], [(FLOAT, x.sizes, x.bound / 2, False)])
    return True


def _remainder(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype in INTEGERS)
    if x is None:
        return False
    divisor = draft.constant(np.array(draft.rng.choice((2, 3, 5)), x.dtype))
    draft.node("Mod", [x, divisor], [(x.dtype, x.sizes, 5, True)])
    return True


def _root(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype == FLOAT)
    if x is None:
        return False
    (positive,) = draft.node("Abs", [x], [(FLOAT, x.sizes, x.bound, x.exact)])
    draft.node("Sqrt", [positive], [(FLOAT, x.sizes, max(1.0, x.bound), False)])
    return True


def _where(draft: Draft) -> bool:
    condition = draft.pick(lambda d: d.dtype == BOOL)
    pair = _pair(draft, NUMBERS, False)
    if condition is None or pair is None:
        return False
    a, b = pair
    if any(broadcast(condition, d) is None for d in pair) or broadcast(a, b) is None:
        return False
    sizes = np.broadcast_shapes(condition.sizes, a.sizes, b.sizes)
    if math.prod(sizes) > LARGEST_SIZE:
        return False
    exact = condition.exact and a.exact and b.exact
    draft.node("Where", [condition, a, b], [(a.dtype, sizes, max(a.bound, b.bound), exact)])
    return True


def _clip(draft: Draft) -> bool:
    """Clips with both bounds, either one, or none: left-out optional inputs."""
    x = draft.pick(lambda d: d.dtype in NUMBERS)
    if x is None:
        return False
    low, high = (draft.constant(np.array(limit, x.dtype)) for limit in (-1, 2))
    inputs = draft.rng.choice(([x, low, high], [x, None, high], [x, low], [x]))
    draft.node("Clip", inputs, [(x.dtype, x.sizes, max(x.bound, 2), x.exact)])
    return True


def _cast(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.exact or d.dtype != FLOAT)
    if x is None:
        return False
    dtype = draft.rng.choice([d for d in draft.dtypes if d != x.dtype] or [x.dtype])
    codes: Mapping[str, int] = {FLOAT: 1, INT32: 6, INT64: 7, BOOL: 9}
    bound = 1.0 if dtype == BOOL else x.bound
    draft.node("Cast", [x], [(dtype, x.sizes, bound, x.exact)], {"to": codes[dtype]})
    return True


def _dropout(draft: Draft) -> bool:
    """Dropout at inference; its second output, the mask, is there but often read by nobody."""
    x = draft.pick(lambda d: d.dtype == FLOAT)
    if x is None:
        return False
    outputs: list[tuple[str, Sequence[int], float, bool]] = [(FLOAT, x.sizes, x.bound, x.exact)]
    if draft.rng.random() < 0.5 and BOOL in draft.dtypes:
        outputs.append((BOOL, x.sizes, 1.0, True))
    draft.node("Dropout", [x], outputs)
    return True


def _batch_norm(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype == FLOAT and d.rank >= 2 and solid(d))
    if x is None:
        return False
    channels = (x.sizes[1],)
    variance = draft.constant(np.linspace(1.0, 2.0, channels[0], dtype=np.float32))
    weights = [draft.weight(channels) for _ in range(3)]
    bound = x.bound + 3
    if bound > LARGEST_VALUE:
        return False
    attributes: Mapping[str, Any] = {"epsilon": 1e-3}
    draft.node(
        "BatchNormalization", [x, *weights, variance], [(FLOAT, x.sizes, bound, False)], attributes
    )
    return True


def _layer_norm(draft: Draft) -> bool:
    x = draft.pick(lambda d: d.dtype == FLOAT and d.rank >= 1 and d.sizes[-1] > 1 and solid(d))
    if x is None:
        return False
    scale, shift = draft.weight(x.sizes[-1:]), draft.weight(x.sizes[-1:])
    bound = math.sqrt(x.sizes[-1]) + 1
    inputs = draft.rng.choice(([x, scale, shift], [x, scale]))
    # A wide epsilon: the quotient of two rounding errors must not show.
    draft.node("LayerNormalization", inputs, [(FLOAT, x.sizes, bound, False)], {"epsilon": 0.125})
    return True


def _softmax(op_type: str, bound: Bound) -> Move:
    def move(draft: Draft) -> bool:
        x = draft.pick(lambda d: d.dtype == FLOAT and d.rank >= 1 and solid(d))
        if x is None or bound(x.bound) > LARGEST_VALUE:
            return False
        axis = draft.rng.randrange(-x.rank, x.rank)
        draft.node(op_type, [x], [(FLOAT, x.sizes, bound(x.bound), False)], {"axis": axis})
        return True

    return move


POINTWISE: Mapping[str, Move] = {
    **UNARY,
    **BINARY,
    "Div": _divide,
    "Mod": _remainder,
    "Sqrt": _root,
    "Where": _where,
    "Clip": _clip,
    "Cast": _cast,
    "Dropout": _dropout,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Softmax": _softmax("Softmax", _one),
    "LogSoftmax": _softmax("LogSoftmax", lambda b: 2 * b + 7),
}
"""Moves whose output has the shape of their operands."""
