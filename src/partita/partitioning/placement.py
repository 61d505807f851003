"""From claims to regions: label, fuse, review, and again until nothing is refused any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from partita.backends.contract import Backend, Region
from partita.errors import InvalidModelError, UnsoundPlanError, UsageError
from partita.inferring.costs import node_cost
from partita.model import Model
from partita.partitioning.claims import Claims, Refusal, Slot, group_keys
from partita.partitioning.dependencies import Scope, Units, contract
from partita.partitioning.fusion import Fusion, fuse
from partita.partitioning.rules import Rules
from partita.partitioning.selectors import grow, match_patterns
from partita.subgraph import cut

Values = Sequence[tuple[int, int, Sequence[int]]]


@final
@dataclass(frozen=True, eq=False)
class Placement:
    """Where the nodes of one scope went.

    Attributes:
        groups: The nodes of each new region, and the fields of its record that say who runs it.
        refusals: What was answered after the claims: by selectors, patterns, reviews and size.
        lower_bound: No plan that respects the claims has fewer regions in this scope.
        proved_minimal: Whether the number of regions is known to be the least.
    """

    groups: Sequence[tuple[tuple[int, ...], Mapping[str, Any]]]
    refusals: Sequence[Refusal]
    lower_bound: int
    proved_minimal: bool


@final
@dataclass(eq=False)
class _Labels:
    """The slot each node goes to, and the slots it was sent away from."""

    claims: Claims
    slots: Sequence[Slot]
    scope: Scope
    banned: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    refusals: list[Refusal] = field(default_factory=list[Refusal])

    def current(self) -> list[int]:
        """Returns for each node its most preferred slot that did not send it away (-1: none)."""
        labels = [c[0] if c else -1 for c in self.claims.candidates]
        for number, slots in self.banned.items():
            left = [s for s in self.claims.candidates[number] if s not in slots]
            labels[number] = left[0] if left else -1
        return labels

    def is_banned(self, number: int, slot: int) -> bool:
        """Tells whether a node was sent away from a slot."""
        return slot in self.banned.get(number, ())

    def is_fixed(self, numbers: Sequence[int]) -> bool:
        """Tells whether a hard rule pins one of these nodes."""
        return any(n in self.claims.fixed for n in numbers)

    def ban(self, numbers: Sequence[int], slot: int, reason: str, source: str) -> None:
        """Sends nodes away from a slot, for good.

        Raises:
            UsageError: A hard rule pins one of them.
        """
        backend = self.slots[slot].backend.name
        for number in numbers:
            name = str(self.scope.nodes[number].name)
            if number in self.claims.fixed:
                raise UsageError(f"node '{name}' is pinned to {backend}, but: {reason}")
            self.banned.setdefault(number, set()).add(slot)
            self.refusals.append(Refusal(name, backend, reason, source))


def place(
    model: Model,
    scope: Scope,
    slots: Sequence[Slot],
    claims: Claims,
    rules: Rules,
    values: Values,
    placed: Sequence[Sequence[int]],
) -> Placement:
    """Forms the regions of one scope.

    Args:
        model: The model.
        scope: One graph of it.
        slots: What nodes can be given to.
        claims: Who takes which node.
        rules: Size limits and connectedness.
        values: What flows between nodes, from :meth:`Scope.values`.
        placed: Nodes of the regions that the model came with.
    """
    labels = _Labels(claims, slots, scope)
    grown, matched = _chosen_groups(model, labels)
    units, grown = _contracted(scope, placed, matched, grown)
    reviewed: dict[tuple[int, ...], Mapping[str, str]] = {}
    while True:
        before = len(labels.refusals)
        grown = [(slot, group) for slot, group in grown if not labels.is_banned(group[0], slot)]
        closed = [*placed, *(group for _, group in grown)]
        fusion, members = _fused(labels, units, closed, values, rules)
        members += grown
        _review(model, labels, members, rules, reviewed)
        if len(labels.refusals) == before:
            break
    who = [_who(slot) for slot in slots]
    groups = [
        (
            numbers,
            {**who[slot], "attributes": reviewed[numbers]} if numbers in reviewed else who[slot],
        )
        for slot, numbers in members
    ]
    return Placement(
        groups, labels.refusals, fusion.lower_bound + len(grown), fusion.proved_minimal
    )


def region_of(
    model: Model, scope: Scope, numbers: Sequence[int], name: str, who: Mapping[str, Any]
) -> Region:
    """Returns the record of a region with its live cut.

    Args:
        model: The model.
        scope: The graph that the region lies in.
        numbers: Its nodes, ascending.
        name: Its name.
        who: The fields of :class:`Region` that say who runs it and how.
    """
    live = cut(model, [scope.nodes[n] for n in numbers])
    return Region(
        name=name,
        nodes=tuple([str(node.name) for node in live.nodes]),
        inputs=tuple([str(v.name) for v in live.inputs]),
        outputs=tuple([str(v.name) for v in live.outputs]),
        parameters=tuple([str(v.name) for v in live.parameters]),
        graph=scope.path,
        subgraph=live,
        **who,
    )


def _who(slot: Slot) -> dict[str, Any]:
    return {
        "backend": slot.backend.name,
        "strategy": slot.strategy.name,
        "options": slot.backend.options,
        "precision": slot.backend.precision(),
    }


def _chosen_groups(
    model: Model, labels: _Labels
) -> tuple[list[tuple[int, tuple[int, ...]]], list[tuple[int, ...]]]:
    """Lets selectors and patterns choose, slot by slot; what they leave goes to the next slot.

    Returns:
        Groups grown by selectors, each with its slot, and groups matched by patterns.
    """
    grown: list[tuple[int, tuple[int, ...]]] = []
    matched: list[tuple[int, ...]] = []
    for slot, entry in enumerate(labels.slots):
        backend = entry.backend
        patterns = backend.patterns()
        selector = backend.selector(model)
        if not patterns and selector is None:
            continue
        mine = {n for n, label in enumerate(labels.current()) if label == slot}
        if selector is not None:
            groups = grow(labels.scope, selector, mine.__contains__)
            grown += [(slot, group) for group in groups]
            reason, source = f"the selector of {backend.name} left it out", "selector"
        else:
            groups = match_patterns(labels.scope, patterns, mine.__contains__)
            matched += groups
            reason, source = f"no pattern of {backend.name} holds it", "pattern"
        taken = {n for group in groups for n in group}
        labels.ban(sorted(mine - taken), slot, reason, source)
    return grown, matched


def _contracted(
    scope: Scope,
    placed: Sequence[Sequence[int]],
    matched: list[tuple[int, ...]],
    grown: list[tuple[int, tuple[int, ...]]],
) -> tuple[Units, list[tuple[int, tuple[int, ...]]]]:
    """Contracts what stands for itself; groups of a selector that form a cycle are split."""
    units = contract(scope, [*placed, *matched, *(group for _, group in grown)])
    if units is not None:
        return units, grown
    units = contract(scope, [*placed, *matched])
    if units is None:
        raise InvalidModelError("the regions it came with depend on each other in a cycle")
    types = [-1] * len(units.members)
    for kind, (_, group) in enumerate(grown):
        for number in group:
            types[units.unit[number]] = kind
    pieces: dict[int, list[int]] = {}
    for unit, region in enumerate(fuse(units.predecessors, types).region):
        if region >= 0:
            pieces.setdefault(region, []).extend(units.members[unit])
    slot_of = {number: slot for slot, group in grown for number in group}
    split = [(slot_of[piece[0]], tuple(sorted(piece))) for piece in pieces.values()]
    units = contract(scope, [*placed, *matched, *(group for _, group in split)])
    if units is None:
        raise UnsoundPlanError("fusion returned groups that depend on each other in a cycle")
    return units, split


def _fused(
    labels: _Labels,
    units: Units,
    closed: Sequence[Sequence[int]],
    values: Values,
    rules: Rules,
) -> tuple[Fusion, list[tuple[int, tuple[int, ...]]]]:
    """Fuses the units under the present labels; returns regions as (slot, numbers)."""
    types, slot_of_type = group_keys(labels.scope, labels.slots, labels.current())
    unit_types = [types[members[0]] for members in units.members]
    for group in closed:
        unit_types[units.unit[group[0]]] = -1
    connected = [
        kind
        for kind, slot in enumerate(slot_of_type)
        if rules.connected or labels.slots[slot].backend.connected
    ]
    if not isinstance(units.unit, range):
        unit = units.unit
        values = [
            (
                unit[p] if p >= 0 else -1,
                size,
                sorted({unit[c] if c >= 0 else -1 for c in consumers}),
            )
            for p, size, consumers in values
        ]
    fusion = fuse(units.predecessors, unit_types, values=values, connected=connected)
    members: dict[int, list[int]] = {}
    for unit_number, region in enumerate(fusion.region):
        if region >= 0:
            members.setdefault(region, []).extend(units.members[unit_number])
    regions = [
        (slot_of_type[types[numbers[0]]], tuple(sorted(numbers)))
        for _, numbers in sorted(members.items())
    ]
    return fusion, regions


def _review(
    model: Model,
    labels: _Labels,
    members: Sequence[tuple[int, tuple[int, ...]]],
    rules: Rules,
    reviewed: dict[tuple[int, ...], Mapping[str, str]],
) -> None:
    """Sends regions away that are too small, refused in review, too costly or too many."""
    left: list[tuple[int, tuple[int, ...]]] = []
    for slot, numbers in members:
        backend = labels.slots[slot].backend
        least = rules.limit("min_nodes", backend.name) or 1
        if len(numbers) < least and not labels.is_fixed(numbers):
            reason = f"its region has {len(numbers)} of the {least} nodes that min_nodes asks for"
            labels.ban(numbers, slot, reason, "size")
            continue
        answer = _judged(model, labels, slot, numbers, reviewed)
        if answer is not None:
            labels.ban(numbers, slot, *answer)
            continue
        left.append((slot, numbers))
    if len(left) == len(members):
        _keep_largest(labels, left, rules)


def _judged(
    model: Model,
    labels: _Labels,
    slot: int,
    numbers: tuple[int, ...],
    reviewed: dict[tuple[int, ...], Mapping[str, str]],
) -> tuple[str, str] | None:
    """Asks the backend's review and compares costs; returns (sentence, source) of a refusal."""
    backend = labels.slots[slot].backend
    reviews = type(backend).why_not_region is not Backend.why_not_region
    costs = type(backend).cost is not Backend.cost
    if not (reviews or costs) or numbers in reviewed:
        return None
    region = region_of(model, labels.scope, numbers, "", _who(labels.slots[slot]))
    attributes: Mapping[str, str] = {}
    if reviews:
        answer = backend.why_not_region(region)
        if isinstance(answer, str):
            return answer, "review"
        attributes = dict(answer or {})
    own = backend.cost(region)
    for other in _others(labels, slot, numbers):
        theirs = labels.slots[other].backend.cost(region)
        if own is not None and theirs is not None and theirs < own:
            name = labels.slots[other].backend.name
            return f"costs {own:.3g} s a run here, {theirs:.3g} s on {name}", "cost"
    reviewed[numbers] = attributes
    return None


