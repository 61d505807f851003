# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""``RNN``, ``GRU`` and ``LSTM`` in numpy.

The reference evaluator leaves out sequence lengths, clipping, activations and coupled gates, and
keeps state in its objects, so that two threads would disturb each other.

Source: https://onnx.ai/onnx/operators/onnx__LSTM.html, ``onnx__GRU.html``, ``onnx__RNN.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from partita.backends.contract import Array, Node
from partita.backends.host.elementwise import FLOATS
from partita.backends.kernels import KernelTable

Function = Callable[..., Any]
Activation = Callable[[Array], Array]
Cell = Callable[["Direction", Array, Array, Array], tuple[Array, Array]]
"""Takes the direction, one step's input, hidden and cell state; returns both states."""

# Each with the defaults of alpha and beta; None means that it does not use that one.
_ACTIVATIONS: Mapping[str, tuple[float | None, float | None, Callable[..., Array]]] = {
    "relu": (None, None, lambda x, a, b: np.maximum(x, 0)),
    "tanh": (None, None, lambda x, a, b: np.tanh(x)),
    "sigmoid": (None, None, lambda x, a, b: 1 / (1 + np.exp(-x))),
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, None, lambda x, a, b: np.where(x >= 0, x, a * x)),
    "thresholdedrelu": (1.0, None, lambda x, a, b: np.where(x >= a, x, 0)),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * np.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "elu": (1.0, None, lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x))),
    "softsign": (None, None, lambda x, a, b: x / (1 + np.abs(x))),
    "softplus": (None, None, lambda x, a, b: np.logaddexp(0, x)),
}


@final
@dataclass(frozen=True)
class Direction:
    """One direction of one layer: weights (gates stacked), activations and switches."""

    weights: Array
    recurrence: Array
    input_bias: Array
    recurrent_bias: Array
    peepholes: Array
    activations: Sequence[Activation]
    clip: Activation
    coupled: bool
    linear_before_reset: bool


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    for op_type, cell, default in (
        ("RNN", _rnn, ("Tanh",)),
        ("GRU", _gru, ("Sigmoid", "Tanh")),
        ("LSTM", _lstm, ("Sigmoid", "Tanh", "Tanh")),
    ):
        table.kernel(op_type, since=1, dtypes=FLOATS)(_emitter(cell, default))


def _emitter(cell: Cell, default: Sequence[str]) -> Callable[[Node], Function]:
    def emit(node: Node) -> Function:
        names = [v.name for v in node.outputs]
        run = _layer(node, cell, default)

        def call(*inputs: Any) -> Any:
            results = run(*inputs)
            return results[0] if len(names) == 1 else results[: len(names)]

        return call

    return emit


