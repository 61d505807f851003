# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Weights and calls of a compiled OpenVINO model, without copies where they can be spared."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Call, Executable, Region
from partita.errors import CompileError

WRITTEN_IN_PLACE = 1 << 15
"""Outputs of this many bytes are written into a fresh array; copying a smaller one costs less."""


def shield_inputs(graph: ir.Graph) -> None:
    """Puts an ``Identity`` behind every input of a graph that the caller owns.

    Where a node hands an input through (``Dropout``, ``Sum`` of one), the frontend gives the input
    the name of the result, and it could not be found again.
    """
    for value in graph.inputs:
        readers = list(value.uses())
        if not readers:
            continue
        shield = ir.node("Identity", [value], name=f"{value.name}|shield")
        shield.outputs[0].name = f"{value.name}|shielded"
        shield.outputs[0].type, shield.outputs[0].shape = value.type, value.shape
        graph.insert_before(graph[0], shield)
        for reader, index in readers:
            reader.replace_input_with(index, shield.outputs[0])


def insert_weights(model: Any, weights: Sequence[ir.Value]) -> list[Array]:
    """Puts weights in the place of the model inputs that stand for them, by address.

    Returns:
        The arrays, which have to live as long as what is compiled from ``model``.
    """
    from openvino import op

    keep: list[Array] = []
    parameters = {p.get_friendly_name(): p for p in model.get_parameters()}
    for weight in weights:
        parameter = parameters.get(str(weight.name))
        if parameter is None or weight.const_value is None:
            continue
        array = np.require(weight.const_value.numpy(), requirements=["C", "A"])
        constant = op.Constant(_writeable(array), shared_memory=True)
        constant.set_friendly_name(parameter.get_friendly_name())
        for reader in parameter.output(0).get_target_inputs():
            reader.replace_source_output(constant.output(0))
        model.remove_parameter(parameter)
        keep.append(array)
    model.validate_nodes_and_infer_types()
    return keep


def _writeable(array: Array) -> Array:
    """Returns a view that OpenVINO takes: it wants weights writeable, and only reads them."""
    if array.flags.writeable:
        return array
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    view: Array = np.ctypeslib.as_array(memory).view(array.dtype)
    return view.reshape(array.shape)


@final
class OpenVinoExecutable(Executable):
    """A compiled model and a pool of its requests, one a thread at a time."""

    def __init__(self, region: Region, compiled: Any, keep: Sequence[Array]) -> None:
        from openvino import Tensor
        from openvino._pyopenvino import InferRequest

        self._keep = keep
        self._compiled = compiled
        self._tensor = Tensor
        # The methods of the binding itself: the Python layer over them costs as much again.
        self._infer = InferRequest.infer
        self._set_input = InferRequest.set_input_tensor
        self._set_output = InferRequest.set_output_tensor
        self._get_output = InferRequest.get_output_tensor
        ports = {name: i for i, port in enumerate(compiled.inputs) for name in _names(port)}
        # An input that no operation reads is gone from the compiled model.
        self._ports = [
            (position, ports[name]) for position, name in enumerate(region.inputs) if name in ports
        ]
        if len(self._ports) < len(compiled.inputs):
            raise CompileError("OpenVINO renamed an input of the region")
        self._numbers = [
            np.dtype(port.get_element_type().to_dtype()).num for port in compiled.inputs
        ]
        self._shapes = [_static_shape(port) for port in compiled.outputs]
        self._dtypes = [np.dtype(port.get_element_type().to_dtype()) for port in compiled.outputs]
        self._in_place = [
            shape is not None and int(np.prod(shape)) * dtype.itemsize >= WRITTEN_IN_PLACE
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        ]
        self._free: list[Any] = []

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Runs the model on a free request."""
        try:
            request = self._free.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        results: list[Any] = [None] * len(self._shapes)
        for position, port in self._ports:
            self._set_input(request, port, self._shared(inputs[position], port))
        for i, in_place in enumerate(self._in_place):
            if in_place:
                results[i] = np.empty(self._shapes[i] or (), self._dtypes[i])
                self._set_output(request, i, self._tensor(results[i], shared_memory=True))
        self._infer(request, {}, True, False)
        for i, in_place in enumerate(self._in_place):
            if not in_place:
                results[i] = self._get_output(request, i).data.copy()
        self._free.append(request)  # after a failure the request is dropped
        return results

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> Call | None:
        """Binds buffers to a request of their own; outputs need their exact static shapes."""
        for shape, dtype, array in zip(self._shapes, self._dtypes, outputs, strict=True):
            if array is not None and (shape != array.shape or dtype != array.dtype):
                return None
        request = self._compiled.create_infer_request()
        open_ports: list[int] = []
        position_of_open: list[int] = []
        given = [p for p, array in enumerate(inputs) if array is None]
        for position, port in self._ports:
            array = inputs[position]
            if array is None:
                open_ports.append(port)
                position_of_open.append(given.index(position))
            else:
                self._set_input(request, port, self._shared(array, port))
        for i, array in enumerate(outputs):
            if array is not None:
                self._set_output(request, i, self._tensor(array, shared_memory=True))
        returned = [i for i, array in enumerate(outputs) if array is None]
        return self._bound(request, list(zip(position_of_open, open_ports, strict=True)), returned)

    def _bound(
        self, request: Any, open_ports: Sequence[tuple[int, int]], returned: Sequence[int]
    ) -> Call:
        infer, set_input, get_output, shared = (
            self._infer,
            self._set_input,
            self._get_output,
            self._shared,
        )

        def call(*arrays: Any) -> Sequence[Any]:
            for position, port in open_ports:
                set_input(request, port, shared(arrays[position], port))
            infer(request, {}, True, False)
            return [get_output(request, i).data.copy() for i in returned]

        return call

    def _shared(self, array: Array, port: int) -> Any:
        """Returns a tensor over the memory of ``array``, or with a copy where it cannot be shared.

        A tensor over shared memory does not keep the array alive; the caller's frame does.
        """
        if array.dtype.num != self._numbers[port]:
            # numpy has two numbers for one kind of integer; the binding knows one of them.
            array = array.view(self._twin(array, port))
        flags = array.flags
        if flags.c_contiguous and flags.writeable:
            return self._tensor(array, shared_memory=True)
        return self._tensor(np.require(array, requirements="C"), shared_memory=False)

    def _twin(self, array: Array, port: int) -> np.dtype[Any]:
        wanted = np.dtype(self._compiled.inputs[port].get_element_type().to_dtype())
        if wanted != array.dtype:
            raise TypeError(f"an input is {array.dtype}; the region takes {wanted}")
        return wanted


def _names(port: Any) -> Sequence[str]:
    return [port.get_node().get_friendly_name(), *port.get_names()]


def _static_shape(port: Any) -> tuple[int, ...] | None:
    shape = port.get_partial_shape()
    return tuple(shape.to_shape()) if shape.is_static else None
