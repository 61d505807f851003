"""Every bench script runs with tiny settings and prints JSON lines; nothing is timed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.cli import digits

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
LIBRARIES = {"networks.py", "recorded.py"}
"""What scripts import; they print nothing."""
TINY = {
    "dispatch.py": ("--rounds", "3"),
    "engines.py": (
        "--models",
        "{models}",
        "--runs",
        "1",
        "--seconds",
        "0",
        "--instances",
        "1",
        "--control",
    ),
    "fuzz_partition.py": ("--graphs", "30"),
    "onnx_suite.py": ("--sides", "reference", "preferred", "--match", "^test_relu"),
    "partition.py": ("--sizes", "40,80", "--runs", "1", "--fx-seconds", "0", "--graphs", "3"),
    "zoo.py": ("--list", "--json", "--out", "{models}"),
}
SCRIPTS = sorted({path.name for path in BENCH.glob("*.py")} - LIBRARIES)


def lines(script: str, *arguments: str) -> list[dict[str, Any]]:
    """Returns what a script prints, one record a line."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCH / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def recorded_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded model: the digits classifier on 50 images."""
    from onnx.reference import ReferenceEvaluator

    folder = tmp_path_factory.mktemp("models")
    path = digits.model_path()
    images = digits.held_out()[0][:50]
    outputs = ReferenceEvaluator(str(path)).run(None, {"images": images})
    (folder / "digits.onnx").write_bytes(path.read_bytes())
    np.savez(folder / "digits.inputs.npz", images=images)
    np.savez(folder / "digits.outputs.npz", probabilities=outputs[0])
    return folder


def test_every_tiny_setting_is_of_a_script_that_exists() -> None:
    assert set(TINY) <= set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_explains_itself(script: str) -> None:
    command = [sys.executable, str(BENCH / script), "--help"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
    assert script in (BENCH / "README.md").read_text()


@pytest.mark.engine("onnxruntime")
@pytest.mark.parametrize("script", sorted(TINY))
def test_script_prints_json_lines(script: str, recorded_digits: Path) -> None:
    arguments = [argument.format(models=recorded_digits) for argument in TINY[script]]
    assert lines(script, *arguments)


@pytest.mark.engine("onnxruntime")
@pytest.mark.engine("openvino")
def test_engines_measures_both_sides_and_compares_outputs(recorded_digits: Path) -> None:
    arguments = ("--models", str(recorded_digits), "--runs", "1", "--instances", "1")
    *records, last = lines("engines.py", *arguments)
    assert [(r["model"], r["backend"]) for r in records] == [
        ("digits", "onnxruntime"),
        ("digits", "openvino"),
    ]
    for record in records:
        assert record["state"] == "measured"
        assert record["equal"]
        assert record["whole"]
        assert record["raw_ms"] > 0 < record["partita_ms"]
        assert record["ratio_quartiles"][0] <= record["ratio"] <= record["ratio_quartiles"][1]
    assert set(last["summary"]) == {"onnxruntime", "openvino"}
    assert last["summary"]["openvino"]["failed"] == []


@pytest.mark.engine("torch")
def test_zoo_builds_a_model_that_reads_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (record,) = lines("zoo.py", "--only", "torch_dlrm", "--json", "--out", str(tmp_path))
    assert record["state"] == "built"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "torch_dlrm.inputs.npz",
        "torch_dlrm.onnx",
        "torch_dlrm.outputs.npz",
    ]
    monkeypatch.syspath_prepend(str(BENCH))
    from recorded import models

    (model,) = models(tmp_path)
    assert {array.dtype for array in model.inputs.values()} == {np.dtype("f4"), np.dtype("i8")}
    (output,) = model.outputs.values()
    assert output.shape == (256, 1)
