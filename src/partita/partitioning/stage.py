"""Partitioning: a model in, a checked plan out. The model is never edited."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import onnx_ir as ir

from partita import collector
from partita.backends.contract import Backend, Region
from partita.errors import BackendError, UnknownNameError
from partita.inferring.costs import value_bytes
from partita.model import Model, bodies
from partita.partitioning.check import check
from partita.partitioning.claims import REGION_KEY, Refusal, Slot, claim, slots_of
from partita.partitioning.crossing import crossing_bytes
from partita.partitioning.dependencies import Scope, scope_of
from partita.partitioning.placement import Values, place, region_of
from partita.partitioning.plan import BackendSetting, Plan
from partita.partitioning.rules import HOST, RuleOutcome, Rules, Verdicts, verdicts

logger = logging.getLogger(__name__)

REGIONS_KEY = "partita.regions"
"""Model metadata: JSON of what is known of each region that the model came with."""


@collector.paused()
def partition(
    model: Model,
    backends: Sequence[Backend],
    rules: Rules | None = None,
    *,
    resolve: Callable[[str], Backend],
    version: Callable[[str], str] = lambda _: "",
) -> Plan:
    """Partitions a model.

    Args:
        model: A loaded model with inferred shapes.
        backends: Live backends in order of preference; the host takes what they leave.
        rules: What the user rules.
        resolve: Gives the live backend of regions that the model came with.
        version: Gives the version of a backend's engine.

    Returns:
        The plan; an independent checker has proved that it covers every node once and has no cycle.
    """
    rules = rules or Rules()
    asked = [b for b in backends if b.name != HOST]
    if len(asked) < len(backends):  # what comes after the host is never reached
        asked = asked[: [b.name for b in backends].index(HOST)]
    for backend in asked:
        backend.before_partition(model)
    slots = slots_of(model, asked)
    names = [*(b.name for b in backends), HOST]
    decided = verdicts(rules, _all_nodes(model), dict.fromkeys(names))
    known = _regions_it_came_with(model)
    carried = {info["backend"] for info in known.values()}
    work = _Work(model, slots, decided, rules, known)
    pending = [("", model.graph)]
    while pending:
        path, graph = pending.pop()
        nested = work.take(scope_of(path, graph))
        pending.extend(reversed(nested))
    plan = Plan(
        regions=tuple(work.regions),
        host=work.host,
        refusals=tuple(work.refusals),
        rules=tuple(_outcomes(rules, decided, work)),
        settings=tuple(
            BackendSetting(b.name, version(b.name), b.options, b.precision()) for b in asked
        ),
        request=rules,
        lower_bound=work.lower_bound,
        proved_minimal=work.proved,
        crossing_bytes=work.crossing,
        crossing_unknown=work.unknown,
        backends=tuple(asked),
        came_with=frozenset(known),
        carried=tuple(_installed(resolve, carried - {b.name for b in asked})),
        model=model,
    )
    for backend in asked:
        backend.after_partition(plan)
    return plan


@final
@dataclass(eq=False)
class _Work:
    """What has been found so far, scope by scope."""

    model: Model
    slots: Sequence[Slot]
    verdicts: Verdicts
    rules: Rules
    known: Mapping[str, Mapping[str, Any]]
    regions: list[Region] = field(default_factory=list[Region])
    host: dict[str, str] = field(default_factory=dict[str, str])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    misses: dict[str, int] = field(default_factory=dict[str, int])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    lower_bound: int = 0
    proved: bool = True
    crossing: int = 0
    unknown: int = 0

    def take(self, scope: Scope) -> list[tuple[str, ir.Graph]]:
        """Places one scope; returns the bodies of nodes left to the host, which come next."""
        placed = _placed_groups(scope, self.known)
        inside = {n for group in placed.values() for n in group}
        claims = claim(scope, self.slots, self.verdicts, inside, self.known)
        values, unknown_rows = scope.values(value_bytes)
        found = place(
            self.model, scope, self.slots, claims, self.rules, values, list(placed.values())
        )
        groups = [
            *found.groups,
            *((tuple(numbers), self.known[k]) for k, numbers in placed.items()),
        ]
        numbers = [group for group, _ in groups]
        names = dict(enumerate(placed, len(found.groups)))
        order, home = checked(scope, numbers)
        crossing, unknown = crossings(values, unknown_rows, home)
        self.regions += [
            region_of(
                self.model,
                scope,
                numbers[i],
                names.get(i) or self._name(groups[i][1]),
                groups[i][1],
            )
            for i in order
        ]
        taken = {n for group in numbers for n in group}
        self.host.update(
            (str(node.name), node.op_type) for n, node in enumerate(scope.nodes) if n not in taken
        )
        self.refusals += claims.refusals
        self.refusals += found.refusals
        self.misses.update({k: self.misses.get(k, 0) + v for k, v in claims.misses.items()})
        self.lower_bound += found.lower_bound + len(placed)
        self.proved = self.proved and found.proved_minimal
        self.crossing += crossing
        self.unknown += unknown
        return [
            body
            for n, node in enumerate(scope.nodes)
            if n not in taken and node.attributes
            for body in bodies(node)
        ]

    def _name(self, who: Mapping[str, Any]) -> str:
        """Names a new region ``<backend>_<k>``, leaving out names that the model came with."""
        backend = who["backend"]
        number = self.counts.get(backend, 0)
        while f"{backend}_{number}" in self.known:
            number += 1
        self.counts[backend] = number + 1
        return f"{backend}_{number}"


def checked(
    scope: Scope, numbers: Sequence[Sequence[int]], titles: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Proves the regions of a scope sound.

    Returns:
        An execution order of the regions, and for each node its region (-1: host).

    Raises:
        UnsoundPlanError: Some node is in two regions, or the contracted graph has a cycle.
    """
    order = check(scope.predecessors, numbers, lambda n: str(scope.nodes[n].name), titles=titles)
    home = [-1] * len(scope.nodes)
    for index, group in enumerate(numbers):
        for number in group:
            home[number] = index
    return order, home


