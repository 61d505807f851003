"""The moves of the random generator that carry bodies: If, Loop and Scan, with captures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from partita.testing.draft import (
    BOOL,
    FLOAT,
    INT64,
    LARGEST_SIZE,
    LARGEST_VALUE,
    Draft,
    Drawn,
)
from partita.testing.moves import BINARY, POINTWISE, UNARY, Move, solid

DEEPEST = 2
"""Bodies within bodies, at most."""
INNER: tuple[Move, ...] = (
    *(UNARY[name] for name in ("Tanh", "Sigmoid", "Abs", "Neg", "Relu")),
    *(BINARY[name] for name in ("Add", "Mul", "Max", "Sub")),
    POINTWISE["Clip"],
)
LIMIT = 4.0
"""Bound of the values that a Loop or Scan carries."""


def _wander(body: Draft, steps: int) -> None:
    for _ in range(steps):
        body.rng.choice(INNER)(body)


def _close(body: Draft, state: Drawn, extra: Drawn | None) -> Drawn:
    """Ends a body with a value of the state's shape, kept within ``LIMIT`` by a Clip."""
    with_extra = extra is not None and np.broadcast_shapes(state.sizes, extra.sizes) == state.sizes
    bound = state.bound
    if with_extra and extra is not None:
        bound += extra.bound
        (state,) = body.node("Add", [state, extra], [(FLOAT, state.sizes, bound, False)])
    low, high = (body.constant(np.array(limit, np.float32)) for limit in (-LIMIT, LIMIT))
    (closed,) = body.node("Clip", [state, low, high], [(FLOAT, state.sizes, LIMIT, False)])
    return closed


def _fitting(body: Draft, sizes: tuple[int, ...]) -> Drawn | None:
    """Draws a float value, often one captured from outside, that broadcasts into ``sizes``."""

    def fits(d: Drawn) -> bool:
        if d.dtype != FLOAT or d.flexible or d.rank > len(sizes):
            return False
        return all(a in (1, b) for a, b in zip(d.sizes[::-1], sizes[::-1], strict=False))

    return body.pick(fits)


def _branch(draft: Draft, x: Drawn, name: str) -> ir.Graph:
    body = draft.body()
    _wander(body, draft.rng.randrange(3))
    if body.depth < DEEPEST and draft.rng.random() < 0.2:
        _if(body)
    output = _close(body, x, _fitting(body, x.sizes))
    return body.graph([output], name)


def _if(draft: Draft) -> bool:
    """An If on an exact condition; both branches capture what they read."""
    x = draft.pick(lambda d: d.dtype == FLOAT and not d.flexible)
    condition = draft.pick(lambda d: d.dtype == BOOL and d.exact and d.rank == 0)
    if x is None or x.bound > LARGEST_VALUE / 2 or BOOL not in draft.dtypes:
        return False
    if condition is None:
        condition = draft.constant(np.array(draft.rng.random() < 0.5))
    attributes = {name: _branch(draft, x, name) for name in ("then_branch", "else_branch")}
    draft.node("If", [condition], [(FLOAT, x.sizes, LIMIT, False)], attributes)
    return True


def _loop(draft: Draft) -> bool:
    """A Loop with a carried state and a scan output; zero to three rounds."""
    x = draft.pick(
        lambda d: d.dtype == FLOAT and not d.flexible and 0 < 3 * d.count <= LARGEST_SIZE
    )
    if x is None or x.bound > LIMIT or {BOOL, INT64} - set(draft.dtypes):
        return False
    rounds = draft.rng.randrange(4)
    body = draft.body()
    body.input(INT64, (), bound=rounds)
    going = body.input(BOOL, ())
    state = body.input(FLOAT, x.sizes, bound=LIMIT, exact=False)
    _wander(body, draft.rng.randrange(3))
    (on,) = body.node("Identity", [going], [(BOOL, (), 1.0, True)])
    output = _close(body, state, _fitting(body, x.sizes))
    # onnx's reference evaluator stacks rows of one dimension alone, none of no round at all, and
    # takes a left-out condition for false (1.23): the hazards hold those, with known results.
    (flat,) = body.node("Reshape", [output, body.integers(-1)], [(FLOAT, (x.count,), LIMIT, False)])
    (row,) = body.node("Tanh", [flat], [(FLOAT, (x.count,), 1.0, False)])
    scanned = rounds > 0 and draft.rng.random() < 0.8
    graph = body.graph([on, output, row] if scanned else [on, output], "body")
    trips, truth = draft.constant(np.array(rounds, np.int64)), draft.constant(np.array(True))
    rows = (FLOAT, (rounds, x.count), 1.0, False)
    outputs = [(FLOAT, x.sizes, LIMIT, False), *([rows] if scanned else [])]
    draft.node("Loop", [trips, truth, x], outputs, {"body": graph})
    return True


def _scan(draft: Draft) -> bool:
    """A Scan along the first axis, with a state."""
    x = draft.pick(lambda d: d.dtype == FLOAT and d.rank >= 1 and not d.flexible and solid(d))
    if x is None or x.bound > LIMIT:
        return False
    start = draft.weight(x.sizes[1:])
    body = draft.body()
    state = body.input(FLOAT, x.sizes[1:], bound=LIMIT, exact=False)
    row = body.input(FLOAT, x.sizes[1:], bound=LIMIT, exact=False)
    _wander(body, draft.rng.randrange(3))
    output = _close(body, state, row)
    (made,) = body.node("Sigmoid", [output], [(FLOAT, x.sizes[1:], 1.0, False)])
    graph = body.graph([output, made], "body")
    outputs = [(FLOAT, x.sizes[1:], LIMIT, False), (FLOAT, x.sizes, 1.0, False)]
    draft.node("Scan", [start, x], outputs, {"body": graph, "num_scan_inputs": 1})
    return True


CONTROL: Mapping[str, Move] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""Moves that carry bodies."""
