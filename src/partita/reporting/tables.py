"""Tables as records; text, HTML and terminals show the same rows."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from partita.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

TEXT_WIDTH = 120
"""Columns of a text that goes to no terminal."""
LEAST_WIDTH = 60


@final
@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        heading: Its title.
        right: Whether it holds numbers, which stand to the right.
        whole: Whether its cells are never broken over lines.
    """

    heading: str
    right: bool = False
    whole: bool = False


@final
@dataclass(frozen=True)
class Table:
    """Rows of text under headings. Cells are made safe for terminals when they are shown.

    Attributes:
        title: What the rows are.
        columns: The columns, in order.
        rows: One tuple of cells a row; a cell may hold several lines.
        note: One line below, such as how many rows were left out.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def clipped(rows: Sequence[tuple[str, ...]], limit: int | None) -> tuple[tuple[str, ...], ...]:
    """Returns at most ``limit`` rows."""
    return tuple(rows if limit is None else rows[:limit])


def omission(total: int, limit: int | None, what: str, where: str) -> str:
    """Returns the note that says how many rows are not shown and where they are, or nothing."""
    if limit is None or total <= limit:
        return ""
    return f"… {total - limit:,} more {what}; see {where}"


def safe(cell: str, limit: int = 400) -> str:
    """Returns a cell without control characters; its line breaks stay."""
    return "\n".join(printable(line, limit) for line in cell.split("\n"))


def renderable(table: Table) -> RenderableType:
    """Returns a table as ``rich`` prints it. Nothing in it is read as markup."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    headed = any(column.heading for column in table.columns)
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=headed)
    for column in table.columns:
        shown.add_column(
            Text(column.heading),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.whole,
        )
    for row in table.rows:
        shown.add_row(*(Text(safe(cell)) for cell in row))
    # Title and note stand outside: inside they would be folded to the width of the columns.
    title = [Text(safe(table.title), style="bold")] if table.title else []
    note = [Text(safe(table.note), style="dim")] if table.note else []
    return Group(*title, shown, *note)


def text(tables: Sequence[Table], width: int | None = None) -> str:
    """Returns tables as plain text without colours.

    Args:
        tables: What to show.
        width: Characters a line; without it that of the terminal, or 120 where there is none.
    """
    from rich.console import Console

    if width is None:
        width = shutil.get_terminal_size((TEXT_WIDTH, 50)).columns
    sink = io.StringIO()
    console = Console(
        file=sink,
        width=max(width, LEAST_WIDTH),
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        highlight=False,
    )
    for i, table in enumerate(tables):
        if i:
            console.print()
        console.print(renderable(table))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())
