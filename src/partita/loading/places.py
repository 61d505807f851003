"""Where a fault stands: leaves raise without a place, the loops around them add it."""

from __future__ import annotations

from partita.errors import ModelError


def placed(
    error: ModelError, file: str, *, node: str | None = None, value: str | None = None
) -> ModelError:
    """Returns ``error`` with those parts of its place that its raiser did not know."""
    if error.file is not None:
        return error
    return type(error)(
        error.message, file=file, node=error.node or node, value=error.value or value
    )
