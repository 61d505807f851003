"""The host's own kernels, all rows in one table.

They stand before ONNX's reference evaluator: elementwise and movement ops because numpy computes
them in one line, the others because the evaluator computes them wrongly or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from partita.backends.contract import Call, Node
from partita.backends.host import (
    corrections,
    detection,
    elementwise,
    movement,
    older_versions,
    recurrent,
)
from partita.backends.kernels import KernelTable

table = KernelTable("host")
for rows in (older_versions, corrections, recurrent, detection, elementwise, movement):
    rows.register(table)


def call(node: Node) -> Call:
    """Returns a kernel as a call that gives a tuple; ``table.why_not(node)`` must be ``None``."""
    function = table.emit(node)
    return function if len(node.outputs) > 1 else _as_tuple(function)


def _as_tuple(function: Callable[..., Any]) -> Call:
    def one(*inputs: Any) -> Sequence[Any]:
        result = function(*inputs)
        return cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)

    return one
