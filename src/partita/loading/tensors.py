"""Stored tensors: from protobuf messages to arrays, checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import onnx
import onnx_ir as ir

from partita.errors import InvalidModelError, LimitError, UnsupportedModelError
from partita.loading.external import ExternalData
from partita.loading.limits import Limits
from partita.loading.types import data_type, element_count

GIVEN = "partita.given"
"""Key of ``external_data`` that stands for a tensor already in memory."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_T = ir.DataType
_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_FIELD_OF = {
    _T.FLOAT: "float_data",
    _T.COMPLEX64: "float_data",
    _T.DOUBLE: "double_data",
    _T.COMPLEX128: "double_data",
    _T.INT64: "int64_data",
    _T.UINT32: "uint64_data",
    _T.UINT64: "uint64_data",
    _T.STRING: "string_data",
}
"""Where a tensor's elements stand when they are not in ``raw_data``; all others: int32_data."""
_WIDE = {
    "float_data": np.dtype(np.float32),
    "int32_data": np.dtype(np.int32),
    "int64_data": np.dtype(np.int64),
    "double_data": np.dtype(np.float64),
    "uint64_data": np.dtype(np.uint64),
}


@final
class TensorReader:
    """Builds tensors; external ones are mapped, all others are copied out of the message."""

    def __init__(
        self,
        external: ExternalData,
        limits: Limits,
        given: Mapping[str, ir.TensorProtocol] | None = None,
    ) -> None:
        """Sets where tensors outside the message come from.

        Args:
            external: The files beside the model.
            limits: Bounds.
            given: Tensors already in memory, by the text under the key ``GIVEN``; a file has none.
        """
        self._external, self._limits = external, limits
        self._given = given or {}
        self._densified = 0

    def read(self, proto: onnx.TensorProto) -> ir.TensorProtocol:
        """Returns the tensor as ``ir.Tensor``, ``ir.PackedTensor`` or ``ir.StringTensor``.

        Raises:
            InvalidModelError: Its data do not fit its type and shape.
            ExternalDataError: Its data lie elsewhere and cannot be had.
            LimitError: It is too large.
        """
        if self._given and proto.external_data and proto.external_data[0].key == GIVEN:
            return self._given[proto.external_data[0].value]
        dtype = data_type(proto.data_type)
        if dtype is None:
            raise InvalidModelError("the element type of a stored tensor is left open")
        count = element_count(proto.dims, dtype, self._limits)
        if proto.HasField("segment"):
            raise UnsupportedModelError("is stored in segments, which no exporter writes")
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            if dtype == _T.STRING:
                raise InvalidModelError("strings cannot be stored outside the model")
            data = self._external.read(proto.external_data, byte_count(count, dtype))
            return _tensor(data, dtype, proto)
        field = _only_field(proto, dtype)
        if dtype == _T.STRING:
            _check_length(len(proto.string_data), count, "strings", proto)
            return ir.StringTensor(
                list(proto.string_data), shape=ir.Shape(proto.dims), name=_name(proto)
            )
        if field == "raw_data":
            data = np.frombuffer(proto.raw_data, np.uint8)
            _check_length(data.size, byte_count(count, dtype), "bytes", proto)
            return _tensor(data, dtype, proto)
        return _tensor(_from_field(proto, field, dtype, count), dtype, proto)

    def read_sparse(self, proto: onnx.SparseTensorProto) -> ir.TensorProtocol:
        """Returns a sparse tensor as a dense one, which is what it stands for.

        Raises:
            InvalidModelError: Indices and values do not fit each other or the shape.
            LimitError: The dense ones would be too large together.
        """
        values, indices = self.read(proto.values), self.read(proto.indices)
        count = element_count(proto.dims, values.dtype, self._limits)
        if values.dtype == _T.STRING or values.dtype.bitwidth < 8:
            raise UnsupportedModelError(f"is sparse and of {values.dtype}, which is not taken")
        self._densified += byte_count(count, values.dtype)
        if self._densified > self._limits.densified_bytes:
            raise LimitError(
                f"the sparse weights take {self._densified:,} bytes once they are dense; at most "
                f"{self._limits.densified_bytes:,} are taken (Limits.densified_bytes)"
            )
        flat = _flat_indices(indices, list(proto.dims), count)
        given = values.numpy().reshape(-1)
        if given.size != flat.size:
            raise InvalidModelError(
                f"a sparse tensor has {given.size} values and {flat.size} indices"
            )
        dense = np.zeros(count, given.dtype)
        dense[flat] = given
        return ir.Tensor(dense.reshape(proto.dims), dtype=values.dtype, name=_name(proto.values))


def byte_count(count: int, dtype: ir.DataType) -> int:
    """Returns the bytes that ``count`` elements take when 2, 4 and 6 bit wide ones are packed."""
    return (count * dtype.bitwidth + 7) // 8


def _name(proto: onnx.TensorProto) -> str | None:
    return proto.name if proto.name.__class__ is str and proto.name else None


