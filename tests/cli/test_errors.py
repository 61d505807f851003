from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ESCAPE = "\x1b]0;owned\x07\x1b[31mred\u202e<script>"
Chain = Callable[..., Path]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--backend", "hostt"), "no backend is named 'hostt'; did you mean 'host'"),
        (("--backend", "null", "--backend-option", "null.lunch=1"), "did you mean 'launch'?"),
        (("--backend", "null", "--backend-option", "null.launch=x"), "needs a float"),
        (("--backend", "null", "--backend-option", "onnxruntime.x=1"), "does not take part"),
        (("--backend", "null", "--exclude-op", "Softmx"), "did you mean 'Softmax'"),
        (("--backend", "null", "--pin", "relo_0=null"), "did you mean 'relu_0'"),
        (("--backend", "null", "--prefer", "*=nul"), "did you mean 'null'"),
        (("--backend", "null,null"), "given twice"),
        (("--backend-option", "null.launch=1", "--backend", "host"), "null"),
        (("--min-nodes", "0"), "--min-nodes"),
        (("--plan", "missing.json"), "missing.json"),
        (("--library", "missing.py"), "missing.py"),
        (("--output", "no/such/folder/plan.json"), "does not exist"),
        (("--output", "."), "it is a folder"),
    ],
)
def test_wrong_words_are_usage_errors_with_hints(
    partita: Any, chain: Chain, words: tuple[str, ...], hint: str
) -> None:
    result = partita("plan", chain("Relu"), *words, code=2)
    assert hint in result.stderr
    assert result.stdout == ""


def test_a_missing_model_is_a_usage_error(partita: Any) -> None:
    assert "'nothing.onnx' does not exist" in partita("plan", "nothing.onnx", code=2).stderr


@pytest.mark.parametrize("verb", ["inspect", "plan", "compile", "run"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 50, b"not a model", b"PK\x03\x04"])
def test_a_damaged_model_is_one_line(
    partita: Any, tmp_path: Path, verb: str, content: bytes
) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    result = partita(verb, path, code=3)
    assert "damaged.onnx" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_truncated_model_leaves_nothing_behind(
    partita: Any, digits_model: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / "cut.onnx", tmp_path / "out"
    path.write_bytes(digits_model.read_bytes()[:-1000])
    out.mkdir()
    written = ("-o", out / "a.json", "--html", out / "a.html", "--apply", out / "a.onnx")
    partita("plan", path, *written, code=3)
    assert list(out.iterdir()) == []


def test_a_damaged_plan_file_is_quoted(partita: Any, chain: Chain, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"format": "partita.plan", "version": 1, "regions": [{"name": 3}]}')
    result = partita("plan", chain("Relu"), "--plan", plan, code=2)
    assert str(plan) in result.stderr
    assert '{"name": 3}' in result.stderr


def test_a_failure_leaves_the_old_output(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    old = tmp_path / "out.onnx"
    old.write_text("before")
    words = ("--library", library, "--backend", "failing", "--strict", "-o", old)
    partita("compile", chain("Relu"), *words, code=3)
    assert old.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chain.onnx", "out.onnx"]


@pytest.mark.parametrize("verb", ["inspect", "plan", "explain", "compile", "run"])
def test_names_cannot_drive_the_terminal(
    partita: Any, chain: Chain, library: Path, verb: str
) -> None:
    model = chain("Relu", "Softmax", names=(f"a{ESCAPE}", f"b{ESCAPE}"))
    words = [verb, model, *(["*"] if verb == "explain" else [])]
    if verb != "inspect":
        words += ["--library", library, "--backend", "exact"]
    result = partita(*words)
    assert not {"\x1b", "\x07", "\u202e"} & set(result.output)
    if verb == "explain":
        assert r"a\x1b]0;owned" in result.stdout


def test_names_cannot_drive_the_terminal_through_errors(partita: Any, chain: Chain) -> None:
    model = chain("Relu", names=(f"a{ESCAPE}",))
    result = partita("explain", model, f"b{ESCAPE}", "--backend", "host", code=2)
    assert not {"\x1b", "\x07", "\u202e"} & set(result.output)


def test_names_cannot_inject_into_a_report(partita: Any, chain: Chain, tmp_path: Path) -> None:
    model = chain("Relu", names=(ESCAPE,))
    partita("plan", model, "--backend", "host", "--html", tmp_path / "plan.html")
    text = (tmp_path / "plan.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_quiet_leaves_errors_and_answers(partita: Any, chain: Chain) -> None:
    result = partita("plan", chain("Relu"), "--backend", "host", "--quiet")
    assert result.stderr == ""
    assert "Summary" in result.stdout
    assert partita("plan", "nothing.onnx", "--quiet", code=2).stderr.startswith("partita: error")


def test_the_command_works_as_a_process(digits_model: Path) -> None:
    words = [sys.executable, "-m", "partita", "plan", str(digits_model), "--backend", "host"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0
    assert done.stderr.startswith("partita: host ")
    bad = subprocess.run([*words[:3], "plam"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == (
        "partita: error: No such command 'plam'. Did you mean 'plan'? (see 'partita --help')\n"
    )


def test_inspecting_imports_no_engine(digits_model: Path) -> None:
    code = (
        "import sys; from partita.cli.app import app\n"
        "app(['inspect', sys.argv[1], '--json'], standalone_mode=False)\n"
        "bad = {'onnxruntime', 'openvino', 'torch'}\n"
        "print(sorted(bad & set(sys.modules)), file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, str(digits_model)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_help_imports_no_engine_and_nothing_heavy() -> None:
    code = (
        "import sys; from partita.cli.app import app\n"
        "bad = {'onnxruntime', 'openvino', 'torch', 'scipy', 'sklearn', 'jinja2'}\n"
        "print(sorted(bad & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
