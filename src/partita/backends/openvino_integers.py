"""Which 64-bit integers fit into 32 bits, in which OpenVINO's CPU plugin holds them.

Sizes, places and what is computed from them do; what comes in from outside may not.
"""

from __future__ import annotations

from typing import final

import numpy as np
import onnx_ir as ir

_WIDE = ir.DataType.INT64
# Their integers are sizes or places in a tensor.
_COUNTS = frozenset(
    {"Shape", "Size", "ArgMax", "ArgMin", "NonZero", "TopK", "NonMaxSuppression", "Unique"}
    | {"MaxPool"}
)
# What they give is as small as what they take: they move elements, or compute with sizes.
_KEEPS = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Slice"}
    | {"Gather", "GatherElements", "GatherND", "Split", "Expand", "Tile", "Pad", "Where", "Cast"}
    | {"ScatterElements", "ScatterND", "Range", "ConstantOfShape", "EyeLike", "OneHot", "Clip"}
    | {"Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Sign", "Min", "Max", "Sum", "CumSum"}
    | {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "Trilu", "DepthToSpace"}
    | {"SpaceToDepth", "Compress", "ReverseSequence"}
)
# They only move elements.
_MOVES = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Slice"}
    | {"Gather", "GatherElements", "GatherND", "Split", "Expand", "Tile"}
)
# Inputs that hold places, sizes or axes whatever they come from: larger ones are errors anyway.
_PLACES: dict[str, tuple[int, ...]] = {
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "ScatterElements": (1,),
    "ScatterND": (1,),
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Pad": (1, 3),
    "TopK": (1,),
    "OneHot": (0, 1),
    "Trilu": (1,),
    "CumSum": (1,),
    "ConstantOfShape": (0,),
    "Resize": (3,),
    "RoiAlign": (2,),
    "ReverseSequence": (1,),
    "MaxUnpool": (1, 2),
    "Col2Im": (1, 2),
    "CenterCropPad": (1,),
    "AffineGrid": (1,),
    "DFT": (1, 2),
    "Loop": (0,),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp")
    },
    "ReduceSumSquare": (1,),
}


@final
class Smallness:
    """Tells which values fit into 32 bits; answers are remembered, each value is visited once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, bool] = {}
        self._places: dict[ir.Value, bool] = {}

    def why_not(self, node: ir.Node) -> str | None:
        """Returns ``None`` if every 64-bit integer that ``node`` touches fits into 32 bits."""
        if node.op_type == "Cast" and node.outputs[0].dtype in (
            ir.DataType.FLOAT,
            ir.DataType.BOOL,
        ):
            return None  # converted before it is narrowed
        places = _PLACES.get(node.op_type, ())
        read = [("input", v) for i, v in enumerate(node.inputs) if v and i not in places]
        for side, value in (*read, *(("output", v) for v in node.outputs if v.name)):
            if value.dtype == _WIDE and not self.fits(value) and not self.is_place(value):
                return (
                    f"{side} '{value.name}' is int64 of any size; OpenVINO's CPU plugin computes "
                    "in int32"
                )
        return None

    def fits(self, value: ir.Value) -> bool:
        """Tells whether a value's integers are known to fit into 32 bits."""
        stack = [value]
        while stack:
            current = stack[-1]
            answer, waits_for = self._step(current)
            if waits_for:
                stack.extend(waits_for)
                continue
            self._known[current] = answer
            stack.pop()
        return self._known[value]

    def is_place(self, value: ir.Value) -> bool:
        """Tells whether a value is only ever used to say where: a larger one would be an error."""
        stack, seen = [value], {value}
        while stack:
            current = stack.pop()
            known = self._places.get(current)
            if known is False or current.is_graph_output():
                self._places[value] = False
                return False
            for reader, index in () if known else current.uses():
                if index in _PLACES.get(reader.op_type, ()):
                    continue
                if reader.op_type not in _MOVES or reader.domain:
                    self._places[value] = False
                    return False
                new = [v for v in reader.outputs if v not in seen]
                seen.update(new)
                stack += new
        self._places.update(dict.fromkeys(seen, True))
        return True

    def _step(self, value: ir.Value) -> tuple[bool, list[ir.Value]]:
        """Returns the answer for a value, or the values whose answers it needs first."""
        if value in self._known:
            return self._known[value], []
        if value.dtype is not None and value.dtype in _NARROW:
            return True, []
        if value.const_value is not None:
            return _constant_fits(value.const_value), []
        node = value.producer()
        if node is None or node.domain not in ("", "ai.onnx"):
            return False, []
        if node.op_type == "Constant":
            tensor = node.attributes.get_tensor("value")
            return tensor is not None and _constant_fits(tensor), []
        if node.op_type in _COUNTS:
            return value is not node.outputs[0] or node.op_type not in ("TopK", "Unique"), []
        if node.op_type not in _KEEPS:
            return False, []
        places = _PLACES.get(node.op_type, ())
        data = [v for i, v in enumerate(node.inputs) if v is not None and i not in places]
        waits_for = [v for v in data if v not in self._known and v is not value]
        if waits_for:
            return False, waits_for
        return all(self._known[v] for v in data), []


_NARROW = frozenset(
    {ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16}
    | {ir.DataType.UINT16, ir.DataType.INT32}
)


def _constant_fits(tensor: ir.TensorProtocol) -> bool:
    if tensor.dtype not in (_WIDE, ir.DataType.UINT64, ir.DataType.UINT32):
        return False
    numbers = tensor.numpy()
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    return numbers.size == 0 or bool(numbers.min() >= low and numbers.max() <= high)
