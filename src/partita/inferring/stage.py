"""The inferring stage: dtypes and shapes of all values, small constant subgraphs folded."""

from __future__ import annotations

from partita import collector
from partita.inferring.folding import fold_constants
from partita.inferring.shapes import infer_shapes
from partita.model import Model


def infer(model: Model, *, fold: bool = True, folded_bytes: int = 2**20) -> Model:
    """Returns ``model`` with dtypes and shapes filled in where they can be known.

    Args:
        model: As ``loading`` made it; nobody else may hold it yet, for it is edited.
        fold: Whether small subgraphs of constants are replaced by their results.
        folded_bytes: Bytes of one output that folding may compute (``Limits.folded_bytes``).
    """
    with collector.paused():
        infer_shapes(model)
        if fold and fold_constants(model, folded_bytes):
            # What was computed may say sizes that could not be told before.
            infer_shapes(model)
    return model
