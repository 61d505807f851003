"""A backend that computes nothing: planning can be tested without an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Backend, Executable, Node, Region
from partita.backends.value_types import type_string
from partita.errors import RunError
from partita.inferring.costs import node_cost


@final
class NullBackend(Backend):
    """Returns zeros of the right shape, and charges modelled time.

    Options: ``claims`` (op types it claims; empty: all), ``launch`` (seconds a run), ``flops`` and
    ``bandwidth`` (operations and bytes a second).
    """

    name = "null"
    aliases = ("none",)
    options: Mapping[str, Any] = MappingProxyType(
        {"claims": (), "launch": 5e-6, "flops": 1e11, "bandwidth": 2e10}
    )

    def why_not(self, node: Node) -> str | None:
        """Claims what option ``claims`` lists, as far as shapes are known well enough for zeros."""
        claims = self.options["claims"]
        if claims and node.op_type not in claims:
            return f"{node.op_type} is not among option 'claims' ({', '.join(claims)})"
        for value in node.outputs:
            if value.name and not isinstance(value.type, ir.TensorType):
                kind = type_string(value) or "of unknown dtype"
                return f"output '{value.name}' is {kind}; null makes tensors of a known dtype"
            if value.name and value.shape is None:
                return f"output '{value.name}' has no known rank; null cannot make zeros of it"
            for size in value.shape or ():
                if not isinstance(size, int) and not _readable(size, node):
                    return (
                        f"output '{value.name}' has dimension {size}, which no input has; null "
                        "cannot make zeros of it"
                    )
        return None

    def compile(self, region: Region) -> Executable:
        """Notes the shapes of inputs and outputs; nothing else."""
        return _Zeros(region)

    def cost(self, region: Region) -> float:
        """Returns launch + operations / rate + bytes / bandwidth, in seconds."""
        seconds = float(self.options["launch"])
        for node in region.ir_nodes:
            cost = node_cost(node)
            seconds += (cost.flops or 0) / self.options["flops"]
            seconds += ((cost.bytes_read or 0) + (cost.bytes_written or 0)) / self.options[
                "bandwidth"
            ]
        return seconds


def _readable(size: ir.SymbolicDim | int, node: Node) -> bool:
    """Tells whether a dimension can be read off an input of the node."""
    return not (isinstance(size, ir.SymbolicDim) and size.value is None) and any(
        size in (v.shape or ()) for v in node.inputs if v is not None and v.const_value is None
    )


@final
class _Zeros(Executable):
    """Zeros in the shapes of a region's outputs; symbolic dimensions are read off its inputs."""

    def __init__(self, region: Region) -> None:
        self._inputs = [v.shape for v in region.cut.inputs]
        self._outputs = [(v.name, v.shape, v.dtype) for v in region.cut.outputs]

    def __call__(self, *inputs: Any) -> Sequence[Array]:
        known: dict[Any, int] = {}
        for shape, array in zip(self._inputs, inputs, strict=False):
            for size, actual in zip(shape or (), np.shape(array), strict=False):
                known.setdefault(size, actual)
        results: list[Array] = []
        for name, shape, dtype in self._outputs:
            sizes = [d if isinstance(d, int) else known.get(d, -1) for d in shape or ()]
            if -1 in sizes or dtype is None:
                raise RunError(f"null cannot tell the shape {shape} of output '{name}'")
            results.append(np.zeros(sizes, dtype.numpy()))
        return results
