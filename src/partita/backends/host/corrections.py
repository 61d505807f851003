"""Ops that ONNX's reference evaluator lacks, or computes otherwise than ONNX defines them.

Most are versions of ops from before opset 13; the evaluator applies today's meaning to some. Each
row says what is wrong without it. Found by comparing with ONNX Runtime at every opset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from partita.backends.contract import Array, Node
from partita.backends.host.elementwise import FLOATS, quiet
from partita.backends.kernels import KernelTable

Function = Callable[..., Any]


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    table.kernel("Softmax", since=1, until=12)(lambda node: _flattened(node, _softmax))
    table.kernel("LogSoftmax", since=1, until=12)(lambda node: _flattened(node, _log_softmax))
    table.kernel("Hardmax", since=1, until=12)(lambda node: _flattened(node, _hardmax))
    table.kernel("LogSoftmax", since=13, dtypes=FLOATS)(_stable_log_softmax)
    table.kernel("Erf", dtypes=FLOATS)(_erf)
    table.kernel("BatchNormalization", since=1, until=13, where=(_one_output,))(_normalise)
    table.kernel("DequantizeLinear", since=10, until=18)(_dequantize)
    table.kernel("Reshape", since=1, until=4)(_reshape_attribute)
    table.kernel("Concat", since=1, until=3)(_concat_default)
    table.kernel("Scatter", since=9, until=10)(_scatter)
    table.kernel("Dropout", since=1, until=6)(lambda node: _undropped)
    table.kernel("Optional", "OptionalGetElement")(lambda node: _held)
    table.kernel("OptionalHasElement")(lambda node: _holds)
    for op_type, function in _BROADCAST.items():
        table.kernel(op_type, since=1, until=6)(_aligned(function))
    table.kernel("Gemm", since=1, until=6)(_gemm)


def _flattened(node: Node, function: Function) -> Function:
    """Before opset 13 everything from ``axis`` on is one dimension."""
    axis = node.attributes.get_int("axis", 1)

    def run(x: Array) -> Array:
        rows = int(np.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]))
        return function(x.reshape(rows, -1 if x.size else 0)).astype(x.dtype).reshape(x.shape)

    return quiet(run)


def _softmax(x: Array, axis: int = -1) -> Array:
    if not x.size:
        return x
    exponential = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponential / exponential.sum(axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int = -1) -> Array:
    if not x.size:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _hardmax(x: Array) -> Array:
    result = np.zeros_like(x)
    result[np.arange(len(x)), np.argmax(x, axis=1) if x.size else 0] = 1
    return result


def _stable_log_softmax(node: Node) -> Function:
    """The evaluator takes the logarithm of a rounded softmax: -inf from about -100 on."""
    axis = node.attributes.get_int("axis", -1)
    return quiet(lambda x: _log_softmax(x, axis).astype(x.dtype))


def _erf(node: Node) -> Function:
    """The evaluator rounds float64 to float32, and calls Python once an element."""
    return quiet(lambda x: special.erf(x).astype(x.dtype))


def _one_output(node: Node) -> str | None:
    if len([v for v in node.outputs if v.name]) == 1:
        return None
    return "the BatchNormalization kernel computes inference: one output"


def _normalise(node: Node) -> Function:
    """The evaluator normalises by the batch here, as if training."""
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))
    spatial = bool(node.attributes.get_int("spatial", 1))

    def run(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        shape = (-1,) + (1,) * (x.ndim - 2) if spatial else scale.shape
        scale, bias, mean, variance = (v.reshape(shape) for v in (scale, bias, mean, variance))
        return (scale * (x - mean) / np.sqrt(variance + epsilon) + bias).astype(x.dtype)

    return quiet(run)


def _dequantize(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 1)

    def run(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
        shape = [1] * x.ndim
        if scale.size > 1:
            shape[axis] = -1
        centred = x.astype(np.float32)
        if zero_point is not None:
            centred = centred - zero_point.astype(np.float32).reshape(shape if zero_point.size > 1 else ())
        return (centred * (scale.reshape(shape) if scale.size > 1 else scale.reshape(()))).astype(scale.dtype)

    return quiet(run)


def _reshape_attribute(node: Node) -> Function:
    sizes = list(node.attributes.get_ints("shape") or ())
    return lambda x: x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(sizes)])


def _concat_default(node: Node) -> Function:
    axis = node.attributes.get_int("axis", 1)
    return lambda *arrays: np.concatenate(arrays, axis)


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


def _held(x: Any = None) -> Any:
    """An optional is its value or ``None``; the evaluator wraps it in a list."""
    return x


def _holds(x: Any = None) -> Array:
    return np.array(x is not None)


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
    return np.divide(a, b) if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


_BROADCAST = {
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


def _gemm(node: Node) -> Function:
    """The evaluator leaves out ``beta`` unless ``broadcast`` is set."""
    alpha, beta = node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)
    left, right = node.attributes.get_int("transA", 0), node.attributes.get_int("transB", 0)

    def run(a: Array, b: Array, c: Array) -> Array:
        product = np.dot(a.T if left else a, b.T if right else b)
        return (product * np.float32(alpha) + c * np.float32(beta)).astype(a.dtype)

    return quiet(run)
