"""Where OpenVINO computes something else than ONNX defines.

A row is an op and a function that finds, in a node, what would come out otherwise.
"""

from __future__ import annotations

import onnx_ir as ir
from typing import final


@final
class Smallness:
    """x"""


def too_wide(node, smallness):
    return None


def why_not(node: ir.Node) -> str | None:
    for value in (*node.inputs, *node.outputs):
        if value is None or not value.name:
            continue
        if value.type is None or value.dtype is None: return f"'{value.name}' has no known dtype"
        if not isinstance(value.type, ir.TensorType): return f"'{value.name}' is no tensor"
        if value.dtype in (ir.DataType.STRING, ir.DataType.DOUBLE): return "no"
    return None
