"""What a node costs: floating-point operations and bytes moved, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import onnx_ir as ir

from partita.model import bodies, captures
from partita.ops.schemas import canonical_domain, known_domains

Shape = tuple[int, ...]
Rule = Callable[[ir.Node], "int | None"]
_SCAN_WITHOUT_BATCH = 9


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """The analytic cost of running one node once.

    Attributes:
        flops: Floating-point operations (a multiply-add counts as two); ``None`` if a shape is
            unknown. Moving data (Reshape, Concat, Gather …) counts as 0.
        bytes_read: Bytes of all inputs, weights and what bodies read included; ``None`` if a shape
            is unknown.
        bytes_written: Bytes of all outputs; ``None`` if a shape is unknown.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None


def node_cost(node: ir.Node) -> Cost:
    """Returns the cost of a node; parts of it are ``None`` where shapes are unknown."""
    try:
        flops = _flops(node)
    except (IndexError, ValueError):  # Ranks that do not fit the op: no engine will take it.
        flops = None
    inputs = [v for v in node.inputs if v is not None]
    if node.attributes:
        inputs += captures(node)
    outputs = [v for v in node.outputs if v.name]
    return Cost(flops, _total(inputs), _total(outputs))


def value_bytes(value: ir.Value) -> int | None:
    """Returns the bytes of a tensor value, ``None`` if its shape or dtype is unknown."""
    shape, dtype = value.shape, value.dtype
    if shape is None or dtype is None or dtype == ir.DataType.STRING:
        return None
    if not isinstance(value.type, ir.TensorType):
        return None
    count = 1
    for dim in shape:
        if type(dim) is not int:
            return None
        count *= dim
    return math.ceil(count * dtype.bitwidth / 8)


def _total(values: Sequence[ir.Value]) -> int | None:
    sizes = [value_bytes(v) for v in values]
    return None if any(s is None for s in sizes) else sum(s for s in sizes if s is not None)


def shape_of(value: ir.Value | None) -> Shape | None:
    """Returns a fully known shape, otherwise ``None``."""
    if value is None or value.shape is None:
        return None
    dims = tuple(d for d in value.shape if isinstance(d, int))
    return dims if len(dims) == len(value.shape) else None


def _flops(node: ir.Node) -> int | None:
    if canonical_domain(node.domain) not in known_domains():
        return None
    return _RULES.get(node.op_type, _ONE_FOR_EACH_OUTPUT)(node)


def _each_output(factor: int) -> Rule:
    def rule(node: ir.Node) -> int | None:
        shape = shape_of(node.outputs[0]) if node.outputs else None
        return None if shape is None else factor * math.prod(shape)

    return rule


def _each_input(factor: int) -> Rule:
    def rule(node: ir.Node) -> int | None:
        shape = shape_of(node.inputs[0]) if node.inputs else None
        return None if shape is None else factor * math.prod(shape)

    return rule


_ONE_FOR_EACH_OUTPUT = _each_output(1)


def _matmul(node: ir.Node) -> int | None:
    left, out = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if not left or out is None:
        return None
    return 2 * math.prod(out) * left[-1]


def _gemm(node: ir.Node) -> int | None:
    left, out = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if left is None or len(left) != 2 or out is None:
        return None
    inner = left[0] if node.attributes.get_int("transA", 0) else left[1]
    bias = math.prod(out) if len(node.inputs) > 2 else 0
    return 2 * math.prod(out) * inner + bias


def _conv(weights: int) -> Rule:
    def rule(node: ir.Node) -> int | None:
        weight, out = shape_of(node.inputs[weights]), shape_of(node.outputs[0])
        if weight is None or out is None:
            return None
        bias = math.prod(out) if len(node.inputs) > weights + 1 else 0
        return 2 * math.prod(out) * math.prod(weight[1:]) + bias

    return rule


def _conv_transpose(node: ir.Node) -> int | None:
    source, weight = shape_of(node.inputs[0]), shape_of(node.inputs[1])
    return (
        None if source is None or weight is None else 2 * math.prod(source) * math.prod(weight[1:])
    )


def _pool(node: ir.Node) -> int | None:
    out = shape_of(node.outputs[0])
    kernel = node.attributes.get_ints("kernel_shape", ())
    return None if out is None else math.prod(out) * math.prod(kernel)


