"""Partitioning of real graphs with backends made of a set of op types."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from made import CHAIN, HAZARD, backend_of, model_of
from partita.backends.contract import Backend, Node, Pattern, Region, Selector, Strategy
from partita.errors import ContractError, OptionError, UnknownNameError, UsageError
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.verbs import load, partition


def groups(plan: Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [(r.backend, r.nodes) for r in plan.regions]


def test_one_backend_takes_runs_and_the_host_the_rest() -> None:
    plan = partition(model_of(CHAIN), backend_of("one", {"Relu", "Exp"}))
    assert groups(plan) == [("one", ("a", "b", "c")), ("one", ("e",))]
    assert dict(plan.host) == {"d": "Softmax"}
    assert [r.name for r in plan.regions] == ["one_0", "one_1"]
    assert (plan.lower_bound, plan.proved_minimal) == (2, True)
    assert plan.crossing_bytes == 4 * 24, "x, vc, vd and y"
    assert plan.regions[0].inputs == ("x",)
    assert plan.regions[0].outputs == ("vc",)


def test_a_path_through_an_outside_node_never_closes_a_cycle() -> None:
    plan = partition(model_of(HAZARD), backend_of("one", {"Relu", "Add"}))
    assert len(plan.regions) == 2
    assert plan.backend_of("outside") == "host"
    assert plan.region_of["start"] != plan.region_of["end"]


def test_every_refusal_is_kept_with_its_sentence() -> None:
    plan = partition(
        model_of(CHAIN), [backend_of("one", {"Relu"}), backend_of("two", {"Exp", "Relu"})]
    )
    assert {(r.node, r.backend) for r in plan.refusals} == {
        ("b", "one"),
        ("d", "one"),
        ("d", "two"),
    }
    assert plan.refusals[0].reason == "Exp is not one of ['Relu']"
    text = str(plan.explain("d"))
    assert "d (Softmax) runs on host" in text
    assert "not two: Softmax is not one of ['Exp', 'Relu']" in text


def test_explain_names_the_path_that_keeps_neighbours_apart() -> None:
    plan = partition(model_of(HAZARD), backend_of("one", {"Relu", "Add"}))
    apart = [plan.region_of[n].name for n in ("start", "side", "end")]
    asked = "end" if apart[1] == apart[0] else "start"
    assert "a path between them runs through 'outside'" in str(plan.explain(asked))


def test_order_of_preference_decides() -> None:
    one, two = backend_of("one", {"Relu"}), backend_of("two", {"Relu", "Exp", "Softmax"})
    assert partition(model_of(CHAIN), [one, two]).backend_of("a") == "one"
    assert partition(model_of(CHAIN), [two, one]).backend_of("a") == "two"


def test_a_host_in_the_list_ends_it() -> None:
    plan = partition(model_of(CHAIN), ["host", backend_of("one", {"Relu"})])
    assert not plan.regions
    assert len(plan.host) == 5


@pytest.mark.parametrize("per_backend", [False, True])
def test_excluded_ops_go_to_the_host_and_the_rule_says_so(per_backend: bool) -> None:
    excluded: Any = {"one": ["Exp"]} if per_backend else ["Exp"]
    plan = partition(model_of(CHAIN), backend_of("one", {"Relu", "Exp"}), excluded_ops=excluded)
    assert plan.backend_of("b") == "host"
    assert plan.rules[0].applied
    assert "1 node" in plan.rules[0].detail
    assert any(r.source == "rule" and "excluded" in r.reason for r in plan.refusals)


def test_a_rule_that_finds_nothing_says_so() -> None:
    plan = partition(model_of(CHAIN), backend_of("one", {"Relu"}), excluded_ops=["Gemm"])
    assert not plan.rules[0].applied
    assert "no node left to decide is a Gemm" in plan.rules[0].detail


def test_included_ops_bar_everything_else() -> None:
    plan = partition(model_of(CHAIN), backend_of("one", {"Relu", "Exp"}), included_ops=["Exp"])
    assert groups(plan) == [("one", ("b",))]


def test_small_regions_go_to_the_next_backend() -> None:
    one, two = backend_of("one", {"Relu", "Exp"}), backend_of("two", {"Relu"})
    plan = partition(model_of(CHAIN), [one, two], min_nodes={"one": 2})
    assert groups(plan) == [("one", ("a", "b", "c")), ("two", ("e",))]
    assert [r.source for r in plan.refusals if r.node == "e"] == ["size"]


def test_the_largest_regions_stay_under_max_regions() -> None:
    plan = partition(model_of(CHAIN), backend_of("one", {"Relu", "Exp"}), max_regions=1)
    assert groups(plan) == [("one", ("a", "b", "c"))]
    assert [r.source for r in plan.refusals if r.node == "e"] == ["limit"]


def test_pins_are_kept_or_refused_with_the_reason() -> None:
    one, two = backend_of("one", {"Relu", "Exp"}), backend_of("two", {"Relu"})
    plan = partition(model_of(CHAIN), [one, two], pin={"[ac]": "two", "a": "host"})
    assert (plan.backend_of("a"), plan.backend_of("c")) == ("host", "two")
    with pytest.raises(UsageError, match=r"two refuses 'b': Exp is not one of"):
        partition(model_of(CHAIN), [one, two], pin={"b": "two"})


def test_wishes_are_followed_where_possible_and_counted() -> None:
    one, two = backend_of("one", {"Relu", "Exp"}), backend_of("two", {"Relu"})
    plan = partition(model_of(CHAIN), [one, two], prefer={"[abc]": "two"})
    assert [plan.backend_of(n) for n in "abc"] == ["two", "one", "two"]
    assert plan.rules[0].detail == "2 of 3 nodes; 1 refused by two"


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        ({"excluded_ops": ["Sofmax"]}, "did you mean 'Softmax'"),
        ({"pin": {"aa*": "one"}}, "no node"),
        ({"pin": {"a": "onne"}}, "did you mean 'one'"),
        ({"min_nodes": {"onne": 3}}, "did you mean 'one'"),
        ({"options": {"onne": {}}}, "does not take part"),
    ],
)
def test_unknown_names_list_near_matches(rule: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        partition(model_of(CHAIN), backend_of("one", {"Relu"}), **rule)


def test_wrong_values_of_rules_are_refused() -> None:
    with pytest.raises(OptionError, match="min_nodes is 0"):
        partition(model_of(CHAIN), backend_of("one", {"Relu"}), min_nodes=0)
    with pytest.raises(OptionError, match="needs a list"):
        partition(model_of(CHAIN), backend_of("one", {"Relu"}), excluded_ops="Relu")
    with pytest.raises(UnknownNameError, match="no backend"):
        partition(model_of(CHAIN), "onnxrutime")


def test_an_answer_that_is_no_sentence_breaks_the_contract() -> None:
    broken = backend_of("broken", (), why_not=lambda self, node: False)
    with pytest.raises(ContractError, match="must return None or a sentence"):
        partition(model_of(CHAIN), broken)


def test_review_may_refuse_or_attach_attributes() -> None:
    seen: list[tuple[str, ...]] = []

    def review(self: Backend, region: Region) -> Any:
        seen.append(region.nodes)
        return {"note": "good"} if len(region.nodes) > 1 else "one node is not worth it"

    one = backend_of("one", {"Relu", "Exp"}, why_not_region=review)
    plan = partition(model_of(CHAIN), one)
    assert groups(plan) == [("one", ("a", "b", "c"))]
    assert plan.regions[0].attributes == {"note": "good"}
    assert any(r.reason == "one node is not worth it" for r in plan.refusals)
    assert len(seen) == len(set(seen)), "no region is reviewed twice"


def test_costs_send_a_region_to_a_cheaper_backend() -> None:
    slow = backend_of("slow", {"Relu", "Exp"}, cost=lambda self, region: 2.0)
    fast = backend_of("fast", {"Relu", "Exp"}, cost=lambda self, region: 1.0)
    plan = partition(model_of(CHAIN), [slow, fast])
    assert {r.backend for r in plan.regions} == {"fast"}
    assert any("costs 2 s a run here, 1 s on fast" in r.reason for r in plan.refusals)


def test_groups_do_not_share_a_region() -> None:
    one = backend_of("one", {"Relu", "Exp"}, group=lambda self, node: node.op_type)
    plan = partition(model_of(CHAIN), one)
    assert groups(plan) == [("one", ("a",)), ("one", ("b",)), ("one", ("c",)), ("one", ("e",))]


def test_strategies_form_regions_of_their_own() -> None:
    def strategies(self: Backend, model: Model) -> Sequence[Strategy]:
        return [
            Strategy("first", lambda n: None if n.op_type == "Exp" else "not Exp"),
            Strategy("second", lambda n: None if n.op_type == "Relu" else "not Relu"),
        ]

    plan = partition(model_of(CHAIN), backend_of("one", (), strategies=strategies))
    assert [(r.strategy, r.nodes) for r in plan.regions] == [
        ("second", ("a",)),
        ("first", ("b",)),
        ("second", ("c",)),
        ("second", ("e",)),
    ]
    assert next(r.reason for r in plan.refusals if r.node == "d") == "not Exp; not Relu"


def test_patterns_take_whole_matches_only() -> None:
    pattern = Pattern("Exp", (Pattern("Relu"),))
    one = backend_of("one", {"Relu", "Exp"}, patterns=lambda self: [pattern])
    plan = partition(model_of(CHAIN), one)
    assert groups(plan) == [("one", ("a", "b"))]
    assert next(r.reason for r in plan.refusals if r.node == "e") == "no pattern of one holds it"


class Grow(Selector):
    def select(self, node: Node) -> bool:
        return node.op_type == "Relu"

    def select_output(self, node: Node, consumer: Node) -> bool:
        return consumer.op_type in ("Relu", "Add")


def test_a_selector_grows_regions_and_never_a_cycle() -> None:
    one = backend_of("one", {"Relu", "Add"}, selector=lambda self, model: Grow())
    plan = partition(model_of(HAZARD), one)
    assert plan.region_of["start"] == plan.region_of["side"]
    assert plan.backend_of("end") == "host", "as a seed it is not selected"


def test_selected_groups_that_form_a_cycle_together_are_split() -> None:
    text = """
        [n0] a = Exp(x)
        [n4] b = Exp(a)
        [n1] c = Exp(x)
        [n3] d = Mul(x, c)
        [n8] e = Add(b, d)
        [n2] f = Mul(a, x)
        [n7] g = Add(c, f)
        [n6] y = Mul(e, g)
    """

    class Connected(Selector):
        def select(self, node: Node) -> bool:
            return node.op_type in ("Exp", "Add")

        def select_input(self, node: Node, producer: Node) -> bool:
            return self.select(producer)

        def select_output(self, node: Node, consumer: Node) -> bool:
            return self.select(consumer)

    one = backend_of("one", {"Exp", "Add"}, selector=lambda self, model: Connected())
    plan = partition(model_of(text), one)
    assert sorted(n for r in plan.regions for n in r.nodes) == ["n0", "n1", "n4", "n7", "n8"]
    assert len(plan.regions) == 3


def test_connected_regions_are_one_piece() -> None:
    text = "[l] a = Relu(x)\n [r] b = Relu(x)\n [m] y = Add(a, b)"
    one = backend_of("one", {"Relu"})
    assert len(partition(model_of(text), one).regions) == 1
    assert len(partition(model_of(text), one, connected=True).regions) == 2


IF = """
    <ir_version: 10, opset_import: ["" : 20]>
    g (bool c, float[2] x) => (float[2] y) {
        [outer] o = Relu(x)
        [choice] y = If (c) <
            then_branch = t () => (float[2] ty) {
                [in1] t1 = Relu(o)
                [in2] t2 = Relu(t1)
                [in3] ty = Exp(t2)
            },
            else_branch = e () => (float[2] ey) { [in4] ey = Relu(o) }
        >
    }
