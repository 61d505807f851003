# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
"""Elementwise ops in numpy, bit for bit as ONNX's reference evaluator computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Node
from partita.backends.kernels import KernelTable

FLOATS = ("float16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)
Function = Callable[..., Any]

_OF_NUMBERS: Mapping[str, Function] = {
    "Abs": np.absolute,
    "Neg": np.negative,
    "Sign": np.sign,
    "Relu": lambda x: np.maximum(x, 0),
}
_OF_FLOATS: Mapping[str, Function] = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Exp": np.exp,
    "Floor": np.floor,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Round": np.round,
    "Sigmoid": lambda x: _sigmoid(x),
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": lambda x: np.logaddexp(0, x),
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "IsNaN": np.isnan,
}
_ARITHMETIC: Mapping[str, Function] = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract}
_COMPARISONS: Mapping[str, Function] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
_LOGIC: Mapping[str, Function] = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
_BITS: Mapping[str, Function] = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}
_FOLDED: Mapping[str, Function] = {"Max": np.maximum, "Min": np.minimum}


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    for functions, dtypes, since in (
        (_OF_NUMBERS, NUMBERS, 6),
        (_OF_FLOATS, FLOATS, 6),
        (_ARITHMETIC, NUMBERS, 7),
        (_COMPARISONS, (*NUMBERS, "bool"), 7),
        (_LOGIC, ("bool",), 7),
        (_BITS, (*SIGNED, *UNSIGNED), 18),
    ):
        for op_type, function in functions.items():
            table.kernel(op_type, since=since, dtypes=dtypes)(_always(quiet(function)))
    for op_type, function in _FOLDED.items():
        table.kernel(op_type, since=8, dtypes=NUMBERS)(_always(quiet(_fold(function))))
    table.kernel("Not", dtypes=("bool",))(_always(quiet(np.logical_not)))
    table.kernel("BitwiseNot", dtypes=(*SIGNED, *UNSIGNED))(_always(quiet(np.invert)))
    table.kernel("Div", since=7, dtypes=FLOATS)(_always(quiet(np.divide)))
    table.kernel("Where", dtypes={"X": (*NUMBERS, "bool")})(_always(quiet(np.where)))
    table.kernel("Cast", since=6, dtypes=(*NUMBERS, "bool"), where=(_casts_plainly,))(_cast)


def quiet(function: Function) -> Function:
    """Returns ``function`` with arrays as results and IEEE arithmetic instead of warnings."""

    def run(*inputs: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*inputs))

    return run


def _always(function: Function) -> Callable[[Node], Function]:
    return lambda node: function


def _fold(function: Function) -> Function:
    return lambda *arrays: reduce(function, arrays)


def _sigmoid(x: Array) -> Array:
    exponential = np.exp(x)
    below, above = exponential / (1.0 + exponential), 1.0 / (1.0 + np.exp(-x))
    return np.where(x > 0, above, below).astype(x.dtype)


def _casts_plainly(node: Node) -> str | None:
    to = ir.DataType(node.attributes.get_int("to", 0))
    if to.numpy().isbuiltin == 1 and to not in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    return f"the Cast kernel takes numpy's own dtypes; attribute 'to' is {to.name.lower()}"


def _cast(node: Node) -> Function:
    dtype = ir.DataType(node.attributes.get_int("to", 0)).numpy()
    return quiet(lambda x: x.astype(dtype))
