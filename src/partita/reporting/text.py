"""A plan as text: the one line that is always shown, and the tables behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from partita.backends.contract import Region
from partita.errors import printable
from partita.partitioning.plan import BackendSetting, Plan
from partita.reporting.documents import plain
from partita.reporting.placement import host_ops, refused_groups, region_ops, shares
from partita.reporting.quantities import byte_text, plural, share_text
from partita.reporting.tables import Column, Table, clipped, omission, text

LINE_OPS = 4
"""Host ops that the placement line names."""
LINE_REASON = 60
"""Characters of a reason in the placement line."""
TABLE_ROWS = 40
"""Rows of a table before the rest is only counted."""


def placement_line(plan: Plan) -> str:
    """Returns the line that says how many nodes went where and why some went to the host.

    Example: ``partita: onnxruntime 41 of 44 nodes in 2 regions; host 3 nodes (Softmax 2: excluded
    by rule; Gelu 1: no kernel)``.
    """
    parts: list[str] = []
    for i, share in enumerate(shares(plan)):
        nodes = f"{share.nodes:,}"
        if i == 0:
            nodes += f" of {plural(plan.node_count, 'node')}"
        where = f" in {plural(share.regions, 'region')}" if share.nodes else ""
        parts.append(f"{printable(share.backend)} {nodes}{where}")
    sentences = [", ".join(parts)] if parts else []
    if plan.host:
        count = plural(len(plan.host), "node")
        sentences.append(f"host {count} ({_host_reasons(plan)})")
    if not sentences:
        sentences.append("the model has no nodes")
    if plan.mismatches:
        count = plural(len(plan.mismatches), "place")
        sentences.append(f"the plan file does not fit the model in {count}")
    return "partita: " + "; ".join(sentences)


def _host_reasons(plan: Plan) -> str:
    if not plan.settings and not plan.refusals:
        return "no backend was asked"
    ops = host_ops(plan)
    shown = [
        f"{printable(op.op_type, 40)} {op.nodes:,}: {printable(op.reason, LINE_REASON)}"
        for op in ops[:LINE_OPS]
    ]
    rest = ops[LINE_OPS:]
    if rest:
        count = plural(sum(op.nodes for op in rest), "node")
        shown.append(f"… {plural(len(rest), 'more op')}, {count}")
    return "; ".join(shown)


def plan_text(plan: Plan, rows: int | None = TABLE_ROWS, width: int | None = None) -> str:
    """Returns a plan as text: the placement line, its regions, what was refused, and a summary.

    Args:
        plan: The plan.
        rows: Rows of a table before the rest is only counted; ``None`` shows all.
        width: Characters a line; without it that of the terminal.
    """
    return placement_line(plan) + "\n\n" + text(plan_tables(plan, rows), width)


def plan_tables(plan: Plan, rows: int | None = TABLE_ROWS) -> list[Table]:
    """Returns the tables of a plan; those that would be empty are left out."""
    tables = [region_table(plan, rows), refusal_table(plan, rows), rule_table(plan)]
    tables.append(mismatch_table(plan, rows))
    return [table for table in tables if table.rows] + [summary_table(plan)]


def region_table(plan: Plan, limit: int | None = TABLE_ROWS) -> Table:
    """Returns one row a region, in order of execution."""
    shown = plan.regions if limit is None else plan.regions[:limit]
    columns = (
        Column("Region", whole=True),
        Column("Backend", whole=True),
        Column("Nodes", right=True),
        Column("Ops"),
        Column("In → out"),
        Column("Weights", right=True, whole=True),
    )
    return Table(
        "Regions",
        columns,
        tuple(_region_row(plan, region) for region in shown),
        omission(len(plan.regions), limit, "regions", "--json"),
    )


def _region_row(plan: Plan, region: Region) -> tuple[str, ...]:
    name = region.name + (f"\nin {region.graph}" if region.graph else "")
    backend = region.backend + (f" ({region.strategy})" if region.strategy else "")
    weights = byte_text(plan.parameter_bytes(region)) if region.subgraph is not None else "?"
    return (
        name,
        backend,
        f"{len(region.nodes):,}",
        ops_text(Counter(region_ops(region).values())),
        f"{_names(region.inputs)} → {_names(region.outputs)}",
        weights,
    )


def ops_text(counts: Counter[str], limit: int = 6) -> str:
    """Returns ops with their counts, the most frequent first: ``Conv 3, Relu 2``."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{op or '?'} {count:,}" for op, count in ranked[:limit]]
    if len(ranked) > limit:
        shown.append(f"… {len(ranked) - limit} more")
    return ", ".join(shown)


