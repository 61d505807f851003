"""Machine-readable answers: every verb's JSON carries a schema name and a version."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

VERSION = 1
"""Counts up when a field changes its meaning or goes away; new fields do not change it."""


def document(verb: str, **content: Any) -> dict[str, Any]:
    """Returns a document of schema ``partita.<verb>``."""
    return {"schema": f"partita.{verb}", "version": VERSION, **content}


def dumps(value: Any) -> str:
    """Returns a document as JSON text; what JSON cannot say (NaN, infinities) becomes ``null``."""
    return json.dumps(plain(value), indent=1, allow_nan=False)


def plain(value: Any) -> Any:
    """Returns a value as plain JSON values: mappings, lists, text, numbers, booleans, ``None``."""
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): plain(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in cast("set[Any]", value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value)
