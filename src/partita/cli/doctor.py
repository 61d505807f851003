"""``partita doctor``: what is installed, and how to install what is not."""

from __future__ import annotations

from partita.cli.answer import Answer
from partita.cli.options import Display


def doctor(display: Display) -> Answer:
    """x"""
    return Answer("doctor", {})