def _layer(node: Node, cell: Cell, default: Sequence[str]) -> Function:
    way = node.attributes.get_string("direction", "forward").lower()
    backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[way]
    batch_first = bool(node.attributes.get_int("layout", 0))
    activations = list(_activations(node, default, len(backwards)))
    switches: dict[str, Any] = {
        "clip": _clip(node.attributes.get_float("clip", 0.0)),
        "coupled": bool(node.attributes.get_int("input_forget", 0)),
        "linear_before_reset": bool(node.attributes.get_int("linear_before_reset", 0)),
    }

    def run(
        x: Array,
        weights: Array,
        recurrence: Array,
        bias: Array | None = None,
        lengths: Array | None = None,
        hidden: Array | None = None,
        memory: Array | None = None,
        peepholes: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        with np.errstate(all="ignore"):
            size = recurrence.shape[-1]
            if batch_first:
                x = x.swapaxes(0, 1)
                hidden = None if hidden is None else hidden.swapaxes(0, 1)
                memory = None if memory is None else memory.swapaxes(0, 1)
            zeros = np.zeros((len(backwards), x.shape[1], size), x.dtype)
            bias = (
                np.zeros((len(backwards), 2 * weights.shape[1]), x.dtype) if bias is None else bias
            )
            holes = (
                np.zeros((len(backwards), 3 * size), x.dtype) if peepholes is None else peepholes
            )
            states = (zeros if hidden is None else hidden, zeros if memory is None else memory)
            results: list[tuple[Array, Array, Array]] = []
            for d, back in enumerate(backwards):
                given, recurrent = np.split(bias[d], 2)
                one = Direction(
                    weights[d],
                    recurrence[d],
                    given,
                    recurrent,
                    holes[d],
                    activations[d],
                    **switches,
                )
                results.append(_scan(cell, one, x, states[0][d], states[1][d], lengths, back))
        outputs, last, cells = (
            np.stack(r, 1 if i == 0 else 0) for i, r in enumerate(zip(*results, strict=True))
        )
        if not batch_first:
            return outputs, last, cells
        return outputs.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cells.swapaxes(0, 1)

    return run


def _scan(
    cell: Cell,
    direction: Direction,
    x: Array,
    hidden: Array,
    memory: Array,
    lengths: Array | None,
    backwards: bool,
) -> tuple[Array, Array, Array]:
    """Runs one direction over (time, batch, features); finished sequences keep their state."""
    steps = len(x)
    outputs = np.zeros((steps, *hidden.shape), x.dtype)
    for t in range(steps)[::-1] if backwards else range(steps):
        new_hidden, new_memory = cell(direction, x[t], hidden, memory)
        alive = np.ones((len(hidden), 1), bool) if lengths is None else (lengths > t)[:, None]
        hidden = np.where(alive, new_hidden, hidden).astype(x.dtype)
        memory = np.where(alive, new_memory, memory).astype(x.dtype)
        outputs[t] = np.where(alive, hidden, 0)
    return outputs, hidden, memory


def _rnn(d: Direction, x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
    total = x @ d.weights.T + hidden @ d.recurrence.T + d.input_bias + d.recurrent_bias
    return d.activations[0](d.clip(total)), memory


def _gru(d: Direction, x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
    size = hidden.shape[-1]
    act, new = d.activations
    given = x @ d.weights.T + d.input_bias
    gates = (
        given[:, : 2 * size] + hidden @ d.recurrence[: 2 * size].T + d.recurrent_bias[: 2 * size]
    )
    update, reset = (act(d.clip(g)) for g in np.split(gates, 2, -1))
    matrix, bias = d.recurrence[2 * size :].T, d.recurrent_bias[2 * size :]
    if d.linear_before_reset:
        remembered = reset * (hidden @ matrix + bias)
    else:
        remembered = (reset * hidden) @ matrix + bias
    fresh = new(d.clip(given[:, 2 * size :] + remembered))
    return (1 - update) * fresh + update * hidden, memory


def _lstm(d: Direction, x: Array, hidden: Array, memory: Array) -> tuple[Array, Array]:
    act, candidate, emit = d.activations
    total = x @ d.weights.T + hidden @ d.recurrence.T + d.input_bias + d.recurrent_bias
    enter, leave, keep, fresh = np.split(total, 4, -1)
    hole_enter, hole_leave, hole_keep = np.split(d.peepholes, 3)
    enter = act(d.clip(enter + hole_enter * memory))
    keep = 1 - enter if d.coupled else act(d.clip(keep + hole_keep * memory))
    memory = keep * memory + enter * candidate(d.clip(fresh))
    leave = act(d.clip(leave + hole_leave * memory))
    return leave * emit(memory), memory  # as ONNX Runtime: the cell itself is not clipped


def _clip(threshold: float) -> Activation:
    if threshold <= 0:
        return lambda x: x
    return lambda x: np.clip(x, np.float32(-threshold), np.float32(threshold))


def _activations(
    node: Node, default: Sequence[str], directions: int
) -> Iterator[Sequence[Activation]]:
    """Yields the activations of each direction; only those that have parameters use them up."""
    names = list(node.attributes.get_strings("activations") or tuple(default) * directions)
    alphas = iter(node.attributes.get_floats("activation_alpha") or ())
    betas = iter(node.attributes.get_floats("activation_beta") or ())
    made: list[Activation] = []
    for name in names:
        alpha, beta, function = _ACTIVATIONS[name.lower()]
        alpha = alpha if alpha is None else next(alphas, alpha)
        beta = beta if beta is None else next(betas, beta)
        made.append(_with(function, alpha, beta))
    for d in range(directions):
        yield made[d * len(default) : (d + 1) * len(default)]


def _with(function: Callable[..., Array], alpha: float | None, beta: float | None) -> Activation:
    a, b = (None if v is None else np.float32(v) for v in (alpha, beta))
    return lambda x: function(x, a, b)
