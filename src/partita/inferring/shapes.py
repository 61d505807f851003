"""Dtypes and shapes of all values, with unknown dimensions kept as names and formulas.

partita infers shapes itself: onnx's own inference runs in C++ and can be crashed, or made to fill
the memory, by a file of a few hundred bytes; loading has to be safe. It stands as a second opinion
in the tests.
"""

from __future__ import annotations

from partita.inferring.state import State
from partita.model import Model


def infer_shapes(model: Model) -> None:
    """Writes types and shapes into the values of ``model``, which is the loader's own.

    Declared inputs are taken as true. What the file declares of other values is kept where it says
    more than what follows, and dropped where it contradicts it. What stays unknown is legal.
    """
    state = State()
    state.settle_inputs(model.graph.inputs)
    state.infer_graph(model.graph)
