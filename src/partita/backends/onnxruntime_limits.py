"""Where ONNX Runtime's kernels do less, or something else, than their registration says.

A row is an op and a function that finds, in a node, what the kernel cannot do. Every row was found
by running ONNX's own backend tests node by node; each names what would go wrong without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from partita.model import bodies

_FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)


def why_not(node: ir.Node) -> str | None:
    """Returns what ONNX Runtime's kernel for ``node`` cannot do, or ``None``."""
    row = _ROWS.get((node.domain, node.op_type))
    return None if row is None else row(node)


def _batchwise(node: ir.Node) -> str | None:
    """Raises when the session is made."""
    layout = node.attributes.get_int("layout", 0)
    if layout == 0:
        return None
    return f"attribute 'layout' is {layout}; ONNX Runtime's {node.op_type} kernel takes 0 alone"


def _changes_case(node: ir.Node) -> str | None:
    """Raises when the session is made, where the system has no such locale."""
    change = node.attributes.get_string("case_change_action", "NONE")
    if change == "NONE":
        return None
    return (
        f"attribute 'case_change_action' is {change}; ONNX Runtime's StringNormalizer kernel needs "
        "a locale that this system may lack"
    )


def _even_window(node: ir.Node) -> str | None:
    """Raises when the session is made."""
    size = node.attributes.get_int("size", 1)
    if size % 2:
        return None
    return f"attribute 'size' is {size}; ONNX Runtime's LRN kernel takes odd ones alone"


def _floor_modulo(node: ir.Node) -> str | None:
    """Raises when it runs."""
    left = node.inputs[0]
    if left is None or left.dtype not in _FLOATS:
        return _least_by_minus_one(node)
    if node.attributes.get_int("fmod", 0):
        return None
    return "attribute 'fmod' is 0; ONNX Runtime's Mod kernel takes floats with fmod = 1 alone"


def _least_by_minus_one(node: ir.Node) -> str | None:
    """Stops the process where the least integer is divided by -1."""
    divisor = _input(node, 1)
    if divisor is None or divisor.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return None
    if divisor.const_value is not None and not np.isin(divisor.const_value.numpy(), (0, -1)).any():
        return None
    return (
        f"input '{divisor.name}' may hold 0 or -1; ONNX Runtime's {node.op_type} kernel can stop "
        "the process then"
    )


def _zero_point_per_channel(node: ir.Node) -> str | None:
    """Raises when it runs."""
    points = _input(node, 3)
    if points is None or _elements(points) == 1:
        return None
    return (
        f"input '{points.name}' is not known to hold one zero point; ONNX Runtime's ConvInteger "
        "kernel takes one for all channels"
    )


def _given_shape(node: ir.Node) -> str | None:
    """Reads indices as if they counted in the smaller tensor."""
    shape = _input(node, 2)
    if shape is None:
        return None
    return (
        f"input '{shape.name}' gives an output shape; ONNX Runtime's MaxUnpool kernel puts values "
        "in other places then"
    )


def _aligned_shrinking(node: ir.Node) -> str | None:
    """Aligns to the rounded output size where ONNX aligns to the exact one."""
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    data, scales = _input(node, 0), _input(node, 2)
    if mode != "align_corners" or data is None or scales is None or _elements(scales) == 0:
        return None
    if scales.const_value is not None and data.shape is not None:
        factors = scales.const_value.numpy().tolist()
        sizes = [d if isinstance(d, int) else 0.5 for d in data.shape]
        if len(factors) == len(sizes) and all(
            f == 1 or float(f * d).is_integer() for f, d in zip(factors, sizes, strict=True)
        ):
            return None
    return (
        "attribute 'coordinate_transformation_mode' is align_corners and scales are given; ONNX "
        "Runtime's Resize kernel aligns to the rounded size"
    )


def _empty_of_bool(node: ir.Node) -> str | None:
    """Raises when it runs."""
    data = node.inputs[0]
    if data is None or data.dtype != ir.DataType.BOOL or data.shape is None or 0 not in data.shape:
        return None
    return f"input '{data.name}' is an empty bool; ONNX Runtime has no {node.op_type} of nothing"


