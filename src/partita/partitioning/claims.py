"""Every backend is asked about every node, once; rules speak first; nothing is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import final

import onnx_ir as ir

from partita.backends.contract import Backend, Node, Strategy
from partita.errors import ContractError, UsageError
from partita.model import Model, bodies
from partita.partitioning.dependencies import Scope
from partita.partitioning.rules import HOST, Verdicts

REGION_KEY = "partita.region"
"""Node metadata: name of the region that the node came in."""


@final
@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one backend does not run one node.

    Attributes:
        node: Name of the node.
        backend: Name of the backend.
        reason: The sentence.
        source: Who refused: ``backend``, ``rule``, ``pattern``, ``selector``, ``review``, ``size``,
            ``cost`` or ``limit``.
    """

    node: str
    backend: str
    reason: str
    source: str = "backend"


@final
@dataclass(frozen=True, eq=False)
class Slot:
    """One strategy of one backend: what a node can be given to.

    Attributes:
        backend: The backend.
        strategy: One of its strategies.
        grouped: Whether the backend tells groups of nodes apart.
    """

    backend: Backend
    strategy: Strategy
    grouped: bool


@final
@dataclass(frozen=True, eq=False)
class Claims:
    """Who takes which node of one scope.

    Attributes:
        candidates: For each node the slots that take it, most preferred first.
        refusals: Everything that was answered with a sentence.
        fixed: Numbers of nodes that a hard rule pins.
        misses: For each soft rule, how many nodes the wished backend refused.
    """

    candidates: Sequence[tuple[int, ...]]
    refusals: Sequence[Refusal]
    fixed: AbstractSet[int]
    misses: Mapping[str, int]


def slots_of(model: Model, backends: Sequence[Backend]) -> tuple[Slot, ...]:
    """Returns every strategy of every backend in order of preference."""
    slots: list[Slot] = []
    for backend in backends:
        grouped = type(backend).group is not Backend.group
        slots.extend(Slot(backend, s, grouped) for s in backend.strategies(model))
    return tuple(slots)


def claim(
    scope: Scope,
    slots: Sequence[Slot],
    verdicts: Verdicts,
    placed: Collection[int] = (),
    marked: Collection[str] = (),
) -> Claims:
    """Asks every slot about every node that is not placed already.

    Args:
        scope: The graph.
        slots: Whom to ask, most preferred first.
        verdicts: What the rules say.
        placed: Numbers of nodes that are not asked about.
        marked: Names of the regions that the model came with; they are left alone in bodies too.

    Raises:
        UsageError: A backend refuses a node that a rule pins to it.
        ContractError: A backend answered with something that is neither ``None`` nor a sentence.
    """
    names = [slot.backend.name for slot in slots]
    candidates: list[tuple[int, ...]] = []
    refusals: list[Refusal] = []
    fixed: set[int] = set()
    misses: dict[str, int] = {}
    ruled = bool(verdicts.barred or verdicts.only or verdicts.pinned or marked)
    asked = [(i, slot.strategy.why_not, names[i]) for i, slot in enumerate(slots)]
    for number, node in enumerate(scope.nodes):
        if number in placed:
            candidates.append(())
            continue
        name = str(node.name)
        taken: list[int] = []
        refused: dict[str, tuple[list[str], str]] = {}
        for i, why_not, backend in asked:
            sentence, source = None, "rule"
            if ruled:
                sentence = _ruled_out(node, backend, verdicts, marked)
            if sentence is None:
                sentence, source = why_not(node), "backend"
            if sentence is None:
                taken.append(i)
                continue
            if type(sentence) is not str or not sentence:
                raise _not_a_sentence(backend, node, sentence)
            refused.setdefault(backend, ([], source))[0].append(sentence)
        if refused:
            accepted = {names[i] for i in taken}
            for backend, (sentences, source) in refused.items():
                if backend not in accepted:
                    text = "; ".join(dict.fromkeys(sentences))
                    refusals.append(Refusal(name, backend, text, source))
        if name in verdicts.pinned:
            fixed.add(number)
            _check_pin(name, verdicts.pinned[name], [names[i] for i in taken], refusals)
        elif name in verdicts.preferred:
            taken = _prefer(verdicts.preferred[name], taken, names, misses)
        candidates.append(tuple(taken))
    return Claims(candidates, refusals, fixed, misses)


def group_keys(
    scope: Scope, slots: Sequence[Slot], labels: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Returns for each node its type (slot and group; -1: none), and for each type its slot."""
    slot_of_type: list[int] = []
    types: dict[tuple[int, Hashable], int] = {}
    result: list[int] = []
    for node, label in zip(scope.nodes, labels, strict=True):
        if label < 0:
            result.append(-1)
            continue
        slot = slots[label]
        key = (label, slot.backend.group(node) if slot.grouped else None)
        if key not in types:
            types[key] = len(slot_of_type)
            slot_of_type.append(label)
        result.append(types[key])
    return result, slot_of_type


def _ruled_out(node: Node, backend: str, verdicts: Verdicts, marked: Collection[str]) -> str | None:
    pinned = verdicts.pinned.get(str(node.name))
    if pinned is not None:
        return None if pinned[0] == backend else f"rule says {pinned[1]}"
    sentence = verdicts.why_not(node.op_type, backend)
    if sentence is not None or not node.attributes:
        return sentence
    for inner in _inner_nodes(node):
        pinned = verdicts.pinned.get(str(inner.name))
        sentence = verdicts.why_not(inner.op_type, backend)
        if pinned is not None and pinned[0] != backend:
            sentence = f"rule says {pinned[1]}"
        if inner.metadata_props.get(REGION_KEY) in marked:
            sentence = f"the model came with region '{inner.metadata_props[REGION_KEY]}'"
        if sentence is not None:
            return f"its body holds '{inner.name}': {sentence}"
    return None


def _inner_nodes(node: Node) -> Iterable[Node]:
    stack: list[ir.Graph] = [graph for _, graph in bodies(node)]
    while stack:
        for inner in stack.pop():
            yield inner
            stack.extend(graph for _, graph in bodies(inner))


def _check_pin(
    name: str, pin: tuple[str, str], accepted: Collection[str], refusals: Sequence[Refusal]
) -> None:
    backend, rule = pin
    if backend == HOST or backend in accepted:
        return
    reason = next(
        (r.reason for r in reversed(refusals) if r.node == name and r.backend == backend), ""
    )
    raise UsageError(
        f"rule '{rule}' cannot be kept: {backend} refuses '{name}': {reason}; "
        f"use prefer= instead of pin= to let such nodes go elsewhere"
    )


def _prefer(
    wish: tuple[str, str], taken: list[int], names: Sequence[str], misses: dict[str, int]
) -> list[int]:
    backend, rule = wish
    misses.setdefault(rule, 0)
    if backend == HOST:
        return []
    wished = [i for i in taken if names[i] == backend]
    if not wished:
        misses[rule] += 1
    return wished + [i for i in taken if names[i] != backend]


def _not_a_sentence(backend: str, node: Node, answer: object) -> ContractError:
    return ContractError(
        f"backend '{backend}' answered {answer!r} about '{node.name}' ({node.op_type}); "
        f"why_not must return None or a sentence"
    )