def _others(labels: _Labels, slot: int, numbers: Sequence[int]) -> list[int]:
    """Returns the other slots that would still take every one of these nodes."""
    common = set(labels.claims.candidates[numbers[0]])
    for number in numbers:
        common &= set(labels.claims.candidates[number]) - labels.banned.get(number, set())
    return sorted(common - {slot})


def _keep_largest(
    labels: _Labels, members: Sequence[tuple[int, tuple[int, ...]]], rules: Rules
) -> None:
    """Sends away the regions beyond ``max_regions``, those with the least work first."""
    by_backend: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for slot, numbers in members:
        by_backend.setdefault(labels.slots[slot].backend.name, []).append((slot, numbers))
    if rules.max_regions is None:
        return
    pools = (
        list(by_backend.items())
        if isinstance(rules.max_regions, Mapping)
        else [("", list(members))]
    )
    for name, pool in pools:
        most = rules.limit("max_regions", name)
        if most is None or len(pool) <= most:
            continue
        pool.sort(key=lambda m: (not labels.is_fixed(m[1]), -_work(labels, m[1]), m[1]))
        for slot, numbers in pool[most:]:
            if not labels.is_fixed(numbers):
                reason = (
                    f"max_regions keeps the {most} with most work; its region is not among them"
                )
                labels.ban(numbers, slot, reason, "limit")


def _work(labels: _Labels, numbers: Sequence[int]) -> int:
    """Returns floating-point operations where they are known, otherwise one a node."""
    return sum(node_cost(labels.scope.nodes[n]).flops or 1 for n in numbers)