def _rounds(node: ir.Node) -> str:
    """Leaves up to 3e-4 where the exact result is 0."""
    return f"ONNX Runtime's {node.op_type} kernel rounds more than ONNX's own tests of the op allow"


def _dropout(node: ir.Node) -> str | None:
    """Draws numbers of its own in training; before opset 12 its mask is false everywhere."""
    if (node.version or 1) < 12 and len(node.outputs) > 1 and node.outputs[1].name:
        return (
            f"output '{node.outputs[1].name}' is a mask, which ONNX Runtime's Dropout kernel of "
            "before opset 12 leaves empty"
        )
    mode = _input(node, 2)
    if mode is None or (mode.const_value is not None and not mode.const_value.numpy().any()):
        return None
    return "Dropout in training draws other random numbers in ONNX Runtime than in ONNX for a seed"


def _written_out(node: ir.Node) -> str | None:
    """Writes eight digits where ONNX's tests write the shortest text that reads back the same."""
    data = _input(node, 0)
    if data is None or data.dtype not in _FLOATS or node.outputs[0].dtype != ir.DataType.STRING:
        return None
    return f"input '{data.name}' is written as text; ONNX Runtime rounds it to eight digits"


def _attention(node: ir.Node) -> str | None:
    mask = _input(node, 3)
    scores = node.outputs[3] if len(node.outputs) > 3 and node.outputs[3].name else None
    hides = node.attributes.get_int("is_causal", 0) or (
        mask is not None and mask.dtype == ir.DataType.BOOL
    )
    if (
        scores is not None
        and hides
        and node.attributes.get_int("qk_matmul_output_mode", 0) in (1, 2)
    ):
        return (
            f"output '{scores.name}' holds masked scores, which ONNX Runtime's Attention kernel "
            "gives as the lowest number instead of -inf"
        )
    return _short_mask(node, mask)


def _short_mask(node: ir.Node, mask: ir.Value | None) -> str | None:
    """Raises when it runs."""
    key, past = _input(node, 1), _input(node, 4)
    if mask is None or key is None or key.shape is None or not mask.shape:
        return None
    length = _dimension(key, 2 if len(key.shape) == 4 else 1)
    before = 0 if past is None else _dimension(past, 2)
    width = _dimension(mask, -1)
    if length is None or before is None or width is None or width == length + before:
        return None
    return (
        f"input '{mask.name}' masks {width} of {length + before} keys; ONNX Runtime's Attention "
        "kernel needs a mask for all"
    )


def _shapeless_body(node: ir.Node) -> str | None:
    """Raises when it runs."""
    for path, graph in bodies(node):
        for value in graph.outputs:
            if value.shape is None:
                return (
                    f"output '{value.name}' of body '{path}' has no known rank; ONNX Runtime's "
                    "Scan kernel needs one"
                )
    return None


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _dimension(value: ir.Value, axis: int) -> int | None:
    if value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return None
    size = value.shape[axis]
    return size if isinstance(size, int) else None


def _elements(value: ir.Value) -> int | None:
    if value.shape is None:
        return None
    count = 1
    for size in value.shape:
        if not isinstance(size, int):
            return None
        count *= size
    return count


_ROWS: Mapping[tuple[str, str], Callable[[ir.Node], str | None]] = {
    ("", "RNN"): _batchwise,
    ("", "GRU"): _batchwise,
    ("", "LSTM"): _batchwise,
    ("", "StringNormalizer"): _changes_case,
    ("", "LRN"): _even_window,
    ("", "Div"): _least_by_minus_one,
    ("", "Mod"): _floor_modulo,
    ("", "ConvInteger"): _zero_point_per_channel,
    ("", "MaxUnpool"): _given_shape,
    ("", "Resize"): _aligned_shrinking,
    ("", "ReduceMax"): _empty_of_bool,
    ("", "ReduceMin"): _empty_of_bool,
    ("", "DFT"): _rounds,
    ("", "STFT"): _rounds,
    ("", "Dropout"): _dropout,
    ("", "Cast"): _written_out,
    ("", "CastLike"): _written_out,
    ("", "Attention"): _attention,
    ("", "Scan"): _shapeless_body,
}
