"""What partita runs on: Python, processor, memory, packages and environment variables."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

PACKAGES = (
    *("partita", "numpy", "onnx", "onnx-ir", "ml_dtypes", "scipy", "typer", "rich", "jinja2"),
    *("onnxruntime", "onnxruntime-gpu", "openvino", "torch", "onnxscript", "scikit-learn"),
)
"""Packages whose versions matter, required ones first."""

VARIABLES = (
    *("PARTITA_BACKENDS", "PARTITA_DISABLE_PLUGINS", "PARTITA_DEBUG"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY"),
    *("KMP_AFFINITY", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "COLUMNS"),
)
"""Environment variables that change what partita or an engine does."""


def facts() -> dict[str, str]:
    """Returns what the machine is, in words."""
    return {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": _cores(),
        "instruction sets": ", ".join(instruction_sets()) or "unknown",
        "memory": _memory(),
    }


def packages() -> dict[str, str]:
    """Returns the version of every package that matters and is installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def variables() -> dict[str, str]:
    """Returns the environment variables that are set and matter."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def instruction_sets() -> list[str]:
    """Returns the vector instruction sets that numpy finds on this processor."""
    import numpy as np

    configuration: Any = np.show_config(mode="dicts")
    simd: dict[str, list[str]] = configuration.get("SIMD Extensions", {})
    return [*simd.get("baseline", []), *simd.get("found", [])]


def _cores() -> str:
    count = os.cpu_count() or 0
    if sys.platform != "linux":
        return str(count)
    usable = len(os.sched_getaffinity(0))
    return str(count) if usable == count else f"{usable} usable of {count}"


def _memory() -> str:
    from partita.reporting.quantities import byte_text

    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system has these names
        return "unknown"
    return byte_text(size)
