"""Arrays in files: inputs that a user gives, outputs that a user keeps. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from partita.backends.contract import Array
from partita.cli.options import Display, Feeds
from partita.cli.terminal import say
from partita.errors import InputError, UnknownNameError, UsageError, printable
from partita.files import replacing
from partita.model import Model
from partita.running.specs import Spec, dtype_name, spec_of


def fed(model: Model, feeds: Feeds, display: Display) -> dict[str, Any]:
    """Returns inputs by name: those that the user gives, random ones for the rest.

    Raises:
        UsageError: An option is written wrongly or names no input.
        InputError: A file does not hold an array.
    """
    from partita.running.inputs import random_inputs

    specs = {spec.name: spec for spec in map(spec_of, model.inputs)}
    given = _given(specs, feeds.input or [])
    if len(given) == len(specs):
        return {name: given[name] for name in specs}
    sizes = {**_sizes_settled(specs, given), **sizes_of(feeds.dim or [])}
    random = random_inputs(model, feeds.seed, sizes)
    missing = [name for name in specs if name not in given]
    shown = ", ".join(f"{name} {_described(random[name])}" for name in missing[:4])
    more = f", … {len(missing) - 4} more" if len(missing) > 4 else ""
    say(display, f"partita: random inputs (seed {feeds.seed}): {shown}{more}")
    return {name: given.get(name, random[name]) for name in specs}


def _given(specs: Mapping[str, Spec], texts: list[str]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if equals and name in specs:
            found[name] = _single(Path(path))
        elif Path(text).suffix == ".npz" and (not equals or Path(text).exists()):
            found.update(_several(Path(text), specs))
        elif len(specs) == 1 and (not equals or Path(text).exists()):
            found[next(iter(specs))] = _single(Path(text))
        elif equals:
            raise UnknownNameError("input", name, specs)
        else:
            raise UsageError(
                f"--input is '{printable(text)}'; write it NAME=FILE.npy or FILE.npz "
                f"(inputs: {', '.join(map(printable, specs))})"
            )
    return found


def _several(path: Path, specs: Mapping[str, Spec]) -> dict[str, Array]:
    arrays = _loaded(path)
    for name in arrays:
        if name not in specs:
            raise UnknownNameError(f"input (array of {path})", name, specs)
    return arrays


def _single(path: Path) -> Array:
    arrays = list(_loaded(path).values())
    if len(arrays) != 1:
        raise InputError(f"{path} holds {len(arrays)} arrays; give it without a name")
    return arrays[0]


def _loaded(path: Path) -> dict[str, Array]:
    """Returns the arrays of a file by name; a single one has the name ``""``."""
    try:
        with path.open("rb") as file:
            content: Any = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return {"": cast("Array", content)}
            with content:
                return {name: content[name] for name in content.files}
    except FileNotFoundError as error:
        raise UsageError(f"--input: there is no file {path}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path} cannot be read as a numpy file: {error}") from error


def sizes_of(texts: list[str]) -> dict[str, int]:
    """Returns sizes by the name of their dimension, from ``NAME=N``.

    Raises:
        UsageError: One is written in another way.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not (equals and name and size.isdecimal()):
            raise UsageError(f"--dim is '{printable(text)}'; write it NAME=N, such as batch=4")
        found[name] = int(size)
    return found


def _sizes_settled(specs: Mapping[str, Spec], given: Mapping[str, Array]) -> dict[str, int]:
    """Returns the sizes of named dimensions that the given arrays already settle."""
    found: dict[str, int] = {}
    for name, array in given.items():
        shape = specs[name].shape or ()
        if len(shape) == array.ndim:
            found.update(
                (d, size) for d, size in zip(shape, array.shape, strict=True) if isinstance(d, str)
            )
    return found


def _described(value: Any) -> str:
    if value is None or isinstance(value, list):
        return "left out" if value is None else "a sequence"
    array: Array = np.asarray(value)
    return f"{dtype_name(array.dtype)}[{','.join(map(str, array.shape))}]"


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays by name as an ``.npz`` file; whole or not at all.

    Items of a sequence become ``name[0]``, ``name[1]`` …; absent values are left out. Element types
    that numpy's format does not know (bfloat16, float8, int4 …) are written as float32.
    """
    flat: dict[str, Any] = {}
    for name, value in arrays.items():
        flat.update(
            _items(name, cast("list[Any]", value)) if isinstance(value, list) else {name: value}
        )
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for i, (name, value) in enumerate(flat.items()):
            if value is None:
                continue
            # A name from a model must not become a path in someone's archive tool.
            entry = name if Path(name).name == name else f"output_{i}"
            with archive.open(f"{entry}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, _storable(value), allow_pickle=False)


def _items(name: str, values: Sequence[Any]) -> dict[str, Any]:
    return {f"{name}[{i}]": value for i, value in enumerate(values)}


def _storable(value: Any) -> Array:
    array: Array = np.asarray(value)
    if array.dtype.kind == "O":
        return array.astype(np.str_)
    return array if array.dtype.kind in "biufcUS" else array.astype(np.float32)
