from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partita.partitioning.plan import BackendSetting, Plan
from partita.partitioning.rules import Rules
from partita.reporting.text import bound_text, placement_line, plan_tables, plan_text, summary

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_the_line_names_every_place_and_the_reasons(mixed_plan: Plan) -> None:
    assert placement_line(mixed_plan) == (
        "partita: onnxruntime 3 of 6 nodes in 2 regions; "
        "host 3 nodes (Softmax 2: excluded by rule; Gelu 1: no kernel)"
    )


def test_the_line_speaks_when_everything_is_placed(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"onnxruntime_0": {f"n{i}": "Relu" for i in range(44)}})
    assert placement_line(plan) == "partita: onnxruntime 44 of 44 nodes in 1 region"


def test_the_line_speaks_when_nothing_is_placed(make_plan: Callable[..., Plan]) -> None:
    refused = [("n", "openvino", "Gelu has no kernel")]
    plan = make_plan({}, {"n": "Gelu"}, refused, settings=(BackendSetting("openvino"),))
    assert placement_line(plan) == (
        "partita: openvino 0 of 1 node; host 1 node (Gelu 1: Gelu has no kernel)"
    )


def test_the_line_speaks_of_several_backends_in_order(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"openvino_0": {"a": "Conv"}, "onnxruntime_0": {"b": "Relu", "c": "Relu"}})
    assert placement_line(plan) == (
        "partita: openvino 1 of 3 nodes in 1 region, onnxruntime 2 in 1 region"
    )


def test_the_line_speaks_without_any_backend(make_plan: Callable[..., Plan]) -> None:
    assert placement_line(make_plan({}, {"n": "Relu"})) == (
        "partita: host 1 node (no backend was asked)"
    )
    assert placement_line(make_plan({}, {})) == "partita: the model has no nodes"


def test_the_line_says_that_a_rule_prefers_the_host(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan(
        {"openvino_0": {"a": "Conv"}}, {"n": "Relu"}, request=Rules(prefer={"n": "host"})
    )
    assert "(Relu 1: a rule prefers the host)" in placement_line(plan)


def test_the_line_takes_the_shortest_reason(make_plan: Callable[..., Plan]) -> None:
    refused = [("n", "a", "a long sentence about this node"), ("n", "b", "no kernel")]
    assert "(Relu 1: no kernel)" in placement_line(
        make_plan({"a_0": {"x": "Conv"}}, {"n": "Relu"}, refused)
    )


def test_the_line_counts_ops_it_does_not_name(make_plan: Callable[..., Plan]) -> None:
    host = {f"n{i}": f"Op{i % 7}" for i in range(70)}
    line = placement_line(make_plan({"a_0": {"x": "Conv"}}, host))
    assert "; … 3 more ops, 30 nodes)" in line
    assert len(line) < 400


def test_the_line_says_when_a_plan_file_no_longer_fits(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"a_0": {"x": "Conv"}}, mismatches=("one", "two"))
    assert placement_line(plan).endswith("; the plan file does not fit the model in 2 places")
    assert "No longer fits" in plan_text(plan)


@quick
@given(host=st.dictionaries(st.text(), st.text(), max_size=6), reason=st.text(max_size=300))
def test_the_line_is_one_printable_line(
    make_plan: Callable[..., Plan], host: dict[str, str], reason: str
) -> None:
    refused = [(node, "engine", reason) for node in host]
    line = placement_line(make_plan({"engine_0": {"placed": "Conv"}}, host, refused))
    assert line.isprintable()
    assert line.startswith(f"partita: engine 1 of {len(host) + 1} node")


@quick
@given(names=st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True))
def test_the_text_holds_no_control_characters(
    make_plan: Callable[..., Plan], names: list[str]
) -> None:
    placed = {"engine_0": {f"p{n}": n for n in names}}
    plan = make_plan(placed, {f"h{n}": n for n in names}, [(f"h{n}", "engine", n) for n in names])
    assert all(c.isprintable() or c == "\n" for c in plan_text(plan))


def test_the_text_is_plain_and_complete(mixed_plan: Plan) -> None:
    text = plan_text(mixed_plan, width=120)
    assert "\x1b" not in text
    for words in (
        "onnxruntime_0",
        "Conv 1, Relu 1",
        "onnxruntime: Softmax is excluded by rule",
        "s1, s2",
        "excluded_ops Softmax",
        "proved the fewest that these claims allow",
        "123 kB",
    ):
        assert words in text


def test_markup_in_names_is_not_read_as_markup(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan({"a_0": {"x": "[red]Conv[/red]"}}, {"[bold]n[/]": "[/]"})
    assert "[red]Conv[/red]" in plan_text(plan)
    assert "[bold]n[/]" in plan_text(plan)


def test_a_large_plan_is_cut_short_and_says_so(make_plan: Callable[..., Plan]) -> None:
    count = 20_000
    placed = {f"engine_{i}": {f"p{i}": "Conv"} for i in range(count)}
    host = {f"h{i}": f"Op{'x' * (i % 100)}" for i in range(count)}
    refused = [(f"h{i}", "engine", f"input 'v{i}' has rank {i}") for i in range(count)]
    text = plan_text(make_plan(placed, host, refused))
    assert len(text.splitlines()) < 300
    assert "… 19,960 more regions; see --json" in text
    assert "… 60 more groups; see partita explain, or --json" in text


def test_sentences_that_differ_in_names_only_are_one_row(make_plan: Callable[..., Plan]) -> None:
    host = {f"n{i}": "Relu" for i in range(9)}
    refused = [(f"n{i}", "engine", f"input 'v{i}' has rank {i}") for i in range(9)]
    tables = plan_tables(make_plan({"engine_0": {"a": "Conv"}}, host, refused))
    (table,) = [t for t in tables if t.title == "Refused"]
    assert table.rows == (("Relu", "9", "host", "engine: input 'v0' has rank 0", "n0, … 8 more"),)


def test_nodes_that_a_second_backend_took_are_shown_with_the_refusal_of_the_first(
    make_plan: Callable[..., Plan],
) -> None:
    plan = make_plan(
        {"first_0": {"a": "Conv"}, "second_0": {"b": "Gelu"}}, {}, [("b", "first", "no kernel")]
    )
    (table,) = [t for t in plan_tables(plan) if t.title == "Refused"]
    assert table.rows == (("Gelu", "1", "second", "first: no kernel", "b"),)


def test_what_is_not_known_of_the_bound_is_not_claimed(make_plan: Callable[..., Plan]) -> None:
    assert bound_text(make_plan(lower_bound=3)) == "at least 3 are needed"
    assert bound_text(make_plan()) == "lower bound not known"
    rows = dict(summary(make_plan({"a_0": {"x": "Conv"}}, crossing_unknown=2)))
    assert rows["bytes that cross"] == "0 B and 2 values of unknown size"
    assert rows["coverage"] == "1 of 1 node in regions (100.0%)"
    assert re.match(r"1; lower bound not known", rows["regions"])
