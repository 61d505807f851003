"""Checks what a caller passes to a program: the slow and talkative half.

The generated function compares types, element types and shapes with what was admitted before,
in about 0.2 µs an input; only what it has not seen yet comes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from partita.errors import InputError, UnknownNameError, printable
from partita.running.specs import Spec, dtype_name
from partita.running.values import Array, is_array

SEEN_LIMIT = 4096
"""Shape combinations remembered; a server with ever new shapes must not grow."""


_PLAIN = (bool, int, float, complex, list, tuple)


@final
class Admission:
    """Admits arrays as inputs of a program."""

    def __init__(self, specs: tuple[Spec, ...]) -> None:
        self._specs = specs
        self._names = tuple(spec.name for spec in specs)
        self._seen: set[tuple[tuple[int, ...], ...]] = set()
        self.checked = tuple(i for i, s in enumerate(specs) if s.dtype is not None)
        """Positions of the inputs whose type and shape the generated function compares."""

    def namespace(self) -> dict[str, Any]:
        """Returns what the generated function compares with."""
        names: dict[str, Any] = {"ndarray": np.ndarray, "seen": self._seen, "admit": self.admit}
        names.update((f"d{i}", self._specs[i].dtype) for i in self.checked)
        return names

    def by_name(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Returns fed values in graph order.

        Raises:
            InputError: A name is missing, or there is no such input.
        """
        if len(feeds) == len(self._names):
            try:
                return [feeds[name] for name in self._names]
            except KeyError:
                pass  # the message is worked out below
        names = {spec.name for spec in self._specs}
        for name in feeds:
            if name not in names:
                raise InputError(str(UnknownNameError("input", str(name), names)))
        missing = [s for s in self._specs if s.name not in feeds]
        wanted = (f"input '{printable(s.name)}' ({_wanted(s)})" for s in missing)
        raise InputError("missing: " + "; ".join(wanted))

    def admit(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the inputs as arrays that fit the model.

        Raises:
            InputError: They do not fit; the message says which, what was found and what is wanted.
        """
        if len(arrays) != len(self._specs):
            names = ", ".join(printable(s.name) for s in self._specs)
            raise InputError(
                f"{len(arrays)} inputs are given; the model wants {len(self._specs)}"
                + (f" ({names})" if names else "")
            )
        admitted = tuple(map(_admitted, self._specs, arrays))
        _check_dimensions(self._specs, admitted)
        if len(self._seen) >= SEEN_LIMIT:
            self._seen.clear()
        self._seen.add(tuple(admitted[i].shape for i in self.checked))
        return admitted


def _admitted(spec: Spec, value: Any) -> Any:
    if spec.dtype is None:
        return value
    array = _array(spec, value)
    if array.dtype != spec.dtype and not (spec.dtype.kind == "O" and array.dtype.kind in "US"):
        raise InputError(
            f"input '{printable(spec.name)}' is {dtype_name(array.dtype)}; "
            f"the model wants {dtype_name(spec.dtype)}"
        )
    wanted = spec.shape
    if wanted is None:
        return array
    if len(wanted) != array.ndim:
        raise InputError(
            f"input '{printable(spec.name)}' has {array.ndim} dimensions {array.shape}; "
            f"the model wants {_wanted(spec)}"
        )
    for axis, (found, size) in enumerate(zip(array.shape, wanted, strict=True)):
        if isinstance(size, int) and size != found:
            raise InputError(
                f"input '{printable(spec.name)}' has size {found} in dimension {axis}; "
                f"the model wants {_wanted(spec)}"
            )
    return array


def _array(spec: Spec, value: Any) -> Array:
    """Returns ``value`` as an array; Python numbers take the model's type, arrays keep theirs."""
    assert spec.dtype is not None
    if is_array(value):
        array = np.asarray(value)  # a subclass such as memmap becomes a plain array, without a copy
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    try:
        array = _converted(value)
        if type(value) in _PLAIN and spec.dtype.kind != "O":
            return array.astype(spec.dtype, casting="same_kind")
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(
            f"input '{printable(spec.name)}' is a {type(value).__name__} that numpy cannot read "
            f"({error}); the model wants {_wanted(spec)}"
        ) from error
    return array


def _converted(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype == object and array.shape == () and not isinstance(value, (str, bytes)):
        return np.from_dlpack(value)  # no __array__: __dlpack__ is the other way in
    return array


def _check_dimensions(specs: tuple[Spec, ...], arrays: tuple[Any, ...]) -> None:
    """Refuses inputs that give one named dimension two sizes."""
    sizes: dict[str, tuple[int, str]] = {}
    for spec, array in zip(specs, arrays, strict=True):
        for dimension, size in zip(
            spec.shape or (), array.shape if spec.shape else (), strict=True
        ):
            if not isinstance(dimension, str):
                continue
            known, where = sizes.setdefault(dimension, (size, spec.name))
            if known != size:
                raise InputError(
                    f"dimension '{printable(dimension)}' is {known} in input '{printable(where)}' "
                    f"and {size} in input '{printable(spec.name)}'; it needs one size"
                )


def _wanted(spec: Spec) -> str:
    shape = (
        "any shape"
        if spec.shape is None
        else ("shape (" + ", ".join("?" if d is None else str(d) for d in spec.shape) + ")")
    )
    return f"{dtype_name(spec.dtype)}, {printable(shape)}"
