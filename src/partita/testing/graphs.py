"""Seeded generators of models: random ones for correctness, large ones for growth.

The same seed gives the same model on every machine. What they return is as ``partita.load`` wants
it: unique names, an operator set version on every node. Call ``partita.load(model.ir)`` to have
the shapes behind symbolic dimensions inferred.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.errors import UnknownNameError, UnsupportedModelError
from partita.model import Model
from partita.testing.draft import (
    BOOL,
    DTYPES,
    DYNAMIC_SIZE,
    FLOAT,
    INPUT_BOUND,
    IR_VERSION,
    OPSET,
    Draft,
    Drawn,
)
from partita.testing.moves import POINTWISE, Move
from partita.testing.moves_compute import COMPUTE, LONELY
from partita.testing.moves_control import CONTROL
from partita.testing.moves_shape import SHAPE

MOVES: Mapping[str, Move] = {**POINTWISE, **COMPUTE, **SHAPE, **CONTROL}
"""The ops that ``random_model`` can draw, each with what draws it."""
SUPPORTED_OPS = ("Add", "Mul", "Relu")
"""The ops of the "supported" nodes in the growth models and the hazards."""
UNSUPPORTED_OP = "Tanh"
"""The op of the nodes in the growth models that no region may hold."""
PATIENCE = 30
"""Moves tried in vain, one after another, before a draft is taken as it is."""


def random_model(
    seed: int,
    nodes: int = 20,
    *,
    dtypes: Sequence[str] = tuple(DTYPES),
    ops: Iterable[str] | None = None,
) -> Model:
    """Returns a random typed model whose numbers are tame: bounded, and equal on every engine.

    Args:
        seed: The same seed (and other arguments) gives the same model.
        nodes: About how many nodes the main graph has; some moves add two or three.
        dtypes: Element types that may occur: of ``float32``, ``int32``, ``int64``, ``bool``.
        ops: Ops to draw from; all of :data:`MOVES` by default.

    Raises:
        UnknownNameError: There is no such dtype or op.
    """
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise UnknownNameError("element type", dtype, DTYPES)
    for op_type in ops or ():
        if op_type not in MOVES:
            raise UnknownNameError("op of the random generator", op_type, MOVES)
    draft = Draft(random.Random(seed), dtypes)
    _draw_inputs(draft)
    _draw_nodes(draft, nodes, [MOVES[op_type] for op_type in ops] if ops else list(MOVES.values()))
    return draft.model(_draw_outputs(draft), f"random model {seed}")


def _draw_inputs(draft: Draft) -> None:
    rng = draft.rng
    for dtype in draft.dtypes:
        shapes: Sequence[tuple[int, ...]] = ((2, 3), (4,), (1, 3, 4), (), (3, 1))
        if dtype == FLOAT:
            draft.input(FLOAT, rng.choice(((1, 2, 6, 6), (2, 3, 4, 4))))
            shapes = ((2, 3), (3, 4), (2, 1, 4), (4, 4))
        draft.input(dtype, rng.choice(shapes))
    if rng.random() < 0.3:
        draft.input(draft.dtypes[0], (DYNAMIC_SIZE, 4), symbol="batch")
    if rng.random() < 0.15:
        draft.input(draft.dtypes[0], (0, 3))
    if BOOL in draft.dtypes:
        draft.input(BOOL, ())


def _draw_nodes(draft: Draft, nodes: int, moves: Sequence[Move]) -> None:
    in_vain = 0
    while draft.size < nodes and in_vain < PATIENCE:
        in_vain = 0 if draft.rng.choice(moves)(draft) else in_vain + 1
    if draft.size == 0 and nodes > 0:
        LONELY(draft)


def _draw_outputs(draft: Draft) -> list[Drawn]:
    """Returns what nobody reads (mostly) and a few values that somebody reads as well."""
    unread = [d for d in draft.made if not d.value.uses()]
    outputs = [d for d in unread if draft.rng.random() < 0.9] or list(draft.made[-1:])
    chosen = {d.value for d in outputs}
    others = [d for d in draft.made if d.value not in chosen]
    outputs += draft.rng.sample(others, min(len(others), draft.rng.randrange(3)))
    return outputs or draft.pool[:1]


def feeds(
    model: Model, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns random arrays for the inputs of a model, by name.

    Floats lie within ±2, integers between -2 and 2; a symbolic dimension has the size that
    ``sizes`` gives it, otherwise 3.

    Raises:
        UnsupportedModelError: An input is not a tensor of numbers with a known rank.
    """
    generator = np.random.default_rng(seed)
    return {str(v.name): _array(model, v, generator, sizes or {}) for v in model.inputs}


