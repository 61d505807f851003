"""Gaps: what a backend claims and is known not to keep, each with the reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

from partita.errors import UnknownNameError


@final
@dataclass(frozen=True)
class Gap:
    """A case that a backend is known to get wrong although it claims it.

    A gap is a debt with a note on it. The honest way out is a sentence from ``why_not``; a gap is
    for what cannot be told from the node alone. A declared gap that works is an error too.

    Attributes:
        kind: ``notimpl`` (we could), ``notyet`` (the engine must first) or ``never`` (with reason).
        reason: What is wrong, for the reader of the report.
    """

    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


def notimpl(reason: str) -> Gap:
    """Returns a gap that the backend's author could close."""
    return Gap("notimpl", reason)


def notyet(reason: str) -> Gap:
    """Returns a gap that the engine below the backend has to close first; name its issue."""
    return Gap("notyet", reason)


def never(reason: str) -> Gap:
    """Returns a gap that will stay, and why."""
    return Gap("never", reason)


def gap_of(
    gaps: Mapping[str, Gap], case: str, claimed_ops: Collection[str]
) -> tuple[str, Gap] | None:
    """Returns the key and the gap that cover a case, if one does.

    A key is the type of an op that the backend claims in the case, or a glob over case names.
    """
    for key, gap in gaps.items():
        if key in claimed_ops or fnmatch.fnmatchcase(case, key):
            return key, gap
    return None


def check_gaps(gaps: Mapping[str, Gap], cases: Collection[str], ops: Collection[str]) -> None:
    """Checks that every gap has a reason and covers something.

    Raises:
        UnknownNameError: A key is neither an op nor a glob that matches a case; near matches named.
        ValueError: A value is not made by ``notimpl``, ``notyet`` or ``never``, or has no reason.
    """
    for key, gap in gaps.items():
        if not isinstance(gap, Gap) or len(gap.reason.split()) < 3:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(
                f"gap '{key}' is {gap!r}; write notimpl('why'), notyet('why') or never('why')"
            )
        if key not in ops and not any(fnmatch.fnmatchcase(case, key) for case in cases):
            raise UnknownNameError("op or case (of the conformance kit)", key, {*cases, *ops})
