"""What flows between steps: numpy arrays, lists for sequences, ``None`` for absent optionals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np

Array = np.ndarray[Any, Any]


def is_array(value: object) -> TypeGuard[Array]:
    """Tells whether a value is a tensor."""
    return isinstance(value, np.ndarray)


def is_sequence(value: object) -> TypeGuard[list[Any]]:
    """Tells whether a value is a sequence of values."""
    return isinstance(value, list)


def arrays_in(values: Iterable[Any]) -> Iterator[Array]:
    """Yields the arrays among values, those in sequences included."""
    for value in values:
        if is_array(value):
            yield value
        elif is_sequence(value):
            yield from arrays_in(value)


def fresh(value: Any) -> Any:
    """Returns a copy of an array (or of a sequence of arrays) that its receiver may write to."""
    if is_array(value):
        return value.copy()
    if is_sequence(value):
        return [fresh(item) for item in value]
    return value
