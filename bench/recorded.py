"""Reads folders of models with recorded inputs and outputs: what the other scripts measure on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import onnx

PARTS = (".onnx", ".inputs.npz", ".outputs.npz")


@final
@dataclass(frozen=True, eq=False)
class Recorded:
    """A model file with recorded inputs and outputs.

    Attributes:
        name: The file's name without its ending.
        path: The ONNX file.
        inputs: Arrays by input name, in graph order.
        outputs: Arrays by output name, in graph order.
    """

    name: str
    path: Path
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


def cache() -> Path:
    """Returns the folder where ``zoo.py`` builds models when none is named."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "partita" / "zoo"


def models(folder: str | Path) -> list[Recorded]:
    """Returns the models of a folder that have their recorded inputs and outputs, by name."""
    found = []
    for path in sorted(Path(folder).glob("*.onnx")):
        parts = [path.with_name(path.stem + ending) for ending in PARTS[1:]]
        if all(part.is_file() for part in parts):
            found.append(Recorded(path.stem, path, *(dict(np.load(part)) for part in parts)))
    return found


def light_models() -> list[Recorded]:
    """Returns the nine ``light_*`` models of the onnx package, with the inputs it feeds them."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found = []
    for path in sorted(folder.glob("light_*.onnx")):
        graph = onnx.load(path).graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = {v.name: ramp(v) for v in graph.input if v.name not in weights}
        tensor = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
        outputs = {graph.output[0].name: onnx.numpy_helper.to_array(tensor)}
        found.append(Recorded(path.stem, path, inputs, outputs))
    return found


def ramp(value: onnx.ValueInfoProto) -> np.ndarray:
    """Returns what onnx's own test runner feeds: 0, 1/n, 2/n … as float32, in the value's shape."""
    shape = [dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest magnitude wanted.

    Infinite where shape, dtype or the places of NaN differ.
    """
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if found.size == 0 or np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f"):
        return 0.0
    if wanted.dtype.kind not in "fiu":
        return float("inf")
    difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    if np.isnan(difference).any() or np.isinf(difference).any():
        return float("inf")
    return float(difference.max() / max(float(np.abs(wanted).max()), 1e-30))
