# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""Values between numpy and ONNX Runtime, and the calls that pass them.

Most dtypes pass as numpy arrays. ONNX Runtime's Python binding has no numpy type for bfloat16,
float8 and the types below eight bits: those pass by address (in) and are read from memory (out).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Call, Executable, Region
from partita.backends.value_types import packed, unpacked
from partita.errors import CompileError

_PLAIN = "fiub"
"""Kinds of numpy dtypes that the binding knows (complex and text apart)."""


def executable(region: Region, session: Any, keep: Sequence[Any]) -> Executable:
    """Returns the call for a session: a direct one where every value passes as it is.

    Raises:
        CompileError: The region returns a sequence next to a value that must be read from memory.
    """
    values = (*region.cut.inputs, *region.cut.outputs)
    if all(_passes(v) for v in values):
        return PlainExecutable(region, session, keep)
    if any(_read_from_memory(v) for v in region.cut.outputs) and not all(
        isinstance(v.type, ir.TensorType) for v in region.cut.outputs
    ):
        raise CompileError("the region returns a sequence together with bfloat16 or 4-bit values")
    return ConvertingExecutable(region, session, keep)


def engine_value(array: Array, dtype: ir.DataType) -> Any:
    """Returns an ``OrtValue`` over the memory of ``array``; the caller keeps both alive."""
    import onnxruntime

    if dtype.bitwidth < 8:
        buffer = np.zeros(array.shape, np.uint8)  # the engine wants one byte an element, half used
        content = packed(array, dtype.bitwidth)
        buffer.reshape(-1)[: content.size] = content
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(buffer, dtype.value)
    array = np.require(array, requirements="C")
    if array.dtype.kind not in _PLAIN or array.dtype.isbuiltin != 1:
        array = array.view(np.dtype(f"u{array.itemsize}"))
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, dtype.value)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


@final
class PlainExecutable(Executable):
    """A session whose values all pass as numpy arrays, lists and ``None``."""

    def __init__(self, region: Region, session: Any, keep: Sequence[Any]) -> None:
        self._keep = keep
        self._session = session
        # The inner object spares the checks of names that the region has settled already.
        self._run = session._sess.run
        self._inputs = region.inputs
        self._outputs = list(region.outputs)
        self._bindable = all(
            isinstance(v.type, ir.TensorType) for v in _border(region)
        ) and not any(v.dtype == ir.DataType.STRING for v in _border(region))

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Runs the session."""
        return self._run(self._outputs, dict(zip(self._inputs, inputs, strict=True)), None)

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> Call | None:
        """Binds buffers through IOBinding; text, sequences and optionals cannot be bound."""
        if not self._bindable:
            return None
        return bound_call(self._session, self._inputs, self._outputs, inputs, outputs)


@final
class ConvertingExecutable(Executable):
    """A session with values that need another form on the way in or out."""

    def __init__(self, region: Region, session: Any, keep: Sequence[Any]) -> None:
        self._keep = keep
        self._session = session
        self._inputs = region.cut.inputs
        self._outputs = region.cut.outputs
        self._names = list(region.outputs)
        self._through_memory = any(_read_from_memory(v) for v in region.cut.outputs)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Converts, runs the session, and converts back."""
        feeds = {v.name: _incoming(x, v) for v, x in zip(self._inputs, inputs, strict=True)}
        if self._through_memory:
            return self._run_through_memory(feeds)
        return self._session.run(self._names, feeds)

    def _run_through_memory(self, feeds: dict[str | None, Any]) -> Sequence[Any]:
        import onnxruntime

        binding = self._session.io_binding()
        for name, value in feeds.items():
            if isinstance(value, onnxruntime.OrtValue):
                binding.bind_ortvalue_input(name, value)
            else:
                binding.bind_cpu_input(name, np.require(value, requirements="C"))
        for name in self._names:
            binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(binding)
        return [_read(r, v) for r, v in zip(binding.get_outputs(), self._outputs, strict=True)]


def bound_call(
    session: Any,
    input_names: Sequence[str],
    output_names: Sequence[str],
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
) -> Call:
    """Returns a call on fixed buffers through ONNX Runtime's IOBinding."""
    binding = session.io_binding()._iobinding
    device = _cpu()
    for name, array in zip(input_names, inputs, strict=True):
        if array is not None:
            binding.bind_input(name, array)
    for name, array in zip(output_names, outputs, strict=True):
        if array is None:
            binding.bind_output(name, device)
        else:
            binding.bind_output(name, device, array.dtype, array.shape, array.ctypes.data)
    free = tuple(n for n, a in zip(input_names, inputs, strict=True) if a is None)
    returned = tuple(i for i, a in enumerate(outputs) if a is None)
    buffers = (inputs, outputs)
    run, bind_input = session._sess.run_with_iobinding, binding.bind_input

    def call(*arrays: Any) -> Sequence[Any]:
        for name, array in zip(free, arrays, strict=True):
            bind_input(name, array)
        run(binding, None)
        if not returned:
            return ()
        results = binding.get_outputs()
        return [results[i].numpy() for i in returned]

    def fixed() -> Sequence[Any]:
        run(binding, None)
        return ()

    call.__dict__["buffers"] = fixed.__dict__["buffers"] = buffers  # alive as long as the call is
    return call if free or returned else fixed


def _cpu() -> Any:
    import onnxruntime.capi.onnxruntime_pybind11_state as state  # pyright: ignore

    return state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)


def _border(region: Region) -> tuple[ir.Value, ...]:
    return (*region.cut.inputs, *region.cut.outputs)


def _innermost(kind: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    while isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        kind = kind.elem_type
    return kind


def _dtype(value: ir.Value) -> ir.DataType:
    kind = _innermost(value.type)
    return ir.DataType.UNDEFINED if kind is None else kind.dtype


def _passes(value: ir.Value) -> bool:
    dtype = _dtype(value)
    if dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return dtype == ir.DataType.UNDEFINED
    return dtype.numpy().isbuiltin == 1


def _read_from_memory(value: ir.Value) -> bool:
    return not _passes(value) and _dtype(value) != ir.DataType.STRING


def _incoming(value: Any, formal: ir.Value) -> Any:
    dtype = _dtype(formal)
    if value is None or _passes(formal):
        return value
    if isinstance(value, list):
        return [_incoming_array(v, dtype) for v in value]
    return _incoming_array(value, dtype)


def _incoming_array(array: Array, dtype: ir.DataType) -> Any:
    if dtype == ir.DataType.STRING:
        return texts(array)
    return engine_value(array, dtype)


def texts(array: Array) -> Array:
    """Returns text as objects of type ``str``; the engine misreads numpy's fixed-width bytes."""
    if array.dtype.kind == "U":
        return array.astype(object)
    flat = [x.decode() if isinstance(x, bytes) else str(x) for x in array.reshape(-1).tolist()]
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(array.shape)


def _read(result: Any, formal: ir.Value) -> Any:
    dtype = _dtype(formal)
    if not _read_from_memory(formal):
        return result.numpy()
    shape, size = tuple(result.shape()), result.tensor_size_in_bytes()
    memory = (ctypes.c_uint8 * size).from_address(result.data_ptr())
    content = np.frombuffer(memory, np.uint8).copy()
    if dtype.bitwidth < 8:
        return unpacked(content, dtype, shape)
    return content.view(dtype.numpy()).reshape(shape)
