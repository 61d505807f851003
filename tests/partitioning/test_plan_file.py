"""Plan files: read back the same, edited by hand, and applied to a changed model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made import CHAIN, HAZARD, backend_of, model_of
from partita.backends.contract import Backend
from partita.errors import PlanError
from partita.partitioning.plan import Plan
from partita.verbs import load_plan, partition

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def backend() -> Backend:
    return backend_of("one", {"Relu", "Exp", "Add", "Neg"})


def edited(path: Path, edit: Edit) -> Path:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def saved(tmp_path: Path, backend: Backend) -> Path:
    plan = partition(model_of(CHAIN), backend, excluded_ops=["Exp"])
    return plan.save(tmp_path / "chain.plan.json")


def test_a_plan_reads_back_equal(saved: Path, backend: Backend) -> None:
    plan = partition(model_of(CHAIN), backend, excluded_ops=["Exp"])
    back = load_plan(saved, model_of(CHAIN), [backend])
    assert back.regions == plan.regions
    assert (back.host, back.refusals, back.rules) == (plan.host, plan.refusals, plan.rules)
    assert back.request.to_json() == plan.request.to_json()
    assert (back.lower_bound, back.proved_minimal) == (plan.lower_bound, plan.proved_minimal)
    assert not plan.diff(back)
    assert not back.mismatches


def test_a_plan_reads_without_model_or_engine(saved: Path) -> None:
    plan = Plan.load(saved)
    assert plan.backend_of("a") == "one"
    assert "Exp is excluded" in str(plan.explain("b"))
    with pytest.raises(PlanError, match="has no model"):
        plan.regions[0].to_model()


def test_saving_twice_writes_the_same_bytes(saved: Path, tmp_path: Path, backend: Backend) -> None:
    again = load_plan(saved, model_of(CHAIN), [backend]).save(tmp_path / "again.json")
    assert again.read_text() == saved.read_text()


def test_a_hand_edited_plan_is_followed(saved: Path, backend: Backend) -> None:
    assert json.loads(saved.read_text())["regions"][0]["nodes"] == {"a": "Relu"}
    edited(saved, lambda d: d["regions"].pop(0))
    edited(saved, lambda d: d["host"].update(a="Relu"))
    plan = load_plan(saved, model_of(CHAIN), [backend])
    assert plan.backend_of("a") == "host"
    assert (plan.lower_bound, plan.proved_minimal) == (0, False), "nothing is known of an edit"


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda d: d["regions"][0]["nodes"].update(aa="Relu"), "did you mean 'a'"),
        (lambda d: d["regions"][0]["nodes"].update(d="Softmax"), "refuses 'd': Softmax is not one"),
        (
            lambda d: d["regions"][0]["nodes"].update(a="Tanh"),
            "'a' is a Relu; region .* knows a Tanh",
        ),
        (lambda d: d["regions"][0]["nodes"].update(c="Relu"), "stands in regions"),
        (lambda d: d["regions"][0].update(backend="onne"), "no backend is named 'onne'"),
        (
            lambda d: d["regions"][0].update(nodes=["a"]),
            r'"nodes" must be an object: {"nodes": \["a"\]}',
        ),
        (lambda d: d["regions"][0].update(name=7), r'"name" must be text: {"name": 7}'),
        (lambda d: d["regions"][0].update(graph="x.body"), "lies in graph ''"),
        (
            lambda d: d["regions"].append({"name": "more"}),
            'needs a name and at least one node: {"name"',
        ),
        (lambda d: d.update(version=99), "plan version 99"),
        (lambda d: d.update(format="other"), "not a partita plan"),
        (lambda d: d["rules"].update(exclude_ops=[]), "did you mean 'excluded_ops'"),
        (lambda d: d["rules"].update(excluded_ops=3), '"excluded_ops" must be a list or an object'),
        (lambda d: d["host"].update(b=3), '"host" must map names to text: {"b": 3}'),
    ],
)
def test_a_bad_edit_is_quoted(saved: Path, backend: Backend, edit: Edit, match: str) -> None:
    edited(saved, edit)
    with pytest.raises((PlanError, ValueError), match=match):
        load_plan(saved, model_of(CHAIN), [backend])


def test_regions_edited_into_a_cycle_are_refused(tmp_path: Path, backend: Backend) -> None:
    path = partition(model_of(HAZARD), backend, excluded_ops=["Exp"]).save(tmp_path / "p.json")

    def join(data: dict[str, Any]) -> None:
        first, second = data["regions"]
        first["nodes"].update(second["nodes"])
        data["regions"] = [first]

    edited(path, join)
    with pytest.raises(PlanError, match=r"cannot stand together.*'one_0'.*'outside'") as caught:
        load_plan(path, model_of(HAZARD), [backend])
    assert "bug of partita" not in str(caught.value)


def test_text_that_is_not_json_is_quoted_with_its_line(saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"regions": [', '"regions": [[ oops', 1))
    with pytest.raises(PlanError, match=r"in line \d+: .*oops"):
        Plan.load(saved)


def test_a_changed_model_keeps_what_fits_and_reports_the_rest(
    saved: Path, backend: Backend
) -> None:
    changed = model_of("""
        [a] va = Relu(x)
        [b] vb = Exp(va)
        [c] vc = Neg(vb)
        [new] vn = Relu(vc)
        [e] y = Relu(vn)
    """)
    plan = load_plan(saved, changed, [backend])
    assert plan.backend_of("a") == "one"
    assert plan.backend_of("new") == "host"
    assert plan.backend_of("c") == "host"
    assert "node 'new' (Relu) is not in the plan" in plan.mismatches[1]
    assert "node 'c' is a Neg" in plan.mismatches[0]


def test_a_region_that_a_changed_model_would_make_cyclic_is_split(
    tmp_path: Path, backend: Backend
) -> None:
    before = model_of("[s] a = Relu(x)\n [t] b = Relu(a)\n [u] y = Add(a, b)")
    path = partition(before, backend).save(tmp_path / "p.json")
    after = model_of("[s] a = Relu(x)\n [w] b0 = Tanh(a)\n [t] b = Relu(b0)\n [u] y = Add(a, b)")
    plan = load_plan(path, after, [backend])
    assert len(plan.regions) == 2
    assert any("cannot stand together" in m for m in plan.mismatches)
    assert len({r.name for r in plan.regions}) == 2


def test_diff_says_what_moved(backend: Backend) -> None:
    model = model_of(CHAIN)
    first = partition(model, backend)
    second = partition(model, backend, excluded_ops=["Exp"])
    diff = first.diff(second)
    assert diff.moved == (("b", "one", "host"),)
    assert diff.regions == (2, 3)
    assert "b: one → host" in str(diff)
    assert not first.diff(first)
