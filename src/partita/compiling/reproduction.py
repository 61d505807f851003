"""A region that computes something wrong, as a folder that shows it without partita."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from partita.backends.contract import Region
from partita.errors import UsageError
from partita.running.specs import dtype_name
from partita.running.values import Array, is_sequence

_MARK = "reproduction.json"


def write_reproduction(
    folder: Path,
    region: Region,
    inputs: Sequence[Any],
    wanted: Sequence[Any],
    found: Sequence[Any],
) -> Path:
    """Writes a region as ``model.onnx`` with ``inputs.npz``, ``expected.npz`` and ``actual.npz``.

    Element types that numpy cannot store (bfloat16, float8, int4 …) are written as float32, which
    holds them exactly; ``reproduction.json`` names the true types. The folder is written whole or
    not at all; an earlier reproduction in its place is replaced, anything else is left alone.

    Raises:
        UsageError: Something else lies in that place.
    """
    folder = folder.absolute()
    _require_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _replacing_folder(folder) as temporary:
        region.to_model().save(temporary / "model.onnx")
        tables = {
            "inputs": dict(zip(region.inputs, inputs, strict=True)),
            "expected": dict(zip(region.outputs, wanted, strict=True)),
            "actual": dict(zip(region.outputs, found, strict=True)),
        }
        for name, table in tables.items():
            _save(temporary / f"{name}.npz", table)
        facts = {
            "region": region.name,
            "backend": region.backend,
            "options": {k: str(v) for k, v in region.options.items()},
            "nodes": list(region.nodes),
            "types": {k: _type(v) for table in tables.values() for k, v in table.items()},
        }
        (temporary / _MARK).write_text(json.dumps(facts, indent=2), encoding="utf-8")
    return folder


def _require_free(folder: Path) -> None:
    if not folder.exists() or (folder / _MARK).exists():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise UsageError(
            f"'{folder}' exists and holds something else; name a folder that is new or empty"
        )


@contextlib.contextmanager
def _replacing_folder(folder: Path) -> Generator[Path]:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield temporary
        if folder.exists():
            shutil.rmtree(folder)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _save(path: Path, table: Mapping[str, Any]) -> None:
    """Writes arrays by name; sequences become one entry an item; absent values are left out."""
    flat: dict[str, Array] = {}
    for name, value in table.items():
        items = [(name, value)]
        if is_sequence(value):
            items = [(f"{name}[{i}]", item) for i, item in enumerate(value)]
        flat.update((key, _storable(item)) for key, item in items if item is not None)
    # numpy.savez takes names as keywords: a value named "file" would clash with its parameters.
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in flat.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _storable(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    return array if array.dtype.kind in "biufcUS" else array.astype(np.float32)


def _type(value: Any) -> str:
    if is_sequence(value):
        return "sequence"
    return "none" if value is None else dtype_name(np.asarray(value).dtype)
