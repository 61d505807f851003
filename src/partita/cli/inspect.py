"""``partita inspect``: what a model holds, without any engine."""

from __future__ import annotations

from partita.cli.answer import Answer
from partita.cli.opening import opened, resized
from partita.cli.options import Display, ModelPath, Sizes


def inspect(model: ModelPath, sizes: Sizes, display: Display) -> Answer:
    """Show inputs, outputs, ops, weights and work of a model. No engine is loaded.

    Examples:
      partita inspect model.onnx
      partita inspect model.onnx --dim batch=8
    """
    from partita.cli.arrays import sizes_of
    from partita.reporting.inventory import inventory, inventory_tables

    loaded = opened(model)
    if sizes.dim:
        loaded = resized(loaded, sizes_of(sizes.dim))
    found = inventory(loaded)
    return Answer("inspect", found.to_dict(), tuple(inventory_tables(found, display.verbose)))
