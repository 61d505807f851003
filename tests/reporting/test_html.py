from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partita.partitioning.plan import Plan
from partita.reporting.html import bars, plan_html, report_html

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</td></table><iframe src=//evil.example>",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- ",
    "&lt;b&gt;",
    "\x1b]8;;http://evil.example\x07",
    "\u202eevil",
]
KNOWN_TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "p",
    "code",
    "svg",
    "rect",
} | {
    *(
        "ul",
        "li",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "div",
    )
}


class Elements(HTMLParser):
    """Counts elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def plan_named(make_plan: Callable[..., Plan], name: str) -> Plan:
    return make_plan(
        {f"{name}_0": {f"node {name}": name}},
        {f"host {name}": name},
        [(f"host {name}", name, name)],
        mismatches=(name,),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_inject_no_element(make_plan: Callable[..., Plan], name: str) -> None:
    plain, hostile = plan_named(make_plan, "plain"), plan_named(make_plan, name)
    for render in (plan_html, lambda p: report_html(p, command=p.regions[0].name)):
        expected, found = Elements(render(plain)), Elements(render(hostile))
        assert found.tags == expected.tags
        assert found.attributes == expected.attributes


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=st.text(alphabet=st.sampled_from("<>\"'&/=abcscript -!{}%"), min_size=1, max_size=40))
def test_no_name_injects_an_element(make_plan: Callable[..., Plan], name: str) -> None:
    found = Elements(report_html(plan_named(make_plan, name)))
    assert set(found.tags) <= KNOWN_TAGS
    assert found.tags == Elements(report_html(plan_named(make_plan, "plain"))).tags


def test_names_are_still_readable(make_plan: Callable[..., Plan]) -> None:
    texts = " ".join(Elements(plan_html(plan_named(make_plan, "<b>x</b>"))).texts)
    assert "<b>x</b>" in texts


def test_the_report_loads_and_runs_nothing(mixed_plan: Plan) -> None:
    text = report_html(mixed_plan, command="partita plan model.onnx")
    found = Elements(text)
    assert text.startswith("<!DOCTYPE html>")
    assert "default-src 'none'; style-src 'sha256-" in text
    assert "script" not in found.tags
    assert not found.attributes & {"src", "href", "style", "onclick", "onload"}
    assert "partita plan model.onnx" in text


def test_the_fragment_stands_by_itself(mixed_plan: Plan) -> None:
    text = plan_html(mixed_plan)
    found = Elements(text)
    assert text.startswith('<div class="partita">')
    assert found.tags["html"] == found.tags["script"] == 0
    assert found.tags["style"] == 1
    assert "onnxruntime 3 of 6 nodes in 2 regions" in text


def test_the_bar_adds_up(mixed_plan: Plan) -> None:
    parts = bars(mixed_plan)
    assert [p.label for p in parts] == ["onnxruntime 3 nodes in 2 regions", "host 3 nodes"]
    assert parts[0].width + parts[1].width == 1000
    assert parts[1].start == parts[0].width


def test_an_empty_plan_has_a_report(make_plan: Callable[..., Plan]) -> None:
    assert "the model has no nodes" in report_html(make_plan({}, {}))