def crossings(values: Values, unknown_rows: Sequence[int], home: Sequence[int]) -> tuple[int, int]:
    """Returns the bytes that cross, and how often values of unknown size cross."""
    ones = [(values[i][0], 1, values[i][2]) for i in unknown_rows]
    return crossing_bytes(home, values), crossing_bytes(home, ones)


def _placed_groups(scope: Scope, known: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    if not known:
        return groups
    for number, node in enumerate(scope.nodes):
        name = node.metadata_props.get(REGION_KEY)
        if name in known:
            groups.setdefault(str(name), []).append(number)
    return groups


def _regions_it_came_with(model: Model) -> dict[str, dict[str, Any]]:
    text = model.ir.metadata_props.get(REGIONS_KEY)
    fields = ("backend", "strategy", "attributes", "precision")
    written: dict[str, dict[str, Any]] = json.loads(text) if text else {}
    return {
        name: {key: info[key] for key in fields if key in info} for name, info in written.items()
    }


def _installed(resolve: Callable[[str], Backend], names: Collection[str]) -> Iterator[Backend]:
    """Yields live backends; a region whose backend is absent falls to another when compiled."""
    for name in sorted(names):
        try:
            yield resolve(name)
        except (BackendError, UnknownNameError) as error:
            logger.warning("regions of %s that the model came with: %s", name, error)


def _all_nodes(model: Model) -> Iterator[ir.Node]:
    for _, graph in model.graphs():
        yield from graph


def _outcomes(rules: Rules, decided: Verdicts, work: _Work) -> Iterator[RuleOutcome]:
    """Says of each rule whether it applied."""
    by_rule: dict[str, set[str]] = {}
    for refusal in work.refusals:
        if refusal.source == "rule":
            by_rule.setdefault(refusal.reason, set()).add(refusal.node)
    for backend, sentences in decided.barred.items():
        for op, sentence in sentences.items():
            count = len(by_rule.get(sentence, ()))
            rule = f"excluded_ops {op}" + (f" for {backend}" if backend else "")
            yield _outcome(rule, count, f"no node left to decide is a {op}")
    for backend, (_, sentence) in decided.only.items():
        count = len(by_rule.get(sentence, ()))
        yield _outcome(
            "included_ops" + (f" for {backend}" if backend else ""),
            count,
            "every node was included",
        )
    for table in (decided.pinned, decided.preferred):
        for rule in dict.fromkeys(rule for _, rule in table.values()):
            nodes = [n for n, (_, text) in table.items() if text == rule]
            missed = work.misses.get(rule, 0)
            detail = f"{len(nodes) - missed} of {len(nodes)} nodes"
            if missed:
                detail += f"; {missed} refused by {table[nodes[0]][0]}"
            yield RuleOutcome(rule, missed < len(nodes), detail)
    for rule, source, value in (
        ("min_nodes", "size", rules.min_nodes),
        ("max_regions", "limit", rules.max_regions),
    ):
        if value not in (1, None):
            count = len({r.node for r in work.refusals if r.source == source})
            yield _outcome(f"{rule} {value}", count, "no region was given up for it")


def _outcome(rule: str, count: int, otherwise: str) -> RuleOutcome:
    return RuleOutcome(rule, count > 0, _nodes(count) if count else otherwise)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
