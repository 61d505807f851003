"""The code in docs/write-a-backend.md runs, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write-a-backend.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx's own test cases overflow on purpose
def test_every_python_block_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 8
    namespace: dict[str, object] = {"__name__": "write_a_backend"}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        # The blank lines give a failure the page's line number.
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), namespace)
    assert not any(tmp_path.iterdir())


def test_the_page_names_only_commands_that_exist() -> None:
    from partita.cli.app import app

    named = set(re.findall(r"`partita ([a-z]+)", PAGE.read_text(encoding="utf-8")))
    known = {str(c.name or c.callback.__name__) for c in app.registered_commands if c.callback}
    assert named <= known
