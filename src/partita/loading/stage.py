"""The loading stage: whatever holds a model becomes a checked and normalised one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from partita import collector
from partita.errors import ModelError, UsageError
from partita.loading import files, torch
from partita.loading.limits import Limits
from partita.loading.onnx import load_proto, parse
from partita.loading.places import placed
from partita.loading.skeleton import Skeleton
from partita.model import Model


def load(
    source: Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    base_dir: str | os.PathLike[str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Model:
    """Returns the model that ``source`` holds, checked and normalised; shapes are not inferred.

    Args:
        source: A path of an ONNX file, its bytes, an ``onnx.ModelProto``, an ``onnx_ir.Model``,
            a ``torch.nn.Module`` or a ``torch.export.ExportedProgram``. It is never edited.
        example_inputs: For a torch module: a tensor, or a tuple of its positional arguments.
        dynamic_shapes: For a torch module: as ``torch.export.export`` takes it.
        base_dir: Folder of weights stored beside the model, where ``source`` is no path.
        limits: How large the model may be.

    Raises:
        ModelError: The model is not legal, too large, or cannot be taken; names file, node, value.
        UsageError: ``source`` is none of these, or arguments do not go together.
    """
    if isinstance(source, Model):
        source = source.ir
    kind = type(source).__name__
    if torch.is_torch(source):
        exported = torch.export(source, example_inputs, dynamic_shapes)
        with collector.paused():
            return _load_ir(exported, f"<torch {kind}>", limits)
    if example_inputs is not None or dynamic_shapes is not None:
        raise UsageError(
            f"example_inputs and dynamic_shapes go with a torch module; the source is a {kind}"
        )
    with collector.paused():
        return _load_other(source, None if base_dir is None else Path(base_dir), limits)


def _load_other(source: Any, folder: Path | None, limits: Limits) -> Model:
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)  # pyright: ignore[reportUnknownArgumentType]
        return _loader(path)(path, limits)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)  # pyright: ignore[reportUnknownArgumentType]
        return load_proto(parse(data, "<bytes>"), "<bytes>", folder, limits)
    if isinstance(source, onnx.ModelProto):
        return load_proto(source, "<ModelProto>", folder, limits)
    if isinstance(source, ir.Model):
        return _load_ir(source, "<onnx_ir.Model>", limits)
    raise UsageError(
        f"a model cannot be loaded from a {type(source).__name__}; give the path of an ONNX file, "
        "its bytes, an onnx.ModelProto, an onnx_ir.Model, or a torch module with example inputs"
    )


def _load_file(path: Path, limits: Limits) -> Model:
    files.refuse_by_suffix(path)
    content = files.read(path, limits)
    return load_proto(parse(content, str(path)), str(path), path.absolute().parent, limits)


def _load_ir(source: ir.Model, file: str, limits: Limits) -> Model:
    try:
        skeleton = Skeleton(source, limits)
    except ModelError as error:
        raise placed(error, file) from None
    return load_proto(skeleton.proto, file, None, limits, skeleton.tensors)


FileLoader = Callable[[Path, Limits], Model]
FORMATS: dict[str, FileLoader] = {"": _load_file}
"""Who loads a file, by the end of its name; the longest end that fits counts."""


def _loader(path: Path) -> FileLoader:
    fitting = [end for end in FORMATS if path.name.endswith(end)]
    return FORMATS[max(fitting, key=len)]
