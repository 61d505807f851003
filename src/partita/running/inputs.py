"""Random inputs for a model, so that it can be run without data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.errors import UnknownNameError, UsageError, printable
from partita.model import Model
from partita.running.specs import Spec, spec_of

DEFAULT_SIZE = 1
"""Size of dimensions that nothing is known of."""
INDEX_CEILING = 1000
"""Indices stay below this even where the table is larger."""

_KEEPS_INDICES = frozenset(
    {"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand"}
    | {"Slice", "Concat", "Split", "Tile", "Where"}
)
_WORDS = ("a", "bc", "déf", "")


def random_inputs(
    model: Model, seed: int = 0, dims: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Returns random inputs for a model by name; the same seed gives the same inputs.

    Floats are standard normal. int32 and int64 inputs are 0 or 1 unless they index a table (the
    data of a Gather), then they stay inside it; other integers span their type. Dimensions that
    the model leaves open are 1 unless ``dims`` says otherwise.

    Args:
        model: The model.
        seed: Seed of the generator.
        dims: Sizes of named dimensions.

    Raises:
        UnknownNameError: The model has no dimension of that name.
        UsageError: A size is negative, or the rank of an input is unknown.
    """
    sizes = dict(dims or {})
    specs = {value: spec_of(value) for value in model.inputs}
    known = {d for spec in specs.values() for d in spec.shape or () if isinstance(d, str)}
    for name, size in sizes.items():
        if name not in known:
            raise UnknownNameError("dimension", name, known)
        if size < 0:
            raise UsageError(
                f"dimension '{printable(name)}' is {size}; it needs a size of 0 or more"
            )
    generator = np.random.default_rng(seed)
    return {spec.name: _random(generator, value, spec, sizes) for value, spec in specs.items()}


def _random(
    generator: np.random.Generator, value: ir.Value, spec: Spec, sizes: Mapping[str, int]
) -> Any:
    if spec.kind == "optional":
        return None
    if spec.kind == "sequence":
        inner = value.type.elem_type if isinstance(value.type, ir.SequenceType) else None
        item = ir.Value(name=value.name, type=inner, shape=value.shape)
        return [_random(generator, item, spec_of(item), sizes)]
    name = printable(spec.name)
    if spec.dtype is None or spec.shape is None:
        raise UsageError(f"type or rank of input '{name}' is unknown; give it an array")
    shape = tuple(d if isinstance(d, int) else sizes.get(d or "", DEFAULT_SIZE) for d in spec.shape)
    return _array(generator, spec.dtype, shape, _ceiling(value))


def _array(
    generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], ceiling: int
) -> np.ndarray[Any, Any]:
    if dtype.kind == "O":
        return generator.choice(np.array(_WORDS, dtype=object), size=shape)
    if dtype.kind == "b":
        return generator.integers(0, 2, size=shape).astype(bool)
    if dtype.kind == "c":
        parts = generator.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype.kind == "i" and dtype.itemsize >= 4:
        return generator.integers(0, ceiling, size=shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, size=shape, dtype=dtype, endpoint=True)
    # The small types of ml_dtypes convert from float like the rest; scales (e8m0) have no sign.
    numbers = generator.standard_normal(shape)
    return (np.abs(numbers) if "e8m0" in dtype.name else numbers).astype(dtype)


def _ceiling(value: ir.Value) -> int:
    """Returns how many values an integer input may take: the smallest table that it indexes."""
    tables: list[int] = []
    seen = {value}
    stack = [value]
    while stack:
        current = stack.pop()
        for node, position in current.uses():
            if node.op_type in _KEEPS_INDICES and (
                position == 0 or node.op_type in ("Concat", "Where")
            ):
                found = [v for v in node.outputs if v not in seen]
                seen.update(found)
                stack += found
            elif node.op_type in ("Gather", "GatherElements") and position == 1:
                tables.append(_table_size(node))
    return min([*tables, INDEX_CEILING]) if tables else 2


def _table_size(node: ir.Node) -> int:
    data = node.inputs[0]
    axis = node.attributes.get_int("axis", 0)
    if data is None or data.shape is None or not -len(data.shape) <= axis < len(data.shape):
        return 2
    size = data.shape[axis]
    return size if isinstance(size, int) and size > 0 else 2
