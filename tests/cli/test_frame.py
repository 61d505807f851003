from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from partita.cli.answer import Answer
from partita.cli.frame import Verbs, framed
from partita.cli.options import Choices, Display
from partita.errors import (
    BackendUnavailableError,
    CompileError,
    InvalidModelError,
    MismatchError,
    PartitaError,
    UnknownNameError,
    UsageError,
)
from partita.reporting.tables import Column, Table

ERRORS: dict[str, tuple[BaseException, int]] = {
    "usage": (UsageError("asked wrongly"), 2),
    "name": (UnknownNameError("backend", "onnxrutime", ["onnxruntime"]), 2),
    "mismatch": (MismatchError("they differ"), 1),
    "model": (InvalidModelError("it is empty", file="m.onnx", node="n"), 3),
    "compile": (CompileError("line one\nline two"), 3),
    "absent": (BackendUnavailableError("not installed"), 3),
    "disk": (OSError(28, "No space left on device"), 3),
    "memory": (MemoryError(), 3),
    "bug": (KeyError("x"), 3),
    "depth": (RecursionError("deep"), 3),
    "escape": (PartitaError("\x1b[31mred\x07"), 3),
    "interrupt": (KeyboardInterrupt(), 130),
}


def fail(which: str, display: Display) -> Answer:
    """Fails in the way that is asked for."""
    raise ERRORS[which][0]


def speak(choices: Choices, display: Display, loud: bool = False) -> Answer:
    """Prints in between and answers.

    Examples:
      speak one
      speak two
    """
    print("a plugin prints this")
    logging.getLogger("partita.compiling").warning("a warning")
    logging.getLogger("partita").warning("the placement line")
    logging.getLogger("partita.compiling").debug("a detail")
    table = Table("Rows", (Column("Name"),), (("\x1b[31mred [bold]b[/bold]",),), note="a note")
    content = {"loud": loud, "backends": choices.backends(), "figure": float("nan")}
    return Answer(
        "speak", content, ("\x1b]8;;x\x07line", table), code=1 if loud else 0, error="loud" * loud
    )


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    app = typer.Typer(cls=Verbs, add_completion=False, rich_markup_mode=None)
    for verb in (fail, speak):
        app.command(verb.__name__)(framed(verb))
    return app


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.mark.parametrize("which", ERRORS)
def test_every_error_is_one_line_and_a_code(
    app: typer.Typer, runner: CliRunner, which: str
) -> None:
    result = runner.invoke(app, ["fail", which])
    error, code = ERRORS[which]
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("partita: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr
    if isinstance(error, PartitaError) and which != "escape":
        assert " ".join(str(error).split()) in result.stderr


def test_a_fault_of_partita_says_how_to_see_more(app: typer.Typer, runner: CliRunner) -> None:
    result = runner.invoke(app, ["fail", "bug"])
    assert "unexpected KeyError: 'x'" in result.stderr
    assert "PARTITA_DEBUG=1 shows where" in result.stderr


def test_debugging_shows_the_traceback(
    app: typer.Typer, runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTITA_DEBUG", "1")
    assert isinstance(runner.invoke(app, ["fail", "bug"]).exception, KeyError)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["speek"], "Did you mean 'speak'?"),
        (["speak", "--jsn"], "--json"),
        (["speak", "--min-nodes", "many"], "--min-nodes"),
        (["speak", "--min-nodes", "0"], "--min-nodes"),
        (["fail"], "Missing argument"),
        (["--nothing"], "--nothing"),
    ],
)
def test_wrong_words_get_a_hint(
    app: typer.Typer, runner: CliRunner, words: list[str], hint: str
) -> None:
    result = runner.invoke(app, words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("partita: error: ")
    assert hint in result.stderr
    assert "--help')" in result.stderr


def test_standard_output_holds_the_document_alone(app: typer.Typer, runner: CliRunner) -> None:
    result = runner.invoke(app, ["speak", "--json", "--backend", "a,b", "-b", "c"])
    assert json.loads(result.stdout) == {
        "schema": "partita.speak",
        "version": 1,
        "loud": False,
        "backends": ["a", "b", "c"],
        "figure": None,
    }
    assert "a plugin prints this" in result.stderr


def test_text_is_safe_and_without_colours(app: typer.Typer, runner: CliRunner) -> None:
    result = runner.invoke(app, ["speak"])
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert "[bold]b[/bold]" in result.stdout
    assert "a note" in result.stdout


def test_warnings_are_shown_and_the_placement_line_not_twice(
    app: typer.Typer, runner: CliRunner
) -> None:
    shown = runner.invoke(app, ["speak"]).stderr
    assert "a warning" in shown
    assert "the placement line" not in shown
    assert "a detail" not in shown
    assert "a detail" in runner.invoke(app, ["speak", "--verbose"]).stderr
    assert "a warning" not in runner.invoke(app, ["speak", "--quiet"]).stderr


def test_listening_ends_with_the_verb(app: typer.Typer, runner: CliRunner) -> None:
    logger = logging.getLogger("partita")
    before = (logger.level, list(logger.handlers))
    runner.invoke(app, ["speak", "--verbose"])
    runner.invoke(app, ["fail", "bug"])
    assert (logger.level, list(logger.handlers)) == before


def test_an_answer_with_a_code_also_says_why(app: typer.Typer, runner: CliRunner) -> None:
    result = runner.invoke(app, ["speak", "--loud"])
    assert result.exit_code == 1
    assert result.stderr.endswith("partita: error: loud\n")


def test_help_keeps_the_lines_of_examples(app: typer.Typer, runner: CliRunner) -> None:
    text = runner.invoke(app, ["speak", "--help"]).stdout
    assert "  speak one\n" in text
    assert "--backend-option" in text


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    code = (
        "import typer\n"
        "from partita.cli.answer import Answer\n"
        "from partita.cli.frame import Verbs, framed\n"
        "from partita.cli.options import Display\n"
        "def many(display: Display) -> Answer:\n"
        "    return Answer('many', {'rows': ['x' * 1000] * 10000})\n"
        "def other(display: Display) -> Answer:\n"
        "    return Answer('other', {})\n"
        "app = typer.Typer(cls=Verbs)\n"
        "app.command('many')(framed(many))\n"
        "app.command('other')(framed(other))\n"
        "app(['many', '--json'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert errors == ""