def _array(
    model: Model, value: ir.Value, generator: np.random.Generator, sizes: Mapping[str, int]
) -> np.ndarray[Any, Any]:
    if value.shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
        raise UnsupportedModelError(
            f"is {value.type}; random arrays need a tensor of numbers with a known rank",
            file=model.source,
            value=value.name,
        )
    shape = [d if isinstance(d, int) else sizes.get(str(d), DYNAMIC_SIZE) for d in value.shape]
    dtype = value.dtype.numpy()
    if dtype == np.bool_:
        return np.asarray(generator.random(shape) < 0.5)
    if value.dtype.is_integer():
        low = 0 if not value.dtype.is_signed() else -INPUT_BOUND
        return np.asarray(generator.integers(low, INPUT_BOUND + 1, shape)).astype(dtype)
    return np.asarray(generator.uniform(-INPUT_BOUND, INPUT_BOUND, shape)).astype(dtype)


SHAPE_OF_GROWTH = ir.Shape([4, 4], frozen=True)


class _Rows:
    """Adds elementwise nodes on 4 by 4 float tensors; nothing but speed."""

    def __init__(self) -> None:
        self._type = ir.TensorType(ir.DataType.FLOAT)
        self.nodes: list[ir.Node] = []

    def value(self, name: str) -> ir.Value:
        return ir.Value(name=name, shape=SHAPE_OF_GROWTH, type=self._type)

    def add(self, op_type: str, *inputs: ir.Value) -> ir.Value:
        number = len(self.nodes)
        output = self.value(f"v{number}")
        name = f"{op_type}_{number}"
        self.nodes.append(ir.Node("", op_type, inputs, outputs=[output], name=name, version=OPSET))
        return output

    def model(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], name: str) -> Model:
        graph = ir.Graph(inputs, outputs, nodes=self.nodes, opset_imports={"": OPSET}, name=name)
        return Model(ir.Model(graph, ir_version=IR_VERSION), f"<{name}>")


def chain(n: int, every: int = 2) -> Model:
    """Returns a chain of ``n`` elementwise nodes; every ``every``-th is of ``UNSUPPORTED_OP``."""
    rows = _Rows()
    start = last = rows.value("x")
    for i in range(n):
        last = rows.add(UNSUPPORTED_OP if (i + 1) % every == 0 else "Relu", last)
    return rows.model([start], [last], f"chain of {n}")


def random_dag(n: int, supported: float = 0.7, seed: int = 0, reach: int = 64) -> Model:
    """Returns a random DAG of ``n`` elementwise nodes with one or two operands each.

    Args:
        n: Number of nodes.
        supported: Share of nodes with an op of ``SUPPORTED_OPS``; the rest is ``UNSUPPORTED_OP``.
        seed: The same seed gives the same model.
        reach: How far back operands lie at most.
    """
    rng = random.Random(seed)
    rows = _Rows()
    inputs = [rows.value("x0"), rows.value("x1")]
    values = list(inputs)
    for _ in range(n):
        lowest = max(0, len(values) - reach)
        a = values[rng.randrange(lowest, len(values))]
        if rng.random() >= supported:
            values.append(rows.add(UNSUPPORTED_OP, a))
            continue
        op_type = rng.choice(SUPPORTED_OPS)
        b = values[rng.randrange(lowest, len(values))]
        values.append(rows.add(op_type, a) if op_type == "Relu" else rows.add(op_type, a, b))
    outputs = [v for v in values[2:] if not v.uses()]
    return rows.model(inputs, outputs or inputs[:1], f"random DAG of {n}")


def residual_blocks(n: int) -> Model:
    """Returns residual blocks of eight nodes, ``n`` nodes in all, one unsupported in each block."""
    rows = _Rows()
    start = last = rows.value("x")
    scale, shift = rows.value("scale"), rows.value("shift")
    for _ in range(n // 8):
        a = rows.add("Relu", rows.add("Add", rows.add("Mul", last, scale), shift))
        b = rows.add("Mul", rows.add(UNSUPPORTED_OP, a), scale)
        last = rows.add("Relu", rows.add("Add", rows.add("Add", b, shift), last))
    for _ in range(n % 8):
        last = rows.add("Relu", last)
    return rows.model([start, scale, shift], [last], f"residual blocks of {n}")
