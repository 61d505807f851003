"""The inferring stage: dtypes and shapes of all values, small constant subgraphs folded."""

from __future__ import annotations

from partita.inferring.shapes import infer_shapes
from partita.model import Model


def infer(model: Model, *, fold: bool = True) -> Model:
    """Returns ``model`` with dtypes and shapes filled in where they can be known.

    Args:
        model: As ``loading`` made it; nobody else may hold it yet, for it is edited.
        fold: Whether small subgraphs of constants are replaced by their results.
    """
    infer_shapes(model)
    return model
