"""``partita explain``: why a node goes where it goes."""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import TYPE_CHECKING, Annotated

import typer

from partita.cli.answer import Answer
from partita.cli.opening import opened, planned
from partita.cli.options import Choices, Display, ModelPath

if TYPE_CHECKING:
    from partita.partitioning.plan import Plan

LIMIT = 50
"""Explanations that are shown as text before the rest is only counted."""


def explain(
    model: ModelPath,
    nodes: Annotated[
        list[str],
        typer.Argument(metavar="NODE...", help="Names of nodes, or globs such as '*/attention/*'."),
    ],
    choices: Choices,
    display: Display,
) -> Answer:
    """Say why nodes go where they go: every backend's sentence, and what keeps regions apart.

    Example:
      partita explain model.onnx Softmax_42 --backend onnxruntime
    """
    plan = planned(opened(model), choices, display)
    found = [plan.explain(name) for name in _named(plan, nodes)]
    shown = [str(e) for e in (found if display.verbose else found[:LIMIT])]
    if len(shown) < len(found):
        shown.append(f"… {len(found) - len(shown):,} more nodes; see --verbose or --json")
    return Answer("explain", {"nodes": [dataclasses.asdict(e) for e in found]}, tuple(shown))


def _named(plan: Plan, wanted: list[str]) -> list[str]:
    """Returns the names that are meant; a name that fits nothing stays and becomes an error."""
    known = [*plan.region_of, *plan.host]
    found: dict[str, None] = {}
    for text in wanted:
        exact = text in plan.region_of or text in plan.host
        matched = [] if exact else fnmatch.filter(known, text)
        found.update(dict.fromkeys(matched or [text]))
    return list(found)
