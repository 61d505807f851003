"""Refusal honesty: a claim must compile and be right, a refusal must be a sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita import verbs
from partita.backends.contract import Backend
from partita.errors import PartitaError
from partita.model import Model, bodies
from partita.partitioning.plan import Plan
from partita.running.program import Program
from partita.testing.agreement import DEFAULT_TOLERANCES, Tolerances, disagreement
from partita.testing.cases import Case

FEWEST_WORDS = 3
"""A refusal of fewer words is no sentence."""


@final
@dataclass(frozen=True)
class Finding:
    """What came of asking a backend about one case.

    Attributes:
        case: Name of the case.
        claimed: The nodes that it takes, with their ops.
        refused: The nodes that it does not take, with its sentences.
        problem: What it promised and did not keep; ``""`` if it was honest.
    """

    case: str
    claimed: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    refused: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    problem: str = ""


def examine(
    backend: Backend,
    case: Case,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
    *,
    numbers: bool = True,
) -> Finding:
    """Asks a backend about every node of a case; runs it wherever the backend claims something.

    Nodes that the backend refuses run on the host. If the host alone gets such a case wrong as
    well, the backend is not to blame.

    Args:
        backend: The backend under test.
        case: What is run.
        tolerances: Relative and absolute tolerance by element type.
        numbers: Whether the backend computes, so that running it makes sense.
    """
    model = case.load()
    claimed: dict[str, str] = {}
    refused: dict[str, str] = {}
    for node, answer in answers(backend, model):
        if answer is None:
            claimed[str(node.name)] = node.op_type
            continue
        fault = sentence_fault(answer, node)
        if fault:
            where = f"about '{node.name}' ({node.op_type}) it answers {answer!r}: {fault}"
            return Finding(case.name, problem=where)
        refused[str(node.name)] = answer
    if not claimed:
        return Finding(case.name, claimed, refused)
    problem = run(model, [backend], case, tolerances, numbers=numbers)
    if problem and refused and run(model, [], case, tolerances):
        problem = ""
    if problem:
        ops = ", ".join(dict.fromkeys(claimed.values()))
        problem = f"backend '{backend.name}' claims {ops} of {case.name}, but {problem}"
    return Finding(case.name, claimed, refused, problem)


def answers(backend: Backend, model: Model) -> Iterator[tuple[ir.Node, str | None]]:
    """Yields every node that partitioning would ask about, and the backend's answer.

    A node is claimed if one of the backend's strategies takes it. Bodies of claimed nodes are not
    entered: they go with their node.
    """
    strategies = backend.strategies(model)
    stack = [model.graph]
    while stack:
        for node in stack.pop():
            said: list[Any] = [strategy.why_not(node) for strategy in strategies]
            if None in said:
                yield node, None
                continue
            odd = [answer for answer in said if not isinstance(answer, str)]
            yield node, odd[0] if odd else "; ".join(dict.fromkeys(said))
            stack.extend(graph for _, graph in bodies(node))


def sentence_fault(answer: Any, node: ir.Node) -> str:
    """Returns what is wrong with a refusal, ``""`` if it is a sentence that names what was found.

    It has to hold something of the node: its op, a name of its operands, attributes or outputs, an
    element type, or a number.
    """
    if not isinstance(answer, str) or answer != answer.strip() or not answer:
        return "a refusal is a text without blanks around it"
    if len(answer.split()) < FEWEST_WORDS or "\n" in answer:
        return f"a refusal is one sentence of {FEWEST_WORDS} words or more, on one line"
    if re.search(r" object at 0x|Traceback", answer):
        return "a refusal is written for people; this one shows Python's insides"
    known = {node.op_type, str(node.name), *node.attributes}
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    known |= {str(v.name) for v in values} | {v.dtype.name.lower() for v in values if v.dtype}
    named = any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", answer) for word in known if word)
    if not named and not re.search(r"\d", answer):
        return "a refusal says what was found: an op, a name, an attribute, a type or a number"
    return ""


def run(
    model: Model,
    backends: Sequence[Any],
    case: Case,
    tolerances: Tolerances = DEFAULT_TOLERANCES,
    *,
    numbers: bool = True,
    prefer: Mapping[str, str] | None = None,
) -> str:
    """Partitions, compiles strictly, runs and compares; returns what went wrong, or ``""``.

    Without ``numbers`` nothing is run end to end: shapes may depend on numbers, which such a
    backend does not compute.

    Args:
        model: The loaded model of the case.
        backends: Backends in order of preference; the host takes the rest.
        case: Gives the inputs and what must come out.
        tolerances: Relative and absolute tolerance by element type.
        numbers: Whether it is run at all, or only compiled.
        prefer: Wishes, as ``partita.partition`` takes them.
    """
    made: list[Plan | Program | Sequence[Any]] = []

    def attempt(what: str, action: Callable[[], Any]) -> str:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                made.append(action())
        except Exception as error:
            cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
            kind = "" if isinstance(error, PartitaError) else f"{type(error).__name__}: "
            return f"{what} failed: {kind}{error}{cause}"
        return ""

    steps: Sequence[tuple[str, Callable[[], Any]]] = (
        ("partitioning", lambda: verbs.partition(model, backends or ["host"], prefer=prefer)),
        ("compiling", lambda: verbs.compile(made[0], strict=True)),
        ("running", lambda: made[1](*case.inputs)),  # pyright: ignore
    )
    for what, action in steps if numbers else steps[:2]:
        problem = attempt(what, action)
        if problem:
            return problem
    if not numbers:
        return ""
    names = [str(value.name) for value in model.outputs]
    outputs: Any = made[2]
    differs = disagreement(names, outputs, case.expected(), tolerances, numbers=not case.drawn)
    return f"the outputs are wrong: {differs}" if differs else ""
