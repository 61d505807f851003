"""The example package: installed like a stranger's, found by its entry point, under the kit."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "backend"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed in it, by pip where its build backend is at hand."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    if importlib.util.find_spec("hatchling") and importlib.util.find_spec("pip"):
        offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--quiet"]
        command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder)]
        subprocess.run([*command, str(source)], check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
    else:
        install_by_hand(source, folder)
    return folder


def install_by_hand(source: Path, folder: Path) -> None:
    """Does what a wheel of pure Python does: modules, metadata, entry points."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source / "src", folder, dirs_exist_ok=True)
    stem = project["name"].replace("-", "_")
    info = folder / f"{stem}-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=site
    )


LOOK = """
import json
import partita as pt
from partita.testing import feeds, hazard
info = {i.name: i.available for i in pt.backends()}
model = pt.load(hazard("residual").ir)
plan = pt.partition(model, ["tiny"], options={"tiny": {"memory": "64"}})
program = pt.compile(plan, strict=True)
same = pt.compare(program, pt.compile(model, ["host"]), feeds(model))
print(json.dumps({"there": info.get("tiny"), "placed": dict(plan.placement), "same": bool(same)}))
"""


def test_it_has_at_most_45_lines() -> None:
    (module,) = (PACKAGE / "src" / "partita_example_backend").glob("*.py")
    assert len(module.read_text().splitlines()) <= 45


def test_it_is_found_through_its_entry_point(site: Path) -> None:
    done = run(site, "-c", LOOK)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["there"] is True
    assert answer["same"] is True
    assert answer["placed"]["Relu_1"] == "tiny"
    assert answer["placed"]["Conv_0"] == "host"


def test_its_regions_have_to_fit_into_its_memory(site: Path) -> None:
    code = LOOK.replace('"residual"', '"shared_weight"').replace('"64"', '"15"')
    done = run(site, "-c", code)
    assert set(json.loads(done.stdout)["placed"].values()) == {"host"}
    explain = "print(plan.explain('Mul_0'))"
    assert "16 bytes of weights; the chip holds 15" in run(site, "-c", code + explain).stdout


def test_its_own_tests_pass(site: Path) -> None:
    """The kit, run as a stranger runs it: in another rootdir, without partita's configuration."""
    tests = shutil.copytree(PACKAGE / "tests", site / "its_tests")
    done = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tests))
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