def _names(names: tuple[str, ...]) -> str:
    if not names:
        return "nothing"
    return ", ".join(names) if len(names) <= 2 else f"{names[0]}, … {len(names) - 1} more"


def refusal_table(plan: Plan, limit: int | None = TABLE_ROWS) -> Table:
    """Returns one row for nodes of one op that were refused alike; those on the host come first."""
    groups = refused_groups(plan)
    columns = (
        Column("Op", whole=True),
        Column("Nodes", right=True),
        Column("Runs on", whole=True),
        Column("Why not elsewhere"),
        Column("Node"),
    )
    rows = [
        (
            group.op_type or "?",
            f"{len(group.nodes):,}",
            group.runs_on,
            "\n".join(f"{b}: {reason}" if b else reason for b, reason in group.reasons),
            _names(group.nodes),
        )
        for group in (groups if limit is None else groups[:limit])
    ]
    return Table(
        "Refused",
        columns,
        clipped(rows, limit),
        omission(len(groups), limit, "groups", "partita explain, or --json"),
    )


def rule_table(plan: Plan) -> Table:
    """Returns one row a rule: whether it applied, and to what."""
    columns = (Column("Rule"), Column("Applied", whole=True), Column("To"))
    rows = tuple((r.rule, "yes" if r.applied else "no", r.detail) for r in plan.rules)
    return Table("Rules", columns, rows)


def mismatch_table(plan: Plan, limit: int | None = TABLE_ROWS) -> Table:
    """Returns one row for each thing of a plan file that no longer fits its model."""
    rows = clipped([(sentence,) for sentence in plan.mismatches], limit)
    note = omission(len(plan.mismatches), limit, "places", "--json")
    return Table("No longer fits", (Column("What"),), rows, note)


def summary_table(plan: Plan) -> Table:
    """Returns what the plan amounts to."""
    columns = (Column("Summary", whole=True), Column(""))
    return Table("", columns, tuple(summary(plan)))


def summary(plan: Plan) -> list[tuple[str, str]]:
    """Returns the figures of a plan, each with its name."""
    placed = plan.node_count - len(plan.host)
    coverage = f"{placed:,} of {plural(plan.node_count, 'node')} in regions"
    rows = [
        ("coverage", f"{coverage} ({share_text(placed, plan.node_count)})"),
        ("regions", f"{len(plan.regions):,}; {bound_text(plan)}"),
        ("bytes that cross", _crossing(plan)),
    ]
    if plan.model is not None:
        rows.append(("weights held twice", byte_text(plan.duplicated_bytes)))
    for setting in plan.settings:
        version = f" {setting.version}" if setting.version else ""
        options = ", ".join(_chosen_options(plan, setting))
        details = f"computes in {setting.precision}" + (f"; {options}" if options else "")
        rows.append((f"{setting.name}{version}", details))
    return rows


def _chosen_options(plan: Plan, setting: BackendSetting) -> Iterator[str]:
    """Yields the options of a backend that are not at their defaults (all, if it is not live)."""
    live = [type(b).options for b in plan.backends if b.name == setting.name]
    for key, value in setting.options.items():
        if not live or plain(live[0].get(key)) != plain(value):
            yield f"{key}={plain(value)}"


def bound_text(plan: Plan) -> str:
    """Says how the number of regions stands to its lower bound."""
    if plan.proved_minimal:
        return "proved the fewest that these claims allow"
    if not plan.lower_bound:
        return "lower bound not known"
    return f"at least {plan.lower_bound:,} are needed"


def _crossing(plan: Plan) -> str:
    known = byte_text(plan.crossing_bytes)
    if not plan.crossing_unknown:
        return known
    return f"{known} and {plural(plan.crossing_unknown, 'value')} of unknown size"