"""


def test_bodies_of_host_nodes_are_partitioned_like_graphs() -> None:
    plan = partition(load(onnx.parser.parse_model(IF)), backend_of("one", {"Relu"}))
    assert {(r.graph, r.nodes) for r in plan.regions} == {
        ("", ("outer",)),
        ("choice.then_branch", ("in1", "in2")),
        ("choice.else_branch", ("in4",)),
    }
    assert dict(plan.host) == {"choice": "If", "in3": "Exp"}
    inner = next(r for r in plan.regions if r.graph == "choice.then_branch")
    assert inner.inputs == ("o",), "a captured value is an input of the region"
    assert plan.regions[0].outputs == ("o",), "a value that a body captures leaves its region"


def test_a_rule_reaches_into_a_body_that_a_backend_would_take_whole() -> None:
    one = backend_of("one", {"Relu", "If", "Exp"})
    model = load(onnx.parser.parse_model(IF))
    assert partition(model, one).backend_of("choice") == "one"
    plan = partition(model, one, excluded_ops=["Exp"])
    assert plan.backend_of("choice") == "host"
    assert "its body holds 'in3'" in str(plan.explain("choice"))


def test_regions_that_a_model_came_with_are_left_alone() -> None:
    first = partition(load(onnx.parser.parse_model(IF)), backend_of("one", {"Relu"}))
    carried = {r.name: r.nodes for r in first.regions}
    greedy = backend_of("two", {"Relu", "Exp", "If"})
    second = partition(first.apply(), [greedy, backend_of("one", {"Relu"})])
    assert carried.items() <= {r.name: r.nodes for r in second.regions}.items()
    assert second.backend_of("in3") == "two"
    assert "the model came with region" in str(second.explain("choice"))
    third = partition(second.apply(), greedy, excluded_ops=["Relu"])
    assert {r.nodes for r in third.regions} == {r.nodes for r in second.regions}


DETERMINISM = """
import sys; sys.path.insert(0, {folder!r})
from partita.testing import graphs
from made import backend_of
from partita.verbs import partition
from partita.partitioning.plan_file import to_json
import json
model = graphs.random_dag(300, seed=5)
backends = [backend_of("one", {{"Relu", "Add"}}), backend_of("two", {{"Mul", "Exp", "Abs"}})]
plan = partition(model, backends)
print(json.dumps(to_json(plan), sort_keys=True))
"""


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    code = DETERMINISM.format(folder=str(Path(__file__).parents[1]))
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(seen) == 1
