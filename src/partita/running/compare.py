"""Compares two runs output by output, and says what tolerance would let them pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard, final

import numpy as np

from partita.backends.host import interpret
from partita.compiling.stage import compile as compile_plan
from partita.errors import InputError, MismatchError, UnknownNameError, printable
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.running.inputs import random_inputs
from partita.running.program import Program
from partita.running.specs import dtype_name
from partita.running.values import Array, is_sequence

RTOL, ATOL = 1e-4, 1e-5

Runnable = Program | Plan | Model | Callable[..., Sequence[Any]]
"""A program or plan; a model, which the host runs op by op; or any function of arrays."""


@final
@dataclass(frozen=True)
class OutputComparison:
    """How one output of two runs differs.

    Attributes:
        name: Name of the output.
        passed: Whether ``|found - wanted| <= atol + rtol * |wanted|`` everywhere.
        max_absolute: Largest ``|found - wanted|``: the smallest ``atol`` that passes with rtol 0.
        max_relative: Largest ``|found - wanted| / |wanted|``: the smallest ``rtol`` that passes
            with atol 0. Infinite where no tolerance passes.
        differing: How many elements are outside the tolerance.
        elements: How many elements there are.
        problem: What no tolerance mends: another type, shape, length, NaN or text; else ``""``.
    """

    name: str
    passed: bool
    max_absolute: float
    max_relative: float
    differing: int = 0
    elements: int = 0
    problem: str = ""

    def __str__(self) -> str:
        verdict = "same" if self.passed else "DIFFERS"
        atol, rtol = self.max_absolute, self.max_relative
        figures = f"passes with atol {atol:.3g} (rtol 0) or rtol {rtol:.3g} (atol 0)"
        text = (
            f"{printable(self.name)}: {verdict}; {self.problem or (figures if atol else 'equal')}"
        )
        if self.differing:
            text += f"; {self.differing:,} of {self.elements:,} elements outside"
        return text


@final
@dataclass(frozen=True)
class Comparison:
    """How two runs differ; true if they agree within the tolerance.

    Attributes:
        outputs: One row an output.
        rtol: Relative tolerance that was asked for.
        atol: Absolute tolerance that was asked for.
    """

    outputs: tuple[OutputComparison, ...]
    rtol: float
    atol: float

    @property
    def passed(self) -> bool:
        """Whether every output agrees."""
        return all(output.passed for output in self.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "equal" if self.passed else "NOT equal"
        head = f"{verdict} within rtol {self.rtol:g}, atol {self.atol:g}"
        return "\n".join([head, *(f"  {output}" for output in self.outputs)])

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; infinite figures become ``None``."""
        rows = [{k: _finite(v) for k, v in asdict(output).items()} for output in self.outputs]
        return {"passed": self.passed, "rtol": self.rtol, "atol": self.atol, "outputs": rows}

    def require(self) -> None:
        """Raises unless everything agrees.

        Raises:
            MismatchError: Some output differs; the message lists all.
        """
        if not self.passed:
            raise MismatchError(str(self))


