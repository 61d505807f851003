"""The kit itself: a sound backend passes, and each broken one is caught by the right test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _pytest.outcomes import XFailed

from partita.backends.contract import Backend, Node, Region
from partita.backends.host.interpreter import interpret
from partita.errors import ContractError, UnknownNameError
from partita.testing import BackendConformance, hazard, never, notimpl, notyet
from partita.testing.cases import hazard_cases, onnx_cases, sample

CASES = ("test_relu", "test_add", "test_mul", "test_matmul_2d", "test_add_bcast:weights")


OPS = ("Relu", "Add", "Mul", "MatMul")


class Sound(Backend):
    """Keeps every promise; the others differ from it in one thing."""

    name = "sound"
    options = {"threads": 1, "fast": False}  # noqa: RUF012

    def why_not(self, node: Node) -> str | None:
        known = node.op_type in OPS and all(
            v is not None and v.dtype is not None and v.dtype.is_floating_point()
            for v in node.inputs
        )
        return None if known else f"{node.op_type} is none of {', '.join(OPS)} on floats"

    def compile(self, region: Region) -> Any:
        run = interpret(region.to_model().graph)
        return lambda *inputs: [np.array(o) for o in run(*inputs)]


class AddsWrongly(Sound):
    def compile(self, region: Region) -> Any:
        run = super().compile(region)
        off = float(any(node.op_type == "Add" for node in region.ir_nodes))
        return lambda *inputs: [o + o.dtype.type(off) for o in run(*inputs)]


class RefusesEverything(Sound):
    def why_not(self, node: Node) -> str | None:
        return f"{node.op_type} is beyond this backend"


class AnswersNo(Sound):
    def why_not(self, node: Node) -> str | None:
        return None if super().why_not(node) is None else "no"


class AnswersFalse(Sound):
    def why_not(self, node: Node) -> Any:
        return super().why_not(node) is None


class SaysNothingOfTheNode(Sound):
    def why_not(self, node: Node) -> str | None:
        return None if super().why_not(node) is None else "sorry, cannot do that"


class CannotCompileMul(Sound):
    def compile(self, region: Region) -> Any:
        if any(node.op_type == "Mul" for node in region.ir_nodes):
            raise NotImplementedError("Mul")
        return super().compile(region)


class TakesAnyOption(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{k: v for k, v in options.items() if k in self.options})


class ChangesItsMind(Sound):
    made = itertools.count()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._odd = next(type(self).made) % 2

    def why_not(self, node: Node) -> str | None:
        return super().why_not(node) or (f"{node.op_type} is out today" if self._odd else None)


def kit(backend: type[Backend], **settings: Any) -> BackendConformance:
    """Returns the kit as a stranger would write it, with few trials."""
    body = {"backend": backend, "trials": 4, "random_models": 2, **settings}
    return type(f"Test{backend.__name__}", (BackendConformance,), body)()


def test_a_sound_backend_passes_everything(tmp_path: Any) -> None:
    made = kit(Sound)
    made.test_it_passes_the_door()
    made.test_options_have_their_defaults()
    made.test_an_unknown_option_is_refused()
    made.test_an_option_of_the_wrong_type_is_refused()
    made.test_every_gap_covers_something()
    made.test_it_claims_something()
    made.test_answers_repeat()
    made.test_connected_regions_are_connected()
    made.test_plans_are_saved_and_loaded(tmp_path)
    made.test_the_partitioned_model_is_recognised(tmp_path)
    for case in (*CASES, "test_softmax_example"):
        made._examine(every_case()[case])
    for case in hazard_cases().values():
        made._share(case)


def every_case() -> dict[str, Any]:
    from partita.testing.cases import weighted_cases

    return {**onnx_cases(), **weighted_cases()}


@pytest.mark.parametrize(
    ("backend", "case", "sentence"),
    [
        (AnswersNo, "test_softmax_example", "three|3 words"),
        (AnswersFalse, "test_softmax_example", "a refusal is a text"),
        (SaysNothingOfTheNode, "test_softmax_example", "says what was found"),
        (CannotCompileMul, "test_mul", "claims Mul of test_mul, but compiling failed"),
        (AddsWrongly, "test_add", "claims Add of test_add, but the outputs are wrong"),
    ],
)
def test_a_lie_is_caught(backend: type[Backend], case: str, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        kit(backend)._examine(onnx_cases()[case])


@pytest.mark.parametrize(
    ("backend", "check"),
    [
        (RefusesEverything, lambda made: made.test_it_claims_something()),
        (TakesAnyOption, lambda made: made.test_an_unknown_option_is_refused()),
        (ChangesItsMind, lambda made: made.test_answers_repeat()),
        (AddsWrongly, lambda made: made._share(hazard_cases()["hazard/shared_weight"])),
    ],
)
def test_other_faults_are_caught(
    backend: type[Backend], check: Callable[[BackendConformance], None]
) -> None:
    with pytest.raises(AssertionError):
        check(kit(backend))


class Unnamed(Sound):
    name = ""


def test_the_door_is_shut_for_a_broken_class() -> None:
    with pytest.raises(ContractError):
        kit(Unnamed).test_it_passes_the_door()


def test_a_declared_gap_is_reported_as_expected() -> None:
    gaps = {"test_add*": notimpl("the adder is off by one")}
    with pytest.raises(XFailed, match="notimpl: the adder is off by one"):
        kit(AddsWrongly, gaps=gaps)._examine(onnx_cases()["test_add"])
    with pytest.raises(XFailed, match="notyet"):
        kit(AddsWrongly, gaps={"Add": notyet("the adder is off by one")})._examine(
            onnx_cases()["test_add_bcast"]
        )


def test_a_gap_that_works_is_an_error() -> None:
    gaps = {"Relu": never("there is no rectifier")}
    with pytest.raises(AssertionError, match=r"gap 'Relu'.*covers test_relu, which works"):
        kit(Sound, gaps=gaps)._examine(onnx_cases()["test_relu"])


def test_a_gap_over_something_refused_is_fine() -> None:
    gaps = {"test_softmax*": never("there is no exponential")}
    kit(Sound, gaps=gaps)._examine(onnx_cases()["test_softmax_example"])


@pytest.mark.parametrize(
    ("gaps", "error", "words"),
    [
        ({"Rellu": never("it is not there")}, UnknownNameError, "did you mean .*Relu"),
        ({"Relu": never("")}, ValueError, "gap 'Relu'"),
        ({"Relu": "it is not there"}, ValueError, "write notimpl"),
    ],
)
def test_a_gap_without_sense_is_refused(gaps: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        kit(Sound, gaps=gaps).test_every_gap_covers_something()


def test_models_of_ones_own_are_tried_first() -> None:
    made = kit(Sound, models={"mine": hazard("residual")})
    from partita.testing.conformance import _cases, _trials

    assert _trials(type(made))[0].case.name == "own/mine"
    assert "own/mine" in _cases(type(made))


def ops_of(cases: dict[str, Any]) -> set[str]:
    return {op for case in cases.values() for op in case.ops}


def test_the_sample_holds_every_op() -> None:
    cases = onnx_cases()
    chosen = sample(cases)
    assert {op for c in chosen.values() for op in c.ops} == {
        op for c in cases.values() for op in c.ops
    }
    assert len(chosen) < 300
    assert list(chosen) == list(sample(cases))
    assert list(chosen) != list(sample(cases, seed=1))