def _recurrent(gates: int) -> Rule:
    """Weights of all gates meet the input and the state once a step and batch row."""

    def rule(node: ir.Node) -> int | None:
        source, weight = shape_of(node.inputs[0]), shape_of(node.inputs[1])
        recurrence = shape_of(node.inputs[2])
        if source is None or weight is None or recurrence is None or len(source) != 3:
            return None
        rows = source[0] * source[1]
        cell = weight[0] * recurrence[2]
        return rows * (2 * math.prod(weight) + 2 * math.prod(recurrence) + gates * 4 * cell)

    return rule


def _attention(node: ir.Node) -> int | None:
    query, key, value = (shape_of(v) for v in node.inputs[:3])
    if query is None or key is None or value is None:
        return None
    if len(query) == 4:
        batch, heads, rows, width = query
        columns, depth = key[2], value[3]
    else:
        batch, rows, width = query
        heads, columns, depth = 1, key[1], value[2]
    return batch * heads * rows * columns * (2 * width + 2 * depth + 5)


def _einsum(node: ir.Node) -> int | None:
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        shape = shape_of(value)
        if shape is None or len(term) != len(shape):
            return None
        sizes.update(zip(term, shape, strict=True))
    return 2 * math.prod(sizes.values())


def _if(node: ir.Node) -> int | None:
    """The dearer branch counts."""
    costs = [_body(graph) for _, graph in bodies(node)]
    known = [cost for cost in costs if cost is not None]
    return max(known, default=0) if len(known) == len(costs) else None


def _scan(node: ir.Node) -> int | None:
    body = next((_body(graph) for _, graph in bodies(node)), None)
    axes = node.attributes.get_ints("scan_input_axes", ())
    shape = shape_of(node.inputs[-1]) if node.inputs else None
    if body is None or not shape or (node.version or 0) < _SCAN_WITHOUT_BATCH:
        return None
    axis = axes[-1] if axes else 0
    return body * shape[axis] if -len(shape) <= axis < len(shape) else None


def _body(graph: ir.Graph) -> int | None:
    costs = [_flops(node) for node in graph]
    return None if any(c is None for c in costs) else sum(c for c in costs if c is not None)


def _unknown(node: ir.Node) -> int | None:
    """How often the body runs is not known before it runs."""
    return None


def _nothing(node: ir.Node) -> int | None:
    return 0


# fmt: off
_ONE_FOR_EACH_INPUT = (
    "ArgMax", "ArgMin", "CumProd", "CumSum", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "TopK",
)
_MOVING = (
    "BitCast", "Cast", "CastLike", "CenterCropPad", "Compress", "Concat", "ConcatFromSequence",
    "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand", "EyeLike", "Flatten",
    "Gather", "GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Optional",
    "OptionalGetElement", "OptionalHasElement", "Pad", "Range", "Reshape", "ReverseSequence",
    "Scatter", "ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice",
    "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "TensorScatter", "Tile", "Transpose",
    "Trilu", "Unique", "Unsqueeze",
)
# fmt: on

_RULES: Mapping[str, Rule] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "QLinearConv": _conv(3),
    "DeformConv": _conv(1),
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Attention": _attention,
    "RNN": _recurrent(1),
    "GRU": _recurrent(3),
    "LSTM": _recurrent(4),
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "GlobalAveragePool": _each_input(1),
    "GlobalMaxPool": _each_input(1),
    "Softmax": _each_input(5),
    "LogSoftmax": _each_input(6),
    "LayerNormalization": _each_input(8),
    "RMSNormalization": _each_input(5),
    "GroupNormalization": _each_input(8),
    "InstanceNormalization": _each_input(8),
    "BatchNormalization": _each_input(4),
    "LRN": _each_input(8),
    "Gelu": _each_input(8),
    "Erf": _each_input(8),
    "Tanh": _each_input(6),
    "Sigmoid": _each_input(4),
    "Exp": _each_input(4),
    "Resize": _each_output(7),
    "GridSample": _each_output(10),
    "If": _if,
    "Scan": _scan,
    "Loop": _unknown,
    "SequenceMap": _unknown,
    **dict.fromkeys(_ONE_FOR_EACH_INPUT, _each_input(1)),
    **dict.fromkeys(_MOVING, _nothing),
}