def compare(
    found: Runnable,
    wanted: Runnable,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Comparison:
    """Runs two things on the same inputs and compares what they return.

    Args:
        found: What is examined.
        wanted: What it should agree with.
        inputs: Arrays in graph order, or by name if one side is a program, a plan or a model;
            without them random ones are made, for which one side has to be a plan or a model.
        rtol: Relative tolerance.
        atol: Absolute tolerance.

    Raises:
        InputError: The inputs do not fit.
        RunError: One of the two failed.
    """
    names = _names(found, 0) or _names(wanted, 0)
    if inputs is None:
        inputs = _random(found, wanted)
    if isinstance(inputs, Mapping):
        if not names and inputs:
            raise InputError("inputs by name need a program or a model; give a sequence")
        _check_names(set(inputs), set(names))
        inputs = [inputs[name] for name in names]
    results = [list(_runner(side)(*inputs)) for side in (found, wanted)]
    outputs = _names(found, 1) or _names(wanted, 1) or tuple(str(i) for i in range(len(results[1])))
    return compare_outputs(outputs, results[0], results[1], rtol=rtol, atol=atol)


def compare_outputs(
    names: Sequence[str],
    found: Sequence[Any],
    wanted: Sequence[Any],
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
) -> Comparison:
    """Compares two sequences of outputs: arrays, sequences of arrays, texts, ``None``."""
    if len(found) != len(wanted):
        problem = f"{len(found)} outputs, {len(wanted)} wanted"
        return Comparison((_failure("outputs", problem),), rtol, atol)
    rows = [
        row
        for name, a, b in zip(names, found, wanted, strict=True)
        for row in _rows(name, a, b, rtol, atol)
    ]
    return Comparison(tuple(rows), rtol, atol)


def _rows(name: str, found: Any, wanted: Any, rtol: float, atol: float) -> list[OutputComparison]:
    if is_sequence(found) and is_sequence(wanted):
        if len(found) != len(wanted):
            return [_failure(name, f"{len(found)} items, {len(wanted)} wanted")]
        return [
            row
            for i, (a, b) in enumerate(zip(found, wanted, strict=True))
            for row in _rows(f"{name}[{i}]", a, b, rtol, atol)
        ]
    if _is_map(found) and _is_map(wanted):
        if list(found) != list(wanted):
            return [_failure(name, "the keys differ")]
        keyed = [(f"{name}[{k!r}]", found[k], wanted[k]) for k in found]
        return [row for key, a, b in keyed for row in _rows(key, a, b, rtol, atol)]
    if found is None or wanted is None:
        if found is not wanted:
            return [_failure(name, "only one side has a value")]
        return [OutputComparison(name, True, 0.0, 0.0)]
    return [_row(name, np.asarray(found), np.asarray(wanted), rtol, atol)]


def _row(name: str, found: Array, wanted: Array, rtol: float, atol: float) -> OutputComparison:
    if dtype_name(found.dtype) != dtype_name(wanted.dtype):
        return _failure(name, f"{dtype_name(found.dtype)}, {dtype_name(wanted.dtype)} wanted")
    if found.shape != wanted.shape:
        return _failure(name, f"shape {found.shape}, {wanted.shape} wanted")
    if dtype_name(wanted.dtype) == "string":
        differing = int(np.sum(found.astype(str) != wanted.astype(str)))
        return _verdict(name, differing, wanted.size, "texts differ" if differing else "")
    a, b = _comparable(found), _comparable(wanted)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    clash = odd & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if np.any(clash):
        return _verdict(name, int(np.sum(clash)), wanted.size, "NaN or infinity on one side only")
    a, b = np.where(odd, 0, a), np.where(odd, 0, b)
    with np.errstate(all="ignore"):
        gap, size = np.abs(a - b), np.abs(b)
        # Integers beyond 2**53 may differ although their float64 forms do not.
        gap = np.where((gap == 0) & (found != wanted) & ~odd, 1.0, gap)
        relative = np.divide(gap, size, out=np.where(gap > 0, np.inf, 0.0), where=size > 0)
        differing = int(np.sum(gap > atol + rtol * size))
    return OutputComparison(
        name, differing == 0, _largest(gap), _largest(relative), differing, wanted.size
    )


def _comparable(array: Array) -> Array:
    """Returns numbers wide enough to subtract: complex128, or float64 (exact up to 2**53)."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _largest(numbers: Array) -> float:
    return float(numbers.max()) if numbers.size else 0.0


def _verdict(name: str, differing: int, elements: int, problem: str) -> OutputComparison:
    worst = math.inf if problem else 0.0
    return OutputComparison(name, not problem, worst, worst, differing, elements, problem)


def _failure(name: str, problem: str) -> OutputComparison:
    return OutputComparison(name, False, math.inf, math.inf, problem=problem)


def _names(side: Runnable, which: int) -> tuple[str, ...]:
    if isinstance(side, Plan):
        side = side.bound_model
    if isinstance(side, (Program, Model)):
        return tuple(str(v.name) for v in (side.outputs if which else side.inputs))
    return ()


def _runner(side: Runnable) -> Callable[..., Sequence[Any]]:
    if isinstance(side, Plan):
        return compile_plan(side)
    return interpret(side.graph) if isinstance(side, Model) else side


def _random(*sides: Runnable) -> dict[str, Any]:
    for side in sides:
        if isinstance(side, (Plan, Model)):
            return random_inputs(side.bound_model if isinstance(side, Plan) else side)
    raise InputError("no inputs are given; only a plan or a model tells how to make random ones")


def _is_map(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _check_names(given: set[str], wanted: set[str]) -> None:
    if unknown := sorted(given - wanted):
        raise InputError(str(UnknownNameError("input", unknown[0], wanted)))
    if missing := sorted(wanted - given):
        raise InputError(f"input '{printable(missing[0])}' is missing")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
