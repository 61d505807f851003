"""The conformance kit: subclass one class, and pytest asks your backend everything.

In a test file of your own::

    from partita.testing import BackendConformance, never
    from my_package import MyBackend

    class TestMyBackend(BackendConformance):
        backend = MyBackend
        gaps = {"test_resize_*_cubic": never("the chip has no cubic interpolation")}

A backend may refuse as much as it likes, in sentences. What it takes has to compile and be right.
"""

from __future__ import annotations

import os
import random
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from partita import verbs
from partita.backends.contract import EMPTY, Backend, Region
from partita.errors import OptionError, UnknownNameError
from partita.partitioning.plan import Plan
from partita.testing.agreement import DEFAULT_TOLERANCES, Tolerances
from partita.testing.cases import (
    Case,
    hazard_cases,
    of_model,
    onnx_cases,
    random_case,
    sample,
    weighted_cases,
)
from partita.testing.gaps import Gap, check_gaps, gap_of
from partita.testing.honesty import examine, run
from partita.testing.properties import PROPERTIES, pieces
from partita.testing.trials import Trial, trials

HOST = "host"
EVERYTHING = "PARTITA_CONFORMANCE"
"""Environment variable; ``all`` makes every kit run all cases."""


class BackendConformance(ABC):
    """Subclass it as ``Test…``, set ``backend``, and pytest collects some hundreds of tests.

    Attributes:
        backend: The backend's class.
        options: Options to make it with.
        tolerances: ``{element type: (relative, absolute)}`` where the defaults are too tight.
        gaps: What the backend claims and is known not to keep: an op type or a glob over case
            names, with ``notimpl``, ``notyet`` or ``never`` and the reason. A gap that works fails.
        models: Models of your own to run as well: anything ``partita.load`` takes, by name. Give
            some if the backend takes only patterns that no op case contains.
        cases: ``"sample"``: one case an op, and some larger ones; ``"all"``: about 3,000.
        seed: Seed of the sample and of the random models.
        random_models: How many random models are run.
        numbers: Whether it computes; ``False`` for one that only plans: regions are compiled, and
            of what they return types and ranks count.
        trials: On how many regions each property is tried.
    """

    backend: ClassVar[type[Backend]]
    options: ClassVar[Mapping[str, Any]] = EMPTY
    tolerances: ClassVar[Tolerances] = EMPTY
    gaps: ClassVar[Mapping[str, Gap]] = EMPTY
    models: ClassVar[Mapping[str, Any]] = EMPTY
    cases: ClassVar[str] = "sample"
    seed: ClassVar[int] = 0
    random_models: ClassVar[int] = 15
    numbers: ClassVar[bool] = True
    trials: ClassVar[int] = 8

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Gives the tests of this class their parameters; pytest calls it on collection."""
        kit = type(self)
        names: Mapping[str, Callable[[], Iterable[str]]] = {
            "case_name": lambda: _cases(kit),
            "random_name": lambda: _random_cases(kit),
            "hazard_name": lambda: hazard_cases(),
            "promise": lambda: PROPERTIES,
        }
        for argument, values in names.items():
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, sorted(values()))

    # The door

    def test_it_passes_the_door(self) -> None:
        """The registry takes the class: its name, options and methods fit the contract."""
        from partita.backends import registry

        made = registry.resolve(self.backend, {self.backend.name: dict(self.options)})
        assert isinstance(made, Backend)

    def test_options_have_their_defaults(self) -> None:
        """Without arguments every option has its default."""
        made = self.backend()
        assert dict(made.options) == dict(self.backend.options)

    def test_an_unknown_option_is_refused(self) -> None:
        """An unknown option is an error that names the option."""
        try:
            self.backend(no_such_option_of_any_backend=1)
        except UnknownNameError:
            return
        raise AssertionError("an unknown option was taken without a word")

    def test_an_option_of_the_wrong_type_is_refused(self) -> None:
        """A number or truth option does not take just any text."""
        for key, default in self.backend.options.items():
            if isinstance(default, (str, tuple)) or default is None:
                continue
            try:
                self.backend(**{key: "neither number nor truth"})
            except OptionError:
                continue
            raise AssertionError(f"option {key!r} took text in place of {default!r}")

    # Refusal honesty

    def test_claims_are_kept(self, case_name: str) -> None:
        """What the backend claims of a case compiles and is right; refusals are sentences."""
        self._examine(_cases(type(self))[case_name])

    def test_claims_are_kept_in_random_models(self, random_name: str) -> None:
        """The same in a random model, as a whole."""
        self._examine(_random_cases(type(self))[random_name])

    def test_every_gap_covers_something(self) -> None:
        """Gaps have reasons, and their keys name an op or match a case."""
        every = {
            **onnx_cases(),
            **weighted_cases(),
            **_random_cases(type(self)),
            **_own(type(self)),
        }
        ops = {op for case in every.values() for op in case.ops}
        check_gaps(self.gaps, every.keys() | hazard_cases().keys(), ops)

    def test_it_claims_something(self) -> None:
        """At least one node of one case is taken; otherwise nothing here has been tested."""
        assert _trials(type(self)), (
            f"backend '{self.backend.name}' takes no node of any case; "
            f"set 'models' to models that hold what it takes"
        )

    # Beside the host

    def test_sharing_a_random_model_with_the_host(self, random_name: str) -> None:
        """With every node given to the backend or the host at random, the numbers stay."""
        self._share(_random_cases(type(self))[random_name])

    def test_sharing_a_hazard_with_the_host(self, hazard_name: str) -> None:
        """The same on graphs that partitioners get wrong."""
        self._share(hazard_cases()[hazard_name])

    # Properties of compiled regions

    def test_promise(self, promise: str) -> None:
        """A promise of the contract, on several regions that the backend claims."""
        backend, tolerances = self._make(), self._tolerances()
        for trial in _trials(type(self)):
            problem = PROPERTIES[promise](backend, trial, tolerances, self.numbers)
            assert not problem, f"{trial.case.name}, region {trial.region.name}: {problem}"

    def test_answers_repeat(self) -> None:
        """Asked again, and asked of a second instance, the backend gives the same plan."""
        for trial in _trials(type(self)):
            plans = [verbs.partition(trial.model, [self._make()]) for _ in range(2)]
            assert plans[0].regions == plans[1].regions, trial.case.name
            assert plans[0].refusals == plans[1].refusals, trial.case.name

    def test_connected_regions_are_connected(self) -> None:
        """Regions of a backend that wants connected ones are; other regions need not be."""
        for trial in _trials(type(self)):
            plan = verbs.partition(trial.model, [self._make()], connected=True)
            for region in plan.regions:
                assert pieces(region.cut) == 1, f"{trial.case.name}: {region.name}"
            if not self.backend.connected:
                continue
            for region in verbs.partition(trial.model, [self._make()]).regions:
                assert pieces(region.cut) == 1, f"{trial.case.name}: {region.name}"

    def test_plans_are_saved_and_loaded(self, tmp_path: Path) -> None:
        """A plan read back gives the same regions, and its program the same numbers."""
        for i, trial in enumerate(_trials(type(self))):
            plan = verbs.partition(trial.model, [self._make()])
            path = plan.save(tmp_path / f"{i}.json")
            again = Plan.load(path, trial.model, [self._make()])
            assert _by_name(again) == _by_name(plan), trial.case.name
            self._compare(trial.case, verbs.compile(again, strict=True))

    def test_the_partitioned_model_is_recognised(self, tmp_path: Path) -> None:
        """The partitioned model, written and loaded again, keeps the regions and the numbers."""
        for i, trial in enumerate(_trials(type(self))):
            plan = verbs.partition(trial.model, [self._make()])
            path = plan.apply().save(tmp_path / f"{i}.onnx")
            again = verbs.partition(verbs.load(path, fold=False), [self._make()])
            assert [r.nodes for r in again.regions] == [r.nodes for r in plan.regions]
            self._compare(trial.case, verbs.compile(again, strict=True))

    # How the tests do it

    def _make(self) -> Backend:
        return self.backend(**self.options)

    def _tolerances(self) -> Tolerances:
        return {**DEFAULT_TOLERANCES, **self.tolerances}

    def _examine(self, case: Case) -> None:
        finding = examine(self._make(), case, self._tolerances(), numbers=self.numbers)
        covered = gap_of(self.gaps, case.name, set(finding.claimed.values()))
        if covered is None:
            assert not finding.problem, finding.problem
        elif finding.problem:
            import pytest

            pytest.xfail(str(covered[1]))
        else:
            assert finding.refused, (
                f"gap '{covered[0]}' ({covered[1]}) covers {case.name}, which works; narrow the gap"
            )

    def _share(self, case: Case) -> None:
        """Runs a case with its nodes shared out at random; a case that a gap covers is left."""
        finding = examine(self._make(), case, self._tolerances(), numbers=self.numbers)
        if gap_of(self.gaps, case.name, set(finding.claimed.values())):
            return
        model, rng = case.load(), random.Random(f"{self.seed} {case.name}")
        nodes = [str(node.name) for _, graph in model.graphs() for node in graph]
        drawn = {name: rng.random() < 0.5 for name in nodes}
        for mine in (True, False):  # the second time round the other way
            wishes = {n: self.backend.name if drawn[n] is mine else HOST for n in nodes}
            problem = run(
                model, [self._make()], case, self._tolerances(), numbers=self.numbers, prefer=wishes
            )
            assert not problem, f"{case.name}, shared with the host: {problem}"

    def _compare(self, case: Case, program: Any) -> None:
        from partita.testing.agreement import disagreement

        if not self.numbers:  # what shapes it has may depend on numbers
            return
        names = [spec.name for spec in program.outputs]
        found: Sequence[Any] = program(*case.inputs)
        problem = disagreement(names, found, case.expected(), self._tolerances())
        assert not problem, f"{case.name}: {problem}"


def _by_name(plan: Plan) -> Mapping[str, Region]:
    return {region.name: region for region in plan.regions}


@cache
def _cases(kit: type[BackendConformance]) -> Mapping[str, Case]:
    """Returns the op cases of a kit by name."""
    if kit.cases == "all" or os.environ.get(EVERYTHING) == "all":
        chosen = {**onnx_cases(), **weighted_cases()}
    else:
        chosen = {
            **sample(onnx_cases(), kit.seed),
            **sample(weighted_cases(), kit.seed, 0),
        }
    return {**chosen, **hazard_cases(), **_own(kit)}


@cache
def _random_cases(kit: type[BackendConformance]) -> Mapping[str, Case]:
    seeds = range(kit.seed, kit.seed + kit.random_models)
    return {case.name: case for case in map(random_case, seeds)}


@cache
def _own(kit: type[BackendConformance]) -> Mapping[str, Case]:
    return {f"own/{name}": of_model(f"own/{name}", model) for name, model in kit.models.items()}


@cache
def _trials(kit: type[BackendConformance]) -> Sequence[Trial]:
    """Returns the regions of a kit's backend on which properties are tried."""
    everything = {**_own(kit), **hazard_cases(), **_random_cases(kit), **_cases(kit)}
    sound = [case for case in everything.values() if not gap_of(kit.gaps, case.name, case.ops)]
    random.Random(kit.seed).shuffle(sound)
    sound.sort(key=lambda case: not case.name.startswith("own/"))
    return trials(kit.backend(**kit.options), sound, kit.trials)
