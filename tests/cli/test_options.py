from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.cli.options import Choices, split
from partita.errors import UsageError

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(st.lists(st.lists(names, min_size=1, max_size=3), max_size=3))
def test_names_may_be_repeated_or_separated_by_commas(groups: list[list[str]]) -> None:
    flat = [name for group in groups for name in group]
    assert split([",".join(group) for group in groups]) == flat
    assert split([", ".join(group) for group in groups]) == flat


@given(names, names, st.text())
def test_an_option_keeps_its_value_as_it_is(name: str, key: str, value: str) -> None:
    assert Choices(backend_option=[f"{name}.{key}={value}"]).options() == {name: {key: value}}


@given(st.text(min_size=1), names)
def test_a_glob_may_hold_equals_signs(glob: str, backend: str) -> None:
    assert Choices(pin=[f"{glob}={backend}"]).rules()["pin"] == {glob: backend}


def test_a_glob_written_again_counts_as_later() -> None:
    rules = Choices(prefer=["a*=x", "b*=y", "a*=z"]).rules()["prefer"]
    assert list(rules.items()) == [("b*", "y"), ("a*", "z")]


def test_without_options_nothing_is_ruled() -> None:
    choices = Choices()
    assert choices.backends() is None
    assert choices.options() == {}
    assert choices.decides() == ""
    assert choices.rules() == {
        "excluded_ops": [],
        "included_ops": None,
        "min_nodes": 1,
        "max_regions": None,
        "pin": {},
        "prefer": {},
        "connected": False,
    }


@pytest.mark.parametrize(
    "text", ["threads=1", "onnxruntime.threads", "onnxruntime=1", ".a=1", "a.=1"]
)
def test_an_option_written_wrongly_says_how(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"write it NAME\.KEY=VALUE, such as onnxruntime\.threads=1"
    ):
        Choices(backend_option=[text]).options()


@pytest.mark.parametrize("text", ["onnxruntime", "=onnxruntime", "*="])
def test_a_pin_written_wrongly_says_how(text: str) -> None:
    with pytest.raises(UsageError, match=r"--pin is .*; write it GLOB=NAME"):
        Choices(pin=[text]).rules()


@pytest.mark.parametrize(
    ("choices", "option"),
    [
        (Choices(backend=["a"]), "--backend"),
        (Choices(min_nodes=2), "--min-nodes"),
        (Choices(max_regions=0), "--max-regions"),
        (Choices(connected=True), "--connected"),
    ],
)
def test_what_a_plan_file_decides_is_named(choices: Choices, option: str) -> None:
    assert choices.decides() == option
