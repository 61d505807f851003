"""What a program takes and returns: names, element types and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import onnx_ir as ir

Dimension = int | str | None
"""A size, the name of a size that a run decides, or nothing known."""


@final
@dataclass(frozen=True)
class Spec:
    """One input or output of a program.

    Attributes:
        name: The value's name in the model.
        dtype: Element type of a tensor (``object`` for strings); ``None`` if unknown or no tensor.
        shape: Dimensions of a tensor; ``None`` if the rank is unknown or it is no tensor.
        kind: ``"tensor"``, ``"sequence"``, ``"optional"`` or ``"unknown"``.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[Dimension, ...] | None
    kind: str = "tensor"

    def __str__(self) -> str:
        shape = (
            "?"
            if self.shape is None
            else ", ".join("?" if d is None else str(d) for d in self.shape)
        )
        return f"{self.name}: {dtype_name(self.dtype)}[{shape}]"

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape if every dimension is a number, otherwise ``None``."""
        if self.shape is None:
            return None
        sizes = tuple(d for d in self.shape if isinstance(d, int))
        return sizes if len(sizes) == len(self.shape) else None


def spec_of(value: ir.Value) -> Spec:
    """Returns the spec of a value of a model."""
    kind = _kind(value)
    tensor = kind == "tensor"
    dtype = value.dtype.numpy() if tensor and value.dtype is not None else None
    shape = None
    if tensor and value.shape is not None:
        shape = tuple(d if isinstance(d, int) else d.value for d in value.shape)
    return Spec(value.name or "", dtype, shape, kind)


def dtype_name(dtype: np.dtype[Any] | None) -> str:
    """Returns what users call an element type: ``float32``, ``string``, or ``?`` if unknown."""
    if dtype is None:
        return "?"
    return "string" if dtype.kind in "OUST" else dtype.name


def _kind(value: ir.Value) -> str:
    if isinstance(value.type, ir.TensorType):
        return "tensor"
    if isinstance(value.type, ir.SequenceType):
        return "sequence"
    if isinstance(value.type, ir.OptionalType):
        return "optional"
    return "unknown"
