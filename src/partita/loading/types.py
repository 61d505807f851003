"""Declared types and shapes: from protobuf messages to ``onnx_ir``, checked on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import onnx
import onnx_ir as ir

from partita.errors import InvalidModelError, LimitError, UnsupportedModelError
from partita.loading.limits import Limits


@final
class TypeReader:
    """Builds types and shapes; equal dimensions share one object."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._symbols: dict[str, ir.SymbolicDim] = {}

    def read(self, proto: onnx.TypeProto) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
        """Returns type and shape; ``None`` for what the file leaves open.

        Of a sequence or an optional, the shape is that of its elements.

        Raises:
            InvalidModelError: Unknown element type, or a negative dimension.
            LimitError: The declared tensor is too large to exist.
            UnsupportedModelError: A map or an opaque type.
        """
        kind = proto.WhichOneof("value")
        if kind is None:
            return None, None
        if kind == "tensor_type":
            dtype = data_type(proto.tensor_type.elem_type)
            shape = self._shape(proto.tensor_type, dtype)
            return None if dtype is None else ir.TensorType(dtype), shape
        if kind == "sparse_tensor_type":
            dtype = data_type(proto.sparse_tensor_type.elem_type)
            shape = self._shape(proto.sparse_tensor_type, dtype)
            return None if dtype is None else ir.SparseTensorType(dtype), shape
        if kind == "sequence_type":
            element, shape = self.read(proto.sequence_type.elem_type)
            return None if element is None else ir.SequenceType(element), shape
        if kind == "optional_type":
            element, shape = self.read(proto.optional_type.elem_type)
            return None if element is None else ir.OptionalType(element), shape
        raise UnsupportedModelError(
            f"its type is a {kind.removesuffix('_type')}; partita takes tensors, sequences and "
            "optionals (of a scikit-learn classifier: export with zipmap=False)"
        )

    def _shape(
        self,
        proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor,
        dtype: ir.DataType | None,
    ) -> ir.Shape | None:
        if not proto.HasField("shape"):
            return None
        if len(proto.shape.dim) > self._limits.rank:
            _refuse_rank(len(proto.shape.dim), self._limits)
        dims: list[int | ir.SymbolicDim] = []
        known: list[int] = []
        for dim in proto.shape.dim:
            if dim.HasField("dim_value"):
                dims.append(dim.dim_value)
                known.append(dim.dim_value)
            else:
                dims.append(self._symbol(dim.dim_param))
        element_count(known, dtype, self._limits)
        return ir.Shape(dims, frozen=True)

    def _symbol(self, name: str) -> ir.SymbolicDim:
        if name.__class__ is not str:
            raise InvalidModelError(f"the name of a dimension is not UTF-8: {name!r:.60}")
        if len(name) > self._limits.name_length:
            raise LimitError(f"the name of a dimension has {len(name):,} characters")
        found = self._symbols.get(name)
        if found is None:
            found = self._symbols[name] = ir.SymbolicDim(name or None)
        return found


def data_type(number: int) -> ir.DataType | None:
    """Returns the element type of a number, or ``None`` for 0, which leaves it open.

    Raises:
        InvalidModelError: ONNX has no such type.
    """
    if number == 0:
        return None
    try:
        return ir.DataType(number)
    except ValueError:
        raise InvalidModelError(
            f"its element type is number {number}; ONNX has 1 to {max(ir.DataType).value}"
        ) from None


def element_count(dims: Iterable[int], dtype: ir.DataType | None, limits: Limits) -> int:
    """Returns the number of elements of a shape.

    Raises:
        InvalidModelError: A dimension is negative.
        LimitError: There are too many dimensions, or too many bytes.
    """
    listed = list(dims)
    if len(listed) > limits.rank:
        _refuse_rank(len(listed), limits)
    count = 1
    for dim in listed:
        if dim < 0:
            raise InvalidModelError(
                f"its shape is {listed}; a dimension cannot be negative (leave an unknown one "
                "unset or give it a name)"
            )
        count *= dim
    width = 8 if dtype in (None, ir.DataType.STRING) else dtype.bitwidth
    if 0 not in listed and count * width > limits.tensor_bytes * 8:
        raise LimitError(
            f"its shape {listed} means {count * width // 8:,} bytes; at most "
            f"{limits.tensor_bytes:,} are taken (Limits.tensor_bytes)"
        )
    return count


def _refuse_rank(rank: int, limits: Limits) -> None:
    raise LimitError(f"it has {rank:,} dimensions; at most {limits.rank} are taken (Limits.rank)")
