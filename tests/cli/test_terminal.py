from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Generator

import pytest

from partita.cli.answer import Answer
from partita.cli.options import Display
from partita.cli.terminal import progress, say, show
from partita.reporting.tables import Column, Table

ANSWER = Answer("run", {}, ("a line", Table("Rows", (Column("Name"),), (("cell",),))))


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeTerminal]:
    """Puts a terminal behind both streams."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = FakeTerminal()
    with contextlib.redirect_stdout(found), contextlib.redirect_stderr(found):
        yield found


def test_progress_shows_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Display(), "compiling") as report:
        assert report is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("display", [Display(json=True), Display(quiet=True)])
def test_progress_stays_away_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, display: Display
) -> None:
    with on_a_terminal(monkeypatch) as terminal, progress(display, "compiling") as report:
        assert report is None
    assert terminal.getvalue() == ""


def test_progress_names_what_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_a_terminal(monkeypatch) as terminal, progress(Display(), "compiling") as report:
        assert report is not None
        report(1, 3, "[red]region\x1b[31m")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert r"compiling [red]region\x1b[31m" in shown


def test_colours_show_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_a_terminal(monkeypatch) as terminal:
        show(ANSWER, Display())
    assert "\x1b[1m" in terminal.getvalue()
    assert "a line\n\n" in terminal.getvalue()


def test_the_same_rows_show_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(ANSWER, Display())
    assert capsys.readouterr().out == "a line\n\nRows\nName\n────\ncell\n"


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(Display(), "one\ntwo\x1b[31m")
    assert capsys.readouterr().err == "one\\x0atwo\\x1b[31m\n"
    say(Display(quiet=True), "nothing")
    assert capsys.readouterr().err == ""
