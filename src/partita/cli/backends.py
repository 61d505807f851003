"""``partita backends``: what is installed, and how to install what is not."""

from __future__ import annotations

from partita.cli.answer import Answer
from partita.cli.options import Display


def backends(display: Display) -> Answer:
    """x"""
    return Answer("backends", {})
