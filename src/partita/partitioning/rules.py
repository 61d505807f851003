"""What the user rules: which nodes no backend gets, and which one backend must or should get."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast, final

import onnx_ir as ir

from partita.errors import OptionError, UnknownNameError
from partita.ops.schemas import known_ops

HOST = "host"


@final
@dataclass(frozen=True)
class Rules:
    """Everything that a user can ask of a partition, as written.

    Attributes:
        excluded_ops: Op types that no backend gets; or, per backend, that this one does not get.
        included_ops: The only op types that backends get; or, per backend, that this one gets.
        min_nodes: A region with fewer nodes is given up; or the number per backend.
        max_regions: At most so many regions (the largest by work stay); or the number per backend.
        pin: ``{glob over node names: backend}``; the backend must take them, otherwise an error.
        prefer: The same, but where the backend refuses, the usual order goes on.
        connected: Whether every region must be one connected piece.
    """

    excluded_ops: Collection[str] | Mapping[str, Collection[str]] = ()
    included_ops: Collection[str] | Mapping[str, Collection[str]] | None = None
    min_nodes: int | Mapping[str, int] = 1
    max_regions: int | Mapping[str, int] | None = None
    pin: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prefer: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    connected: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns only what differs from the defaults, as plain JSON values."""
        default = Rules()
        return {
            key: _plain(getattr(self, key))
            for key in self.__dataclass_fields__
            if _plain(getattr(self, key)) != _plain(getattr(default, key))
        }

    def limit(self, key: str, backend: str) -> int | None:
        """Returns ``min_nodes`` or ``max_regions`` as it stands for ``backend``."""
        value: int | Mapping[str, int] | None = getattr(self, key)
        if isinstance(value, Mapping):
            return value.get(backend, 1 if key == "min_nodes" else None)
        return value


@final
@dataclass(frozen=True)
class RuleOutcome:
    """Whether a rule applied, and to what.

    Attributes:
        rule: The rule as the user would write it.
        applied: Whether it changed or fixed anything.
        detail: How many nodes, or why it did not apply.
    """

    rule: str
    applied: bool
    detail: str


@final
@dataclass(frozen=True)
class Verdicts:
    """The rules, looked up for the nodes of one model.

    Attributes:
        barred: For each backend, op type → the sentence that bars it. Key ``""``: every backend.
        only: For each backend, the op types it may get. Key ``""``: every backend.
        pinned: Node name → (backend, rule text), hard.
        preferred: Node name → (backend, rule text), soft.
    """

    barred: Mapping[str, Mapping[str, str]]
    only: Mapping[str, tuple[frozenset[str], str]]
    pinned: Mapping[str, tuple[str, str]]
    preferred: Mapping[str, tuple[str, str]]

    def why_not(self, op_type: str, backend: str) -> str | None:
        """Returns the sentence by which a rule keeps an op type from a backend, if one does."""
        for key in ("", backend):
            sentence = self.barred.get(key, {}).get(op_type)
            if sentence is not None:
                return sentence
            allowed = self.only.get(key)
            if allowed is not None and op_type not in allowed[0]:
                return allowed[1]
        return None


def verdicts(rules: Rules, nodes: Iterable[ir.Node], backends: Collection[str]) -> Verdicts:
    """Looks the rules up for the nodes of a model.

    Args:
        rules: What the user wrote.
        nodes: All nodes of the model, bodies included.
        backends: Names of the backends taking part, host included.

    Raises:
        UnknownNameError: A rule names an op, node, glob or backend that does not exist.
    """
    if (
        rules == Rules()
    ):  # the usual case; walking a large model for it would cost as much as fusing
        return Verdicts({}, {}, {}, {})
    listed = list(nodes)
    ops = {node.op_type for node in listed}
    names = [str(node.name) for node in listed]
    for key in ("min_nodes", "max_regions"):
        _check_limit(key, getattr(rules, key), backends)
    barred: dict[str, dict[str, str]] = {}
    for backend, op_types in _per_backend(rules.excluded_ops, "excluded_ops", backends):
        _check_ops(op_types, ops)
        where = f" for {backend}" if backend else ""
        barred[backend] = {op: f"{op} is excluded{where} by rule" for op in op_types}
    only: dict[str, tuple[frozenset[str], str]] = {}
    if rules.included_ops is not None:
        for backend, op_types in _per_backend(rules.included_ops, "included_ops", backends):
            _check_ops(op_types, ops)
            listing = ", ".join(sorted(op_types)) or "nothing"
            only[backend] = (frozenset(op_types), f"rule includes only {listing}")
    return Verdicts(
        barred,
        only,
        _match(rules.pin, names, backends, "pin"),
        _match(rules.prefer, names, backends, "prefer"),
    )


def _match(
    wanted: Mapping[str, str], names: list[str], backends: Collection[str], kind: str
) -> dict[str, tuple[str, str]]:
    """Later globs win over earlier ones, and an exact name over every glob."""
    known = set(names)
    found: dict[str, tuple[str, str]] = {}
    exact: dict[str, tuple[str, str]] = {}
    for glob, backend in wanted.items():
        if backend not in backends:
            raise UnknownNameError(
                f"backend (of this partition, in rule {kind})", backend, backends
            )
        target = (backend, f"{kind} {glob} → {backend}")
        if glob in known:
            exact[glob] = target
            continue
        pattern = re.compile(fnmatch.translate(glob))
        matched = [name for name in names if pattern.match(name)]
        if not matched:
            raise UnknownNameError(f"node (for rule {kind})", glob, names)
        found.update((name, target) for name in matched)
    found.update(exact)
    return found


def _per_backend(
    value: Collection[str] | Mapping[str, Collection[str]], rule: str, backends: Collection[str]
) -> Iterable[tuple[str, Collection[str]]]:
    if isinstance(value, str):
        raise OptionError(f"{rule} is the text {value!r}; it needs a list, such as [{value!r}]")
    if not isinstance(value, Mapping):
        return [("", value)] if value or rule == "included_ops" else []
    for backend in value:
        if backend not in backends:
            raise UnknownNameError(f"backend (of this partition, in {rule})", backend, backends)
    return list(cast(Mapping[str, Collection[str]], value).items())


def _check_ops(op_types: Collection[str], ops: Collection[str]) -> None:
    for op in op_types:
        if op not in ops and op not in known_ops(""):
            raise UnknownNameError("op", op, {*ops, *known_ops("")})


def _check_limit(
    key: str, value: int | Mapping[str, int] | None, backends: Collection[str]
) -> None:
    per_backend: Mapping[str, Any] = value if isinstance(value, Mapping) else {"": value}
    for backend, number in per_backend.items():
        if backend and backend not in backends:
            raise UnknownNameError(f"backend (of this partition, in {key})", backend, backends)
        least = 1 if key == "min_nodes" else 0
        if number is None and key == "max_regions":
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise OptionError(f"{key} is {number!r}; it needs a whole number from {least}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        mapping = cast(Mapping[str, Any], value)
        return {k: _plain(v) for k, v in mapping.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(cast(Collection[str], value))
    return list(cast(Collection[str], value)) if isinstance(value, (tuple, list)) else value
