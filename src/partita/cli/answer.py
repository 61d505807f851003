"""What a verb answers: one record, shown as text or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from partita.reporting.tables import Table


@final
@dataclass(frozen=True)
class Answer:
    """The answer of a verb.

    Attributes:
        verb: Names the schema of the JSON document: ``partita.<verb>``.
        content: The document's fields.
        body: What people read: lines and tables.
        code: The exit code.
        error: One line for standard error if the code is not 0.
    """

    verb: str
    content: Mapping[str, Any]
    body: tuple[str | Table, ...] = ()
    code: int = field(default=0, kw_only=True)
    error: str = field(default="", kw_only=True)
