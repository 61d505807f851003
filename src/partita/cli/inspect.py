"""``partita inspect``: what a model holds, without any engine."""

from __future__ import annotations

from partita.cli.answer import Answer
from partita.cli.opening import opened
from partita.cli.options import Display, ModelPath


def inspect(model: ModelPath, display: Display) -> Answer:
    """Show inputs, outputs, ops, weights and work of a model. No engine is loaded.

    Example:
      partita inspect model.onnx
    """
    from partita.reporting.inventory import inventory, inventory_tables

    found = inventory(opened(model))
    return Answer("inspect", found.to_dict(), tuple(inventory_tables(found, display.verbose)))
