"""Fixtures and the rule for tests that need an engine."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

settings.register_profile(
    "partita",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("partita")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engine(name): needs the engine's Python package")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose engine is absent; where all engines are promised, fails it."""
    for mark in item.iter_markers("engine"):
        name = mark.args[0]
        if importlib.util.find_spec(name) is not None:
            continue
        if os.environ.get("PARTITA_REQUIRE_ENGINES") == "1":
            pytest.fail(f"{name} is not installed, but PARTITA_REQUIRE_ENGINES=1 promises it")
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of recorded small models: NAME.onnx, NAME.inputs.npz, NAME.outputs.npz."""
    folder = SHARED / "zoo"
    if not folder.is_dir():
        pytest.skip("the recorded models are not beside this checkout")
    return folder
