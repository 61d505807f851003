"""Says in one sentence how two sets of outputs differ, if they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partita.running.compare import compare_outputs
from partita.running.specs import dtype_name
from partita.running.values import is_sequence

Tolerances = Mapping[str, tuple[float, float]]

DEFAULT_TOLERANCES: Tolerances = {
    "float64": (1e-3, 1e-7),
    "float32": (1e-3, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (2**-6, 1e-2),
    "complex64": (1e-3, 1e-5),
    "complex128": (1e-3, 1e-7),
}
"""Relative and absolute tolerance by element type; types not listed must agree exactly."""


def disagreement(
    names: Sequence[str],
    found: Sequence[Any],
    wanted: Sequence[Any],
    tolerances: Tolerances = DEFAULT_TOLERANCES,
    *,
    numbers: bool = True,
) -> str:
    """Returns ``""`` if two sets of outputs agree, otherwise what differs.

    Args:
        names: Names of the outputs.
        found: What came out.
        wanted: What should have come out.
        tolerances: Relative and absolute tolerance by element type.
        numbers: Whether numbers and sizes are compared, or types and ranks alone.
    """
    if len(found) != len(wanted):
        return f"{len(found)} outputs, {len(wanted)} wanted"
    problems: list[str] = []
    for name, a, b in zip(names, found, wanted, strict=True):
        if not numbers:
            a, b = _blank(a), _blank(b)
        rtol, atol = tolerances.get(_element_type(b), (0.0, 0.0))
        row = compare_outputs([name], [a], [b], rtol=rtol, atol=atol)
        if not row:
            problems.append(str(row))
    return "\n".join(problems)


def _element_type(value: Any) -> str:
    if is_sequence(value):
        return _element_type(value[0]) if value else ""
    return dtype_name(np.asarray(value).dtype)


def _blank(value: Any) -> Any:
    """Returns a single zero of the same type and rank in place of numbers."""
    if value is None:
        return None
    if is_sequence(value):
        return [_blank(item) for item in value]
    array = np.asarray(value)
    return np.zeros((1,) * array.ndim, array.dtype)