def _only_field(proto: onnx.TensorProto, dtype: ir.DataType) -> str:
    filled = [name for name in _FIELDS if len(_repeated(proto, name))]
    wanted = _FIELD_OF.get(dtype, "int32_data")
    if proto.HasField("raw_data"):
        if dtype == _T.STRING:
            raise InvalidModelError("strings cannot be stored in raw_data")
        if filled:
            raise InvalidModelError(f"its data stand in raw_data and again in {filled[0]}")
        return "raw_data"
    if filled and filled != [wanted]:
        raise InvalidModelError(f"its data stand in {filled[0]}; {dtype} is stored in {wanted}")
    return wanted


def _from_field(proto: onnx.TensorProto, field: str, dtype: ir.DataType, count: int) -> Bytes:
    wide = np.array(_repeated(proto, field), _WIDE[field])
    expected = count * (2 if dtype in (_T.COMPLEX64, _T.COMPLEX128) else 1)
    if dtype.bitwidth in (2, 4):
        expected = byte_count(count, dtype)
    _check_length(wide.size, expected, f"numbers in {field}", proto)
    if dtype in (_T.FLOAT6E2M3, _T.FLOAT6E3M2):
        return _packed_six_bits(wide, dtype)
    if dtype == _T.UINT32:
        return wide.astype(np.uint32).view(np.uint8)
    if field == "int32_data" and dtype.bitwidth < 32:
        narrow = np.uint16 if dtype.bitwidth == 16 else np.uint8
        return wide.astype(narrow).view(np.uint8)
    return wide.view(np.uint8)


def _packed_six_bits(wide: np.ndarray[Any, Any], dtype: ir.DataType) -> Bytes:
    if wide.size and (wide.min() < 0 or wide.max() > 63):
        raise InvalidModelError(f"int32_data holds a number that {dtype} has no room for")
    unpacked = ir.Tensor(wide.astype(np.uint8).view(dtype.numpy()), dtype=dtype)
    return np.frombuffer(unpacked.tobytes(), np.uint8)


def _tensor(data: Bytes, dtype: ir.DataType, proto: onnx.TensorProto) -> ir.TensorProtocol:
    name, shape = _name(proto), list(proto.dims)
    if dtype.bitwidth < 8:
        packed = ir.PackedTensor(data, dtype, shape=shape, name=name)
        if dtype.bitwidth == 6:
            _check_six_bits(packed)
        return packed
    if dtype == _T.BOOL and data.size and data.max() > 1:
        raise InvalidModelError(f"a bool is stored as {data.max()}; only 0 and 1 are legal")
    array = data.view(dtype.numpy()) if data.size else np.zeros(0, dtype.numpy())
    if not array.flags.aligned or data.ctypes.data % array.dtype.itemsize:
        array = np.frombuffer(data.tobytes(), dtype.numpy())
    return ir.Tensor(array.reshape(shape), dtype=dtype, name=name)


def _check_six_bits(packed: ir.PackedTensor[Any]) -> None:
    try:
        packed.numpy_packed()
    except ValueError as error:
        raise InvalidModelError(f"its packed data are no {packed.dtype}: {error}") from None


def _check_length(found: int, wanted: int, what: str, proto: onnx.TensorProto) -> None:
    if found != wanted:
        raise InvalidModelError(
            f"its data are {found:,} {what}; {ir.DataType(proto.data_type)} of shape "
            f"{list(proto.dims)} needs {wanted:,}"
        )


def _flat_indices(
    indices: ir.TensorProtocol, dims: list[int], count: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    if indices.dtype != _T.INT64:
        raise InvalidModelError(f"the indices of a sparse tensor are {indices.dtype}, not INT64")
    array = indices.numpy()
    if array.ndim == 2 and array.shape[1] == len(dims):
        if array.size and (array.min() < 0 or (array >= np.array(dims)).any()):
            raise InvalidModelError("an index of a sparse tensor lies outside its shape")
        strides = np.cumprod([1, *dims[:0:-1]])[::-1]
        array = array @ strides.astype(np.int64) if dims else array.sum(axis=1)
    if array.ndim != 1 or (array.size and (array.min() < 0 or array.max() >= count)):
        raise InvalidModelError("the indices of a sparse tensor do not fit its shape")
    if array.size > 1 and (np.diff(array) <= 0).any():
        raise InvalidModelError("the indices of a sparse tensor are not in ascending order")
    return array


def _repeated(proto: onnx.TensorProto, field: str) -> Any:
    return _GETTERS[field](proto)


_GETTERS: dict[str, Callable[[onnx.TensorProto], Any]] = {
    "float_data": lambda p: p.float_data,
    "int32_data": lambda p: p.int32_data,
    "string_data": lambda p: p.string_data,
    "int64_data": lambda p: p.int64_data,
    "double_data": lambda p: p.double_data,
    "uint64_data": lambda p: p.uint64_data,
}
