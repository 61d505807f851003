"""``partita backends``: what is installed, and how to install what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from partita.cli.answer import Answer
from partita.cli.options import Choices, Display
from partita.reporting.tables import Column, Table


def backends(
    display: Display,
    library: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A Python file that holds a backend.", exists=True),
    ] = None,
) -> Answer:
    """List the backends: which work, their options, and how to install the others.

    Example:
      partita backends --json
    """
    from partita.cli.opening import load_libraries

    load_libraries(Choices(library=library))
    rows = listing()
    return Answer("backends", {"backends": rows}, (backend_table(rows), option_table(rows)))


def listing() -> list[dict[str, Any]]:
    """Returns every known backend as plain data; no engine is imported.

    ``problem`` is empty unless the backend is there and does not work.
    """
    from partita.backends import registry

    return [
        {
            "name": info.name,
            "available": info.available,
            "version": info.version,
            "source": info.source,
            "description": info.description,
            "aliases": list(info.aliases),
            "options": dict(info.options),
            "install": info.install,
            "problem": "" if info.available or info.install else info.error,
        }
        for info in registry.backends()
    ]


def backend_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns one row a backend."""
    columns = (
        Column("Backend", whole=True),
        Column("Works", whole=True),
        Column("Engine", whole=True),
        Column("From"),
        Column("What it is, or what to do"),
    )
    cells = tuple(
        (
            row["name"],
            "yes" if row["available"] else "no",
            row["version"] or "-",
            row["source"],
            row["install"] or row["problem"] or row["description"],
        )
        for row in rows
    )
    return Table("Backends", columns, cells)


def option_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns one row an option, as ``--backend-option`` takes it, with its default."""
    cells = tuple(
        (f"{row['name']}.{key}", _shown(value))
        for row in rows
        for key, value in row["options"].items()
    )
    return Table("Options", (Column("Option", whole=True), Column("Default")), cells)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "(none)"  # pyright: ignore[reportUnknownArgumentType]
    return "(empty)" if value == "" else str(value)
