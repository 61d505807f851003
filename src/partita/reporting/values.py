"""What is in an array, in one row: type, shape, and how its numbers spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, final

import numpy as np

from partita.reporting.tables import Column, Table
from partita.running.specs import dtype_name


@final
@dataclass(frozen=True)
class ValueSummary:
    """One value at run time.

    Attributes:
        name: Its name; items of a sequence are ``name[0]``, ``name[1]`` …
        dtype: Its element type, or what it is if it is no array.
        shape: Its shape, ``None`` if it is no array.
        least: Smallest number; ``None`` for text and for arrays without a finite number.
        mean: Mean of the finite numbers.
        greatest: Largest number.
        deviation: Standard deviation of the finite numbers.
        not_finite: How many elements are NaN or infinite.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    least: float | None = None
    mean: float | None = None
    greatest: float | None = None
    deviation: float | None = None
    not_finite: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON."""
        return asdict(self)


def summaries(values: Mapping[str, Any]) -> list[ValueSummary]:
    """Returns one row a value; sequences are taken apart."""
    return [row for name, value in values.items() for row in _rows(name, value)]


def value_table(title: str, rows: Sequence[ValueSummary]) -> Table:
    """Returns values as a table."""
    columns = (
        Column("Name"),
        Column("Type", whole=True),
        Column("Shape", whole=True),
        *(Column(heading, right=True) for heading in ("Min", "Mean", "Max", "Std", "Not finite")),
    )
    return Table(title, columns, tuple(_cells(row) for row in rows))


def _rows(name: str, value: Any) -> Iterator[ValueSummary]:
    if isinstance(value, list):
        for i, item in enumerate(cast("list[Any]", value)):
            yield from _rows(f"{name}[{i}]", item)
        return
    if value is None:
        yield ValueSummary(name, "none")
        return
    array: np.ndarray[Any, Any] = np.asarray(value)
    dtype = dtype_name(array.dtype)
    if dtype == "string" or array.dtype.kind == "c":
        yield ValueSummary(name, dtype, array.shape)
        return
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    odd = int(numbers.size - finite.size)
    if not finite.size:
        yield ValueSummary(name, dtype, array.shape, not_finite=odd)
        return
    with np.errstate(over="ignore"):
        spread = (finite.min(), finite.mean(), finite.max(), finite.std())
    yield ValueSummary(name, dtype, array.shape, *map(float, spread), not_finite=odd)


def _cells(row: ValueSummary) -> tuple[str, ...]:
    shape = "" if row.shape is None else "[" + ", ".join(map(str, row.shape)) + "]"
    figures = (row.least, row.mean, row.greatest, row.deviation)
    odd = f"{row.not_finite:,}" if row.not_finite else ""
    return (row.name, row.dtype, shape, *("" if f is None else f"{f:.5g}" for f in figures), odd)
