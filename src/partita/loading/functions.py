"""Model-local functions: who calls whom, and what the calls would expand to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

import onnx

from partita.errors import InvalidModelError, LimitError, printable
from partita.loading.limits import Limits
from partita.ops.schemas import canonical_domain

Identifier = tuple[str, str, str]
"""Domain (the default one as ``""``), name and overload of a function."""


@final
@dataclass
class Calls:
    """What one graph or function holds, bodies included.

    Attributes:
        nodes: Number of nodes written, calls included.
        functions: How often each function is called.
    """

    nodes: int = 0
    functions: Counter[Identifier] = field(default_factory=Counter[Identifier])

    def add(self, identifier: Identifier) -> None:
        """Takes down one call."""
        self.functions[identifier] += 1


def identify(domain: str, name: str, overload: str) -> Identifier:
    """Returns the key under which calls find their function."""
    return (canonical_domain(domain), name, overload)


def shown(identifier: Identifier) -> str:
    """Returns a function's full name for messages and metadata."""
    domain, name, overload = identifier
    return printable(f"{domain}::{name}" + (f":{overload}" if overload else ""))


def index(protos: Iterable[onnx.FunctionProto]) -> dict[Identifier, onnx.FunctionProto]:
    """Returns the functions by identifier.

    Raises:
        InvalidModelError: One has no name, or two have the same.
    """
    found: dict[Identifier, onnx.FunctionProto] = {}
    for proto in protos:
        parts = (proto.domain, proto.name, proto.overload)
        if not proto.name or any(part.__class__ is not str for part in parts):
            raise InvalidModelError("a function has no legal name")
        identifier = identify(*parts)
        if identifier in found:
            raise InvalidModelError(f"two functions are named '{shown(identifier)}'")
        found[identifier] = proto
    return found


def check_expansion(main: Calls, functions: Mapping[Identifier, Calls], limits: Limits) -> None:
    """Checks, without expanding anything, what inlining all calls would lead to.

    Raises:
        InvalidModelError: Functions call each other in a circle.
        LimitError: The expanded graph would be too large, or calls are nested too deeply.
    """
    sizes: dict[Identifier, int] = {}
    depths: dict[Identifier, int] = {}
    for identifier in _callees_first(functions):
        calls = functions[identifier]
        sizes[identifier] = _expanded(calls, sizes)
        depths[identifier] = 1 + max((depths[c] for c in calls.functions), default=0)
    deepest = max((depths[c] for c in main.functions), default=0)
    if deepest > limits.function_depth:
        raise LimitError(
            f"function calls are nested {deepest:,} deep; at most {limits.function_depth} are "
            "taken (Limits.function_depth)"
        )
    written = main.nodes + sum(calls.nodes for calls in functions.values())
    if main.functions:
        limits.check_expansion(written, _expanded(main, sizes))


def _expanded(calls: Calls, sizes: Mapping[Identifier, int]) -> int:
    return calls.nodes + sum(n * (sizes[c] - 1) for c, n in calls.functions.items())


def _callees_first(functions: Mapping[Identifier, Calls]) -> list[Identifier]:
    order: list[Identifier] = []
    done: set[Identifier] = set()
    for root in functions:
        if root in done:
            continue
        path: dict[Identifier, None] = {root: None}
        stack = [iter(functions[root].functions)]
        while stack:
            callee = next(stack[-1], None)
            if callee is None:
                stack.pop()
                finished, _ = path.popitem()
                done.add(finished)
                order.append(finished)
            elif callee in path:
                circle = [*path][[*path].index(callee) :]
                shown_circle = " -> ".join(shown(i) for i in [*circle[:8], callee])
                raise InvalidModelError(f"functions call each other in a circle: {shown_circle}")
            elif callee not in done:
                path[callee] = None
                stack.append(iter(functions[callee].functions))
    return order
