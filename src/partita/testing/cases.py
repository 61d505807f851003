"""The cases of the conformance kit: ONNX's own op tests, hazards and random models."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import onnx_ir as ir

from partita import verbs
from partita.model import Model
from partita.testing.graphs import feeds, random_model
from partita.testing.hazards import HAZARDS, hazard

if TYPE_CHECKING:
    import onnx

RANDOM_OPS = frozenset(
    (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)
"""Ops whose numbers are drawn: shapes and types are compared, not numbers."""
WEIGHTS = ":weights"
"""End of the name of a case whose inputs after the first have become weights."""


@final
@dataclass(frozen=True, eq=False)
class Case:
    """A model, what it is fed and what must come out.

    Attributes:
        name: Unique; that of ONNX's test, ``hazard/…``, ``random/…``; with ``:weights`` behind it
            where the inputs after the first are weights.
        source: The model, unloaded.
        inputs: Arrays (lists, ``None``) in graph order.
        outputs: The same of the outputs; ``None``: whatever the reference evaluator says.
        ops: The op types in it, bodies included.
        drawn: Whether it draws random numbers, so that only types and shapes can be compared.
    """

    name: str
    source: onnx.ModelProto | Model
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...] | None
    ops: frozenset[str]
    drawn: bool = False

    def load(self, *, fold: bool = False) -> Model:
        """Returns the model as ``partita.load`` gives it, unfolded: ops stay where they are."""
        source = self.source.ir if isinstance(self.source, Model) else self.source
        return verbs.load(source, fold=fold)

    def expected(self) -> tuple[Any, ...]:
        """Returns what must come out."""
        if self.outputs is not None:
            return self.outputs
        names = [str(v.name) for v in self.load().inputs]
        return reference(self.source, dict(zip(names, self.inputs, strict=True)))


def reference(
    source: onnx.ModelProto | Model,
    inputs: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """Runs a model through onnx's reference evaluator, which shares no code with partita.

    Args:
        source: The model.
        inputs: Arrays by name.
        outputs: Names of values to return, also inner ones; by default the model's outputs.
    """
    from onnx.reference import ReferenceEvaluator

    proto = ir.to_proto(source.ir) if isinstance(source, Model) else source
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = None if outputs is None else list(outputs)
        evaluator: Any = ReferenceEvaluator(proto)
        found = evaluator.run(wanted, dict(inputs))
    return tuple(found)


@cache
def onnx_cases() -> Mapping[str, Case]:
    """Returns ONNX's own op tests as the installed onnx generates them, by name, without network.

    Making them takes some seconds; it is done once a process.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests = load_model_tests(kind="node")
    cases: dict[str, Case] = {}
    for test in sorted(tests, key=lambda test: test.name):
        if test.model is None or not test.data_sets:
            continue
        inputs, outputs = test.data_sets[0]
        ops = frozenset(_ops(test.model.graph))
        cases[test.name] = Case(
            test.name,
            test.model,
            tuple(_plain(value) for value in inputs),
            tuple(_plain(value) for value in outputs),
            ops,
            bool(ops & RANDOM_OPS) or _trains(test.model.graph),
        )
    return cases


def _plain(value: Any) -> Any:
    """Returns a value as an array; onnx writes some as messages, some as numpy scalars."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(cast(Any, value)) if isinstance(value, np.generic) else value


def _ops(graph: onnx.GraphProto) -> set[str]:
    found: set[str] = set()
    for node in graph.node:
        found.add(node.op_type)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                found |= _ops(body)
    return found


def _trains(graph: onnx.GraphProto) -> bool:
    """Tells whether a Dropout has its training input: what it drops is drawn."""
    return any(node.op_type == "Dropout" and len(node.input) > 2 for node in graph.node)


@cache
def weighted_cases() -> Mapping[str, Case]:
    """Returns ONNX's cases of one node with several tensor inputs, all but the first as weights.

    ONNX's tests feed everything; real models hold kernels, axes and scales as initializers.
    """
    found = (weighted(case) for case in onnx_cases().values())
    return {case.name: case for case in found if case is not None}


def weighted(case: Case) -> Case | None:
    """Returns a case with its inputs after the first turned into initializers, if it has any."""
    import onnx

    source = case.source
    if isinstance(source, Model) or len(source.graph.node) != 1 or len(case.inputs) < 2:
        return None
    if not all(isinstance(value, np.ndarray) for value in case.inputs):
        return None
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    proto.ir_version = max(proto.ir_version, 4)
    for value, array in zip(source.graph.input[1:], case.inputs[1:], strict=True):
        tensor = onnx.numpy_helper.from_array(array, value.name)
        tensor.data_type = value.type.tensor_type.elem_type
        proto.graph.initializer.append(tensor)
    del proto.graph.input[1:]
    return Case(case.name + WEIGHTS, proto, case.inputs[:1], case.outputs, case.ops, case.drawn)


@cache
def hazard_cases() -> Mapping[str, Case]:
    """Returns the hazards as cases, ``hazard/<name>``."""
    return {f"hazard/{name}": of_model(f"hazard/{name}", hazard(name)) for name in HAZARDS}


def random_case(seed: int, nodes: int = 15) -> Case:
    """Returns a random model as a case, ``random/<seed>``."""
    return of_model(f"random/{seed}", random_model(seed, nodes), seed)


def of_model(name: str, model: Any, seed: int = 0) -> Case:
    """Returns any model as a case: fed with random arrays, expected as the reference says."""
    source = model if isinstance(model, Model) else verbs.load(model, fold=False)
    ops = frozenset(node.op_type for _, graph in source.graphs() for node in graph)
    arrays = tuple(feeds(source, seed).values())
    return Case(name, source, arrays, None, ops, bool(ops & RANDOM_OPS))


def sample(cases: Mapping[str, Case], seed: int = 0, larger: int = 20) -> dict[str, Case]:
    """Returns one case for every op, drawn by ``seed``, and some of the larger ones."""
    by_op: dict[str, list[str]] = {}
    several: list[str] = []
    for name, case in cases.items():
        if len(case.ops) == 1:
            by_op.setdefault(next(iter(case.ops)), []).append(name)
        else:
            several.append(name)
    rng = random.Random(seed)
    chosen = {rng.choice(by_op[op]) for op in sorted(by_op)}
    covered = {op for name in chosen for op in cases[name].ops}
    rng.shuffle(several)
    for name in several:
        if cases[name].ops - covered or larger > 0:
            larger -= not cases[name].ops - covered
            chosen.add(name)
            covered |= cases[name].ops
    return {name: case for name, case in cases.items() if name in chosen}
