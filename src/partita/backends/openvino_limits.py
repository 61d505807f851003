"""Where OpenVINO computes something else than ONNX defines.

A row is an op and a function that finds, in a node, what would come out otherwise. The rows were
found by running ONNX's own backend tests node by node with float32 pinned. Dtypes come first:
OpenVINO's CPU plugin computes 64-bit integers in 32 bits and float64 in float32, and saturates
8-bit integers where ONNX wraps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np
import onnx_ir as ir

from partita.backends import conversion
from partita.backends.openvino_integers import Smallness
from partita.backends.value_types import dtype_name, spelled, type_string
from partita.ops import schemas

OPSET_CEILING = 24
"""Newest operator set whose changes OpenVINO 2026.4 follows; later attributes it leaves unread."""

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_TAKEN = frozenset(
    {
        *_FLOATS,
        ir.DataType.BOOL,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
    }
)
_SATURATED = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16})
_WRAPPING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sum", "CumSum", "ReduceSum"}
    | {"ReduceProd", "ReduceSumSquare", "ReduceL1", "MatMul", "Gemm", "BitShift", "BitwiseNot"}
)


def why_not(node: ir.Node, smallness: Smallness) -> str | None:
    """Returns what OpenVINO would compute otherwise for ``node``, or ``None``.

    Args:
        node: Any node.
        smallness: Tells which 64-bit integers fit into 32 bits.
    """
    if (node.domain, node.op_type) == ("", "Constant"):
        return "Constant computes nothing; a region of it alone is not worth an engine"
    refusal = _dtypes(node) or _newer(node) or smallness.why_not(node)
    if refusal is not None:
        return refusal
    row = _ROWS.get((node.domain, node.op_type))
    return None if row is None else row(node)


def _dtypes(node: ir.Node) -> str | None:
    for side, values in (("input", node.inputs), ("output", node.outputs)):
        for value in values:
            if value is None or not value.name:
                continue
            kind = type_string(value)
            if kind is None:
                return f"{side} '{value.name}' has no known dtype; OpenVINO needs one"
            if not isinstance(value.type, ir.TensorType):
                return f"{side} '{value.name}' is {spelled(kind)}; OpenVINO takes tensors"
            if side == "input" and value.shape is None:
                return f"input '{value.name}' has no known rank; OpenVINO's plugins need one"
            if value.shape is not None and 0 in value.shape:
                return (
                    f"{side} '{value.name}' has shape {value.shape}; OpenVINO's CPU plugin stops "
                    "the process at some empty shapes"
                )
            if value.dtype not in _TAKEN:
                reason = _REASONS.get(value.dtype, "OpenVINO does not compute it as ONNX does")
                return f"{side} '{value.name}' is {dtype_name(value.dtype)}; {reason}"
            if value.dtype in _SATURATED and node.op_type in _WRAPPING:
                return (
                    f"{side} '{value.name}' is {dtype_name(value.dtype)}; OpenVINO's "
                    f"{node.op_type} saturates where ONNX wraps around"
                )
    return None


_REASONS: Mapping[ir.DataType | None, str] = {
    ir.DataType.DOUBLE: "OpenVINO's CPU plugin computes it in float32",
    ir.DataType.BFLOAT16: "OpenVINO's Python binding hands it over as float16",
    ir.DataType.STRING: "OpenVINO takes numbers",
    ir.DataType.UINT32: "OpenVINO's CPU plugin computes it in int32",
    ir.DataType.UINT64: "OpenVINO's CPU plugin computes it in int32",
}


def _newer(node: ir.Node) -> str | None:
    """Refuses what came after the newest operator set that OpenVINO follows."""
    version = node.version or 1
    if version <= OPSET_CEILING or node.domain not in ("", "ai.onnx"):
        return None
    since = schemas.since_version(node.op_type, "", OPSET_CEILING)
    if since is None:
        return f"{node.op_type} came after opset {OPSET_CEILING}, the newest that OpenVINO follows"
    change = conversion.adaptation(node, since)
    return f"{change}, the newest that OpenVINO follows" if isinstance(change, str) else None


def _always(sentence: str) -> Callable[[ir.Node], str | None]:
    return lambda node: sentence


def _recurrent(node: ir.Node) -> str | None:
    layout = node.attributes.get_int("layout", 0)
    if layout:
        return f"attribute 'layout' is {layout}; OpenVINO's {node.op_type} computes as if it were 0"
    if node.attributes.get_int("input_forget", 0):
        return "attribute 'input_forget' is 1; OpenVINO's LSTM leaves it unread"
    holes = _input(node, 7)
    if holes is not None:
        return f"input '{holes.name}' gives peepholes; OpenVINO's LSTM leaves them unread"
    return None


def _even_window(node: ir.Node) -> str | None:
    size = node.attributes.get_int("size", 1)
    return (
        None if size % 2 else f"attribute 'size' is {size}; OpenVINO's LRN centres odd ones alone"
    )


def _max_pool(node: ir.Node) -> str | None:
    if node.attributes.get_int("storage_order", 0) and len(node.outputs) > 1:
        return "attribute 'storage_order' is 1; OpenVINO's MaxPool counts places row by row"
    return _ceiled_pool(node)


def _ceiled_pool(node: ir.Node) -> str | None:
    """The last window may not start in the padding; OpenVINO lets it."""
    if not node.attributes.get_int("ceil_mode", 0):
        return None
    kernel = node.attributes.get_ints("kernel_shape") or ()
    data = _input(node, 0)
    sizes = list(data.shape)[2:] if data is not None and data.shape is not None else []
    if len(sizes) != len(kernel) or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return "attribute 'ceil_mode' is 1 and the shape is not known"
    count = len(kernel)
    strides = list(node.attributes.get_ints("strides") or [1] * count)
    dilations = list(node.attributes.get_ints("dilations") or [1] * count)
    pads = list(node.attributes.get_ints("pads") or [0] * 2 * count)
    for i, size in enumerate(sizes):
        if not isinstance(size, int):
            return "attribute 'ceil_mode' is 1 and the shape is not known"
        reach = (kernel[i] - 1) * dilations[i] + 1
        windows = ceil((size + pads[i] + pads[i + count] - reach) / strides[i]) + 1
        if (windows - 1) * strides[i] >= size + pads[i]:
            return (
                "attribute 'ceil_mode' is 1 and the last window would start in the padding, which "
                f"OpenVINO's {node.op_type} does not leave out"
            )
    return None


def _resize(node: ir.Node) -> str | None:
    for key, plain in (
        ("keep_aspect_ratio_policy", "stretch"),
        ("antialias", 0),
        ("exclude_outside", 0),
    ):
        attribute = node.attributes.get(key)
        if attribute is not None and attribute.value != plain:
            return f"attribute '{key}' is {attribute.value!r}; OpenVINO's Resize computes otherwise"
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    scales = _input(node, 2)
    if mode == "align_corners" and scales is not None and scales.shape != ir.Shape([0]):
        return (
            "attribute 'coordinate_transformation_mode' is align_corners and scales are given; "
            "OpenVINO's Resize aligns to the rounded size"
        )
    return None


def _largest_of_boxes(node: ir.Node) -> str | None:
    if node.attributes.get_string("mode", "avg") == "avg":
        return None
    return "attribute 'mode' is max; OpenVINO's RoiAlign samples other places"


def _extreme(node: ir.Node) -> str | None:
    data = _input(node, 0)
    if data is None or data.dtype not in _FLOATS:
        return None
    return f"OpenVINO's {node.op_type} gives the largest number instead of infinity"


def _fixed_repeats(node: ir.Node) -> str | None:
    repeats = _input(node, 1)
    if repeats is None or repeats.const_value is not None:
        return None
    return f"input '{repeats.name}' is not constant; OpenVINO's Tile then returns random memory"


def _attention(node: ir.Node) -> str | None:
    scores = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3].name else None
    if scores is None:
        return None
    return f"output '{scores.name}' holds scores, which OpenVINO's Attention gives otherwise masked"


def _divides(node: ir.Node) -> str | None:
    """Gives the least integer where ONNX leaves open what to do, and may stop the process."""
    divisor = _input(node, 1)
    if divisor is None or divisor.dtype in _FLOATS:
        return None
    if divisor.const_value is not None and not np.isin(divisor.const_value.numpy(), (0, -1)).any():
        return None
    return f"input '{divisor.name}' may hold 0 or -1; OpenVINO's {node.op_type} divides by them"


def _flattening(node: ir.Node) -> str | None:
    """Opset 11 and 12 flatten from the axis on; OpenVINO works along the axis alone."""
    data, version = _input(node, 0), node.version or 1
    axis = node.attributes.get_int("axis", 1)
    rank = None if data is None or data.shape is None else len(data.shape)
    if not 11 <= version < 13 or (rank is not None and axis in (-1, rank - 1)):
        return None
    return f"attribute 'axis' is {axis}; OpenVINO's Softmax of opset {version} does not flatten"


def _dropout(node: ir.Node) -> str | None:
    if len(node.outputs) > 1 and node.outputs[1].name:
        return f"output '{node.outputs[1].name}' is a mask, which OpenVINO's Dropout does not make"
    mode = _input(node, 2)
    if mode is None or (mode.const_value is not None and not mode.const_value.numpy().any()):
        return None
    return "Dropout in training draws random numbers; OpenVINO leaves the mode unread"


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


_DRAWING = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
_ROWS: Mapping[tuple[str, str], Callable[[ir.Node], str | None]] = {
    ("", "RNN"): _recurrent,
    ("", "GRU"): _recurrent,
    ("", "LSTM"): _recurrent,
    ("", "MaxPool"): _max_pool,
    ("", "AveragePool"): _ceiled_pool,
    ("", "LRN"): _even_window,
    ("", "Resize"): _resize,
    ("", "RoiAlign"): _largest_of_boxes,
    ("", "ReduceMax"): _extreme,
    ("", "ReduceMin"): _extreme,
    ("", "Tile"): _fixed_repeats,
    ("", "Attention"): _attention,
    ("", "Dropout"): _dropout,
    ("", "Softmax"): _flattening,
    ("", "MaxRoiPool"): _always("OpenVINO's MaxRoiPool rounds its boxes otherwise than ONNX's"),
    ("", "Div"): _divides,
    ("", "Mod"): _divides,
    ("", "DFT"): _always("OpenVINO's DFT rounds more than ONNX's own tests of the op allow"),
    ("", "STFT"): _always("OpenVINO's STFT rounds more than ONNX's own tests of the op allow"),
    ("", "QuantizeLinear"): _always(
        "OpenVINO's QuantizeLinear multiplies by the reciprocal: one step off where ONNX has a tie"
    ),
    ("", "DynamicQuantizeLinear"): _always(
        "OpenVINO's DynamicQuantizeLinear is one step off where ONNX is at a tie"
    ),
    ("", "NonMaxSuppression"): _always(
        "OpenVINO's NonMaxSuppression drops boxes whose overlap equals the threshold"
    ),
    ("", "TopK"): _always("OpenVINO's TopK does not keep the order of equal values"),
    **{
        ("", op_type): _always(f"OpenVINO's {op_type} draws other numbers for a seed than ONNX's")
        for op_type in _DRAWING
    },
}
