"""A plan as HTML: a fragment for notebooks and a report in a single file.

Names come from files that anyone may have written. Everything is escaped by the template engine,
control characters are spelled out first, there is no script, and the report's policy forbids all
that is not its own style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, final

from partita.partitioning.plan import Plan
from partita.partitioning.rules import HOST
from partita.reporting.placement import op_types, shares
from partita.reporting.quantities import plural
from partita.reporting.tables import Column, Table, clipped, omission, safe
from partita.reporting.text import TABLE_ROWS, placement_line, plan_tables

if TYPE_CHECKING:
    import jinja2

BAR_WIDTH = 1000
COLOURS = 6
REPORT_ROWS = 500
NODE_ROWS = 5000


@final
@dataclass(frozen=True)
class Bar:
    """One backend's part of the bar.

    Attributes:
        label: What it stands for.
        css: Its class; no text of a model becomes a class.
        start: Where it begins, of ``BAR_WIDTH``.
        width: How wide it is.
    """

    label: str
    css: str
    start: float
    width: float


def plan_html(plan: Plan) -> str:
    """Returns a plan as an HTML fragment that stands by itself, for notebooks."""
    return _render(plan, whole=False, tables=plan_tables(plan, TABLE_ROWS))


def report_html(plan: Plan, command: str = "") -> str:
    """Returns a plan as one HTML file: no script, no server, nothing loaded from elsewhere.

    Args:
        plan: The plan.
        command: The command that made it, shown at the top.
    """
    return _render(
        plan,
        whole=True,
        tables=plan_tables(plan, REPORT_ROWS),
        nodes=node_table(plan),
        command=command,
        source=plan.model.source if plan.model is not None else "plan",
        model_hash=plan.hash,
    )


def node_table(plan: Plan, limit: int | None = NODE_ROWS) -> Table:
    """Returns one row a node: where it runs."""
    columns = (Column("Node"), Column("Op"), Column("Backend"), Column("Region"))
    regions = plan.region_of
    rows = [
        (node, op, regions[node].backend, regions[node].name)
        if node in regions
        else (node, op, HOST, "")
        for node, op in op_types(plan).items()
    ]
    return Table("", columns, clipped(rows, limit), omission(len(rows), limit, "nodes", "--json"))


def bars(plan: Plan) -> list[Bar]:
    """Returns how the nodes divide among the backends and the host."""
    parts = [
        (f"{s.backend} {plural(s.nodes, 'node')} in {plural(s.regions, 'region')}", s.nodes)
        for s in shares(plan)
    ]
    styles = [f"c{i % COLOURS}" for i in range(len(parts))]
    if plan.host:
        parts.append((f"{HOST} {plural(len(plan.host), 'node')}", len(plan.host)))
        styles.append("host")
    scale = BAR_WIDTH / max(plan.node_count, 1)
    found: list[Bar] = []
    start = 0
    for (label, count), css in zip(parts, styles, strict=True):
        found.append(Bar(label, css, round(start * scale, 1), round(count * scale, 1)))
        start += count
    return found


def _render(plan: Plan, **values: object) -> str:
    style = _source("style.css")
    return (
        _environment()
        .get_template("plan.html")
        .render(
            line=placement_line(plan),
            bars=bars(plan),
            style=_markup(style),
            style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            **values,
        )
        .strip()
    )


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("partita.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["safe_text"] = safe
    return environment


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].strip()


def _markup(text: str) -> object:
    from markupsafe import Markup

    return Markup(text)
