from __future__ import annotations

import json

import numpy as np
import pytest

from partita.errors import InputError
from partita.running.schedule import Step
from partita.running.trace import chrome_trace

X = np.ones(4, np.float32)


def test_profile_has_a_row_a_step_and_adds_up(kit) -> None:
    program = kit.chain(*[kit.Bindable(np.negative)] * 3, names=["first", "second", "third\x1b[2J"])
    profile = program.profile(X, runs=5)
    assert [s.name for s in profile.steps] == ["first", "second", "third\x1b[2J"]
    assert sum(s.share for s in profile.steps) == pytest.approx(1)
    assert all(0 < s.least <= s.seconds for s in profile.steps)
    assert sum(s.seconds for s in profile.steps) <= profile.seconds * 2
    assert set(profile.by_backend) == {"backend0", "backend1"}
    text = str(profile)
    assert len(text.splitlines()) == 5
    assert "\x1b" not in text
    assert json.loads(json.dumps(profile.to_dict()))["runs"] == 5


def test_profile_of_no_runs_is_refused(kit) -> None:
    with pytest.raises(InputError, match="a profile of 0 runs is asked for; it needs at least one"):
        kit.chain(lambda x: (x + 1,)).profile(X, runs=0)


def test_trace_is_written_whole(kit, tmp_path) -> None:
    profile = kit.chain(lambda x: (x + 1,), lambda x: (x * 2,)).profile(X, runs=3)
    path = profile.save_trace(tmp_path / "trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == ["step0", "step1"] * 3
    assert spans[0]["ts"] == 0
    assert all(e["dur"] > 0 for e in spans)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]


def test_times_of_a_trace_are_microseconds() -> None:
    steps = [Step("a", "one", ("n",), (), ()), Step("b", "two", ("m",), (), ())]
    events = json.loads(chrome_trace(steps, [[1_000, 3_000, 4_500]]))["traceEvents"]
    spans = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert spans == [("a", 0, 0, 2), ("b", 1, 2, 1.5)]
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert names == ["one", "two"]
