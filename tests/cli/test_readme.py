from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from partita.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WIDTH = 100
"""Columns of the output in the README."""


def blocks() -> list[str]:
    return re.findall(r"^```[a-z]*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def stable(text: str) -> str:
    """Returns the text without what changes with the engine's version."""
    return re.sub(r"onnxruntime [0-9.]+ +", "onnxruntime VERSION ", text).strip()


@pytest.mark.engine("onnxruntime")
def test_the_example_of_the_readme_prints_what_it_says() -> None:
    example, output, *_ = blocks()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(WIDTH), "PYTHONUTF8": "1"},
    )
    assert stable(done.stdout) == stable(output)


def test_a_newcomer_has_exactly_two_commands() -> None:
    installs = re.findall(r"^pip install .*$", README, re.MULTILINE)
    assert installs == [
        'pip install -e ".[demo]" && partita demo',
        'pip install -e ".[test]" && pytest',
    ]


def test_every_verb_and_extra_is_in_the_readme() -> None:
    for command in app.registered_commands:
        name = command.name or ""
        assert f"`partita {name}" in README
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in re.findall(r"\[(\w+)\]\"", README):
        assert extra.lstrip(".") in project["optional-dependencies"]


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").glob("*.md"),
    ],
    ids=lambda p: p.name,
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
