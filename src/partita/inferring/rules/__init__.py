"""One rule an operator: what shape its outputs have. A new operator is a row in a table here.

A rule that cannot tell, or that meets attributes it cannot read, leaves the outputs unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from partita.inferring.rules import (
    control,
    elementwise,
    learning,
    movement,
    products,
    reductions,
    sources,
    windows,
)
from partita.inferring.site import Rule

_TABLES: Mapping[str, tuple[dict[str, Rule], ...]] = {
    "": (
        control.RULES,
        elementwise.RULES,
        movement.RULES,
        products.RULES,
        reductions.RULES,
        sources.RULES,
        windows.RULES,
    ),
    "ai.onnx.ml": (learning.RULES,),
    "ai.onnx.preview": (products.RULES,),
    "ai.onnx.preview.training": (learning.TRAINING_RULES,),
}

RULES: Mapping[tuple[str, str], Rule] = {
    (domain, op_type): rule
    for domain, tables in _TABLES.items()
    for table in tables
    for op_type, rule in table.items()
}
"""The rule of each op by ``(domain, op_type)``."""
