"""The types of values in ONNX's own spelling, and in the spelling of refusals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

_SPELLED = {"float": "float32", "double": "float64"}
_HOLDERS = {
    "seq": "a sequence of",
    "optional": "an optional",
    "sparse_tensor": "a sparse tensor of",
}


def type_string(value: ir.Value) -> str | None:
    """Returns a value's type as schemas write it (``seq(tensor(float))``), ``None`` if unknown."""
    return None if value.type is None else _type_string(value.type)


def _type_string(kind: ir.TypeProtocol) -> str | None:
    if isinstance(kind, ir.SequenceType):
        inner = _type_string(kind.elem_type)
        return None if inner is None else f"seq({inner})"
    if isinstance(kind, ir.OptionalType):
        inner = _type_string(kind.elem_type)
        return None if inner is None else f"optional({inner})"
    if kind.dtype == ir.DataType.UNDEFINED:
        return None
    holder = "sparse_tensor" if isinstance(kind, ir.SparseTensorType) else "tensor"
    return f"{holder}({kind.dtype.name.lower()})"


def spelled(text: str) -> str:
    """Returns a schema's type as a reader says it: ``tensor(float)`` is ``float32``."""
    holder, _, inner = text.removesuffix(")").partition("(")
    if holder == "tensor":
        return _SPELLED.get(inner, inner)
    if holder not in _HOLDERS:
        return text
    element = spelled(inner if "(" in inner else f"tensor({inner})")
    return f"{_HOLDERS[holder]} {element.removeprefix('a ')}"


def listed(texts: Iterable[str], limit: int = 8) -> str:
    """Returns types as a list in words: ``float32, float64 or int32``."""
    names = sorted({spelled(t) for t in texts})
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" or {len(names) - limit} others"
    if len(names) < 2:
        return "".join(names) or "nothing"
    return ", ".join(names[:-1]) + " or " + names[-1]


def dtype_name(dtype: ir.DataType | None) -> str:
    """Returns a dtype as refusals spell it, such as ``float32``, ``bfloat16`` and ``string``."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return "of unknown dtype"
    return _SPELLED.get(dtype.name.lower(), dtype.name.lower())


def packed(array: np.ndarray[Any, Any], bitwidth: int) -> np.ndarray[Any, Any]:
    """Returns 2- or 4-bit elements (one a byte) as ONNX stores them: the first in the low bits."""
    bits = array.reshape(-1).view(np.uint8) & (2**bitwidth - 1)
    a_byte = 8 // bitwidth
    bits = np.append(bits, np.zeros(-bits.size % a_byte, np.uint8)).reshape(-1, a_byte)
    shifts = np.arange(a_byte, dtype=np.uint8) * np.uint8(bitwidth)
    return np.bitwise_or.reduce(bits << shifts, axis=1).astype(np.uint8)


def unpacked(
    content: np.ndarray[Any, Any], dtype: ir.DataType, shape: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Returns ONNX's stored bytes as an array of ``shape`` with one element a byte."""
    bitwidth = dtype.bitwidth
    a_byte = 8 // bitwidth
    shifts = np.arange(a_byte, dtype=np.uint8) * np.uint8(bitwidth)
    bits = (content[:, None] >> shifts) & np.uint8(2**bitwidth - 1)
    bits = bits.reshape(-1)[: math.prod(shape)]
    if dtype in (ir.DataType.INT4, ir.DataType.INT2):  # carry the sign into the upper bits
        bits = ((bits ^ (1 << bitwidth - 1)).astype(np.int8) - (1 << bitwidth - 1)).astype(np.int8)
    return bits.view(np.uint8).view(dtype.numpy()).reshape(shape)
