"""Facts about a plan that lines, tables, HTML and JSON all show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import final

from partita.backends.contract import Region
from partita.partitioning.claims import Refusal
from partita.partitioning.plan import Plan
from partita.partitioning.rules import HOST

_QUOTED = re.compile(r"'[^']*'")
_NUMBER = re.compile(r"\d+")


@final
@dataclass(frozen=True)
class Share:
    """What one backend got.

    Attributes:
        backend: Its name.
        nodes: How many nodes it runs.
        regions: In how many regions.
    """

    backend: str
    nodes: int
    regions: int


@final
@dataclass(frozen=True)
class HostOp:
    """Nodes of one op that were left to the host.

    Attributes:
        op_type: The op.
        nodes: How many.
        reason: The shortest sentence that most of them share.
    """

    op_type: str
    nodes: int
    reason: str


@final
@dataclass(frozen=True)
class RefusedGroup:
    """Nodes of one op that run in one place because the same backends refused them alike.

    Attributes:
        op_type: The op.
        runs_on: The backend that runs them.
        reasons: ``(backend, sentence)`` of those that do not, as said of the first node.
        nodes: Names of the nodes.
    """

    op_type: str
    runs_on: str
    reasons: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]


def shares(plan: Plan) -> tuple[Share, ...]:
    """Returns what each backend got, in order of preference; those that got nothing too."""
    nodes: Counter[str] = Counter()
    regions: Counter[str] = Counter()
    for region in plan.regions:
        nodes[region.backend] += len(region.nodes)
        regions[region.backend] += 1
    order = dict.fromkeys([*(s.name for s in plan.settings), *regions])
    return tuple(Share(name, nodes[name], regions[name]) for name in order)


def host_ops(plan: Plan) -> tuple[HostOp, ...]:
    """Returns what is left to the host by op, the most frequent first, with a reason each."""
    shortest: dict[str, str] = {}
    for refusal in plan.refusals:
        if refusal.node in plan.host:
            known = shortest.get(refusal.node)
            if known is None or len(refusal.reason) < len(known):
                shortest[refusal.node] = refusal.reason
    otherwise = _unasked(plan)
    reasons: dict[str, Counter[str]] = {}
    for node, op_type in plan.host.items():
        reason = _after_subject(shortest.get(node, otherwise), op_type)
        reasons.setdefault(op_type or "?", Counter())[reason] += 1
    found = [
        HostOp(op_type, counts.total(), counts.most_common(1)[0][0])
        for op_type, counts in reasons.items()
    ]
    return tuple(sorted(found, key=lambda op: (-op.nodes, op.op_type)))


def refused_groups(plan: Plan) -> tuple[RefusedGroup, ...]:
    """Returns nodes grouped by op, place and what was said of them; host first, largest first.

    Sentences that differ only in names or numbers count as the same; the first is shown.
    """
    said: dict[str, list[Refusal]] = {}
    for refusal in plan.refusals:
        said.setdefault(refusal.node, []).append(refusal)
    for node in plan.host:
        said.setdefault(node, [])
    ops = op_types(plan)
    groups: dict[object, list[str]] = {}
    for node, refusals in said.items():
        region = plan.region_of.get(node)
        runs_on = region.backend if region is not None else HOST
        alike = tuple((r.backend, _general(r.reason)) for r in refusals if r.backend != runs_on)
        if alike or runs_on == HOST:
            groups.setdefault((ops.get(node, ""), runs_on, alike), []).append(node)
    found: list[RefusedGroup] = []
    for nodes in groups.values():
        first = nodes[0]
        region = plan.region_of.get(first)
        runs_on = region.backend if region is not None else HOST
        reasons = tuple((r.backend, r.reason) for r in said[first] if r.backend != runs_on)
        if not reasons:
            reasons = (("", _unasked(plan)),)
        found.append(RefusedGroup(ops.get(first, ""), runs_on, reasons, tuple(nodes)))
    return tuple(sorted(found, key=lambda g: (g.runs_on != HOST, -len(g.nodes), g.op_type)))


def op_types(plan: Plan) -> Mapping[str, str]:
    """Returns the op of every node that the plan knows."""
    found = dict(plan.host)
    for region in plan.regions:
        found.update(region_ops(region))
    return found


def region_ops(region: Region) -> Mapping[str, str]:
    """Returns the op of every node of a region; of a plan without a model, as its file says."""
    if region.subgraph is not None:
        return {str(node.name): node.op_type for node in region.ir_nodes}
    written: Mapping[str, str] = region.options.get("ops", {})
    return {name: written.get(name, "") for name in region.nodes}


def _unasked(plan: Plan) -> str:
    """Says why a node is on the host although nobody refused it."""
    if HOST in plan.request.prefer.values():
        return "a rule prefers the host"
    return "the plan leaves it here" if plan.settings else "no backend was asked"


def _after_subject(sentence: str, op_type: str) -> str:
    """Leaves out a subject that stands before the sentence anyway: ``Gelu is excluded …``."""
    return sentence.removeprefix(f"{op_type} is ") if op_type else sentence


@lru_cache(maxsize=4096)
def _general(sentence: str) -> str:
    return _NUMBER.sub("0", _QUOTED.sub("''", sentence))
