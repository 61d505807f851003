"""Names that are unique in the whole model: plans and reports speak of nodes and values by name."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import final

import onnx_ir as ir

from partita.model import bodies


def make_names_unique(model: ir.Model) -> None:
    """Gives every node and every value a name of its own, in the whole model, bodies included.

    A name that is unique stays as it is. Of equal ones, the outermost and first keeps it. A node
    without a name is called ``<op_type>_<position in the model>``. An output left out keeps its
    empty name.
    """
    nodes = _Names()
    values = _Names()
    graphs = list(graphs_outermost_first(model.graph))
    for graph in graphs:
        nodes.reserve(node.name for node in graph)
    position = 0
    for graph in graphs:
        for value in (*graph.inputs, *graph.initializers.values()):
            _rename(value, values.take(value.name or "value"))
        for node in graph:
            if not nodes.is_first(node.name):
                node.name = nodes.take(f"{node.op_type}_{position}")
            position += 1
            for index, value in enumerate(node.outputs):
                if value.name:
                    _rename(value, values.take(value.name))
                elif value.uses() or value.is_graph_output():
                    _rename(value, values.take(f"{node.name}_output_{index}"))


@final
class _Names:
    """Hands out each name once; what is taken gets the next free number behind it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._waiting: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def reserve(self, names: Iterator[str | None]) -> None:
        """Keeps given names for their first bearers."""
        self._waiting.update(name for name in names if name)

    def is_first(self, name: str | None) -> bool:
        """Tells whether ``name`` is a reserved one whose first bearer asks, and takes it."""
        if not name or name not in self._waiting:
            return False
        self._waiting.remove(name)
        self._taken.add(name)
        return True

    def take(self, name: str) -> str:
        """Returns ``name``, or with a number if it is gone."""
        free = name
        while free in self._taken or free in self._waiting:
            self._numbers[name] += 1
            free = f"{name}_{self._numbers[name]}"
        self._taken.add(free)
        return free


def _rename(value: ir.Value, name: str) -> None:
    if value.name == name:
        return
    # A tensor may be shared with other values, or be the caller's: it keeps its own name.
    tensor, value.const_value = value.const_value, None
    value.name = name
    value.const_value = tensor


def graphs_outermost_first(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yields ``graph`` and all bodies in it; what is deeper comes later."""
    waiting = deque([graph])
    while waiting:
        current = waiting.popleft()
        yield current
        for node in current:
            if node.attributes:
                waiting.extend(body for _, body in bodies(node))
