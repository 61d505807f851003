"""Constant folding: nodes that read constants alone are replaced by what they compute.

Everything is decided before anything is computed: the size of the output is known from its shape,
so a file of a few bytes cannot make its loading allocate or compute at will. A fold that fails
stays a node.
"""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from partita.inferring.costs import node_cost, value_bytes
from partita.model import Model, bodies
from partita.ops.schemas import is_deterministic

_LOG = logging.getLogger(__name__)
REGION_KEY = "partita.region"
MOST_NODES = 2_000
MOST_WORK = 2**28
"""Bytes moved and operations done for all folds of one model."""

# Ops that numpy computes at once. Others loop in Python (time), draw numbers, or must not be folded
# because they are small as they stand (DequantizeLinear keeps weights in 8 bits).
# fmt: off
_FOLDED = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape", "Cos", "CumSum",
    "Div", "Equal", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements",
    "Gemm", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "MatMul", "Max",
    "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad", "Pow", "Range", "Reciprocal",
    "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign", "Sin", "Size",
    "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "Transpose", "Trilu",
    "Unsqueeze", "Where", "Xor",
))
# fmt: on
_PLAIN = frozenset(
    dtype
    for dtype in ir.DataType
    if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)
    and dtype.bitwidth >= 8
    and dtype.numpy().kind in "biufc"
)
"""Element types that numpy has of its own."""


def fold_constants(model: Model, most_bytes: int = 2**20) -> int:
    """Replaces nodes that compute constants by weights with the names of their outputs.

    Nodes of a region of a partitioned model stay, and so does what makes an output of its graph.
    Weights that nobody reads any more go.

    Args:
        model: The loader's own model; shapes are inferred.
        most_bytes: Bytes of one output that may be computed.

    Returns:
        The number of nodes folded.
    """
    folder = _Folder(most_bytes)
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        folder.fold_graph(graph)
        for node in graph:
            if node.attributes and REGION_KEY not in node.metadata_props:
                waiting.extend(body for _, body in bodies(node))
    if folder.folded:
        _drop_unread_weights(model)
    return folder.folded


@final
class _Folder:
    """Folds within a budget for the whole model."""

    def __init__(self, most_bytes: int) -> None:
        self.folded = 0
        self._most_bytes = most_bytes
        self._work = 0

    def fold_graph(self, graph: ir.Graph) -> None:
        gone: list[ir.Node] = []
        for node in graph:
            if node.op_type not in _FOLDED or not self._may_fold(node):
                continue
            results = _computed(node)
            if results is None:
                continue
            for value, array in zip(node.outputs, results, strict=True):
                if value.name:
                    _replace(graph, value, array)
            gone.append(node)
            self.folded += 1
        for node in reversed(gone):
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
        graph.remove(gone)

    def _may_fold(self, node: ir.Node) -> bool:
        if self.folded >= MOST_NODES or REGION_KEY in node.metadata_props:
            return False
        inputs = [value for value in node.inputs if value is not None]
        if not inputs or not all(_is_constant(value) for value in inputs):
            return False
        if node.domain != "" or not is_deterministic(node):
            return False
        for value in node.outputs:
            size = value_bytes(value)
            if size is None or size > self._most_bytes or value.is_graph_output():
                return False
            if not isinstance(value.type, ir.TensorType) or value.dtype not in _PLAIN:
                return False
        cost = node_cost(node)
        work = (cost.bytes_read or 0) + (cost.bytes_written or 0) + (cost.flops or 0)
        if cost.flops is None or cost.bytes_read is None or self._work + work > MOST_WORK:
            return False
        self._work += work
        return True


def _is_constant(value: ir.Value) -> bool:
    tensor = value.const_value
    if tensor is None or value.producer() is not None or value.is_graph_input():
        return False
    return tensor.dtype in _PLAIN


def _computed(node: ir.Node) -> Sequence[np.ndarray[Any, Any]] | None:
    """Returns what ``node`` computes if it is as its outputs are declared, otherwise ``None``."""
    feeds = {
        str(value.name): value.const_value.numpy()
        for value in node.inputs
        if value is not None and value.const_value is not None
    }
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(ir.to_proto(node), opsets={"": node.version or 1})
            results = evaluator.run(None, feeds)
    except Exception as error:  # The evaluator may raise anything; the node just stays.
        _LOG.debug("not folded: %s '%s': %r", node.op_type, node.name, error)
        return None
    arrays = [np.asarray(result) for result in results]
    for value, array in zip(node.outputs, arrays, strict=True):
        if value.dtype is None or value.shape is None or array.dtype != value.dtype.numpy():
            return None
        if list(array.shape) != list(value.shape):
            return None
    return arrays


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray[Any, Any]) -> None:
    own = np.array(array)
    own.flags.writeable = False
    weight = ir.Value(
        name=value.name,
        type=value.type,
        shape=value.shape,
        const_value=ir.Tensor(own, dtype=value.dtype, name=value.name),
        metadata_props=dict(value.metadata_props) or None,
    )
    value.replace_all_uses_with(weight)
    value.name = f"{value.name} (folded)"
    graph.initializers.add(weight)


def _drop_unread_weights(model: Model) -> None:
    for _, graph in model.graphs():
        for name, value in list(graph.initializers.items()):
            if not value.uses() and not value.is_graph_output():
                del graph.initializers[name]
