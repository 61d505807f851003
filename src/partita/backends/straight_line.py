"""Steps one after the other, as one generated function.

The source holds nothing but numbers and the names ``v0``, ``f0``, ``c0`` …; nothing of a model gets
into it. A step costs about 20 ns beyond its own call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Call


@final
@dataclass(frozen=True)
class Step:
    """One function with the values it reads and writes.

    Attributes:
        function: Arrays in, an array out (a tuple of arrays if there are several outputs).
        inputs: What it reads; ``None`` for a left-out input.
        outputs: What it writes.
    """

    function: Callable[..., Any]
    inputs: Sequence[ir.Value | None]
    outputs: Sequence[ir.Value]


def straight_line(
    steps: Sequence[Step],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    constants: Mapping[ir.Value, Any],
) -> Call:
    """Returns one function that runs ``steps`` in order.

    Values are freed after their last use. Results never share memory with inputs or constants, so
    that the caller owns them.

    Args:
        steps: In an order in which each reads only what is there.
        inputs: The function's arguments.
        outputs: What it returns, as a tuple.
        constants: Values that are the same in every call.
    """
    names: dict[ir.Value, str] = {v: f"c{i}" for i, v in enumerate(constants)}
    scope: dict[str, Any] = {f"c{i}": c for i, c in enumerate(constants.values())}
    names.update({v: f"v{i}" for i, v in enumerate(inputs)})
    arguments = [f"v{i}" for i in range(len(inputs))]
    lines = [f"def run({', '.join(arguments)}):"]
    last_reads = _last_reads(steps, outputs)
    kept = {*inputs, *constants}
    for index, step in enumerate(steps):
        scope[f"f{index}"] = step.function
        lines += _step_lines(index, step, names)
        dead = _dead(index, step, last_reads, kept)
        if dead:
            lines.append(f"    del {', '.join(names[v] for v in dead)}")
    given = "".join(f"{a}, " for a in arguments)
    results = "".join(f"own({names[v]}, ({given}), fixed), " for v in outputs)
    lines.append(f"    return ({results})")
    scope["own"] = owned
    scope["fixed"] = frozenset(id(_owner(c)) for c in constants.values())
    exec(compile("\n".join(lines), "<straight line>", "exec"), scope)
    return scope["run"]


def _step_lines(index: int, step: Step, names: dict[ir.Value, str]) -> list[str]:
    read = ", ".join("None" if v is None else names[v] for v in step.inputs)
    for value in step.outputs:
        names[value] = f"v{len(names)}"
    if len(step.outputs) > 1:
        targets = "".join(f"{names[v]}, " for v in step.outputs)
        return [f"    {targets}*_ = f{index}({read})"]
    target = names[step.outputs[0]]
    return [
        f"    {target} = f{index}({read})",
        f"    if {target}.__class__ is tuple: {target} = {target}[0]",
    ]


def _dead(
    index: int, step: Step, last_reads: Mapping[ir.Value, int], kept: Collection[ir.Value]
) -> list[ir.Value]:
    """Returns the values that nobody reads after a step."""
    read = [v for v in dict.fromkeys(step.inputs) if v is not None and v not in kept]
    dead = [v for v in read if last_reads[v] == index]
    return dead + [v for v in step.outputs if v not in last_reads]


def _last_reads(steps: Sequence[Step], outputs: Sequence[ir.Value]) -> dict[ir.Value, int]:
    last = {v: i for i, step in enumerate(steps) for v in step.inputs if v is not None}
    last.update(dict.fromkeys(outputs, len(steps)))
    return last


def owned(value: Any, given: Sequence[Any], fixed: Collection[int]) -> Any:
    """Returns ``value``, copied if it lies in memory that is not the callee's to give away.

    Args:
        value: An array, a list of arrays, or ``None``.
        given: The arguments of the call.
        fixed: Identities of the arrays that own the memory of constants.
    """
    if isinstance(value, list):
        return [owned(v, given, fixed) for v in cast("list[Any]", value)]
    if not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    owner = _owner(array)
    if id(owner) in fixed or any(_lies_in(owner, g) for g in given):
        return array.copy()
    return array


def _lies_in(owner: Any, given: Any) -> bool:
    if isinstance(given, list):
        return any(_lies_in(owner, g) for g in cast("list[Any]", given))
    return _owner(given) is owner


def _owner(value: Any) -> Any:
    """Returns the array that owns the memory of ``value``."""
    owner = value
    while isinstance(owner, np.ndarray):
        base: Any = cast("Array", owner).base
        if not isinstance(base, np.ndarray):
            return cast("Any", owner)
        owner = cast("Any", base)
    return owner
