"""PyTorch: modules and exported programs, by way of ``torch.onnx.export``.

Files are never opened here: ``torch.load`` and ``torch.export.load`` run code that a file brings
along (CVE-2025-32434, CVE-2026-4538).
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Generator
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from partita.errors import UnsupportedModelError, UsageError

_LOG = logging.getLogger(__name__)


def is_torch(source: object) -> bool:
    """Tells whether ``source`` is a torch module or exported program, without importing torch."""
    return _kind(source) is not None


def export(source: Any, example_inputs: Any, dynamic_shapes: Any) -> ir.Model:
    """Returns a module or an exported program as an ONNX model that holds a copy of its weights.

    Args:
        source: A ``torch.nn.Module`` or a ``torch.export.ExportedProgram``.
        example_inputs: For a module: one tensor, or a tuple of its positional arguments.
        dynamic_shapes: Passed on to ``torch.export``.

    Raises:
        UsageError: A module comes without example inputs.
        UnsupportedModelError: PyTorch cannot export it; the message carries PyTorch's reason.
    """
    _check_arguments(source, example_inputs, dynamic_shapes)
    name = type(source).__name__
    import torch

    arguments = _arguments(example_inputs)
    try:
        with _quiet(name):
            program = torch.onnx.export(
                source, arguments, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
            )
    except ImportError as error:
        raise UsageError(
            f"exporting from PyTorch needs {error.name or error}: pip install partita[torch]"
        ) from error
    except Exception as error:  # PyTorch raises what it likes; the user needs its words.
        raise UnsupportedModelError(
            f"PyTorch cannot export it: {_first_lines(error)}", file=f"<torch {name}>"
        ) from error
    if program is None:
        raise UnsupportedModelError("PyTorch exported nothing", file=f"<torch {name}>")
    return _with_own_weights(program.model)


def _check_arguments(source: object, example_inputs: Any, dynamic_shapes: Any) -> None:
    kind, name = _kind(source), type(source).__name__
    if kind == "ScriptModule":
        raise UnsupportedModelError(
            "is a TorchScript module, which torch.export does not take: give the original module",
            file=f"<torch {name}>",
        )
    if kind == "Module" and example_inputs is None:
        raise UsageError(
            f"{name} is a torch module: partita traces it with example inputs, as in "
            "load(module, (torch.randn(1, 3, 224, 224),))"
        )
    if kind == "ExportedProgram" and (example_inputs is not None or dynamic_shapes is not None):
        raise UsageError("an ExportedProgram brings its inputs and shapes along; give it alone")


def _arguments(example_inputs: Any) -> tuple[Any, ...]:
    if example_inputs is None:
        return ()
    if isinstance(example_inputs, tuple):
        return cast("tuple[Any, ...]", example_inputs)
    return (example_inputs,)


def _kind(source: object) -> str | None:
    """Returns what torch calls the class of ``source``, or ``None`` if it is none of torch's."""
    for base in type(source).__mro__:
        if base.__module__.partition(".")[0] == "torch" and base.__name__ in (
            "ScriptModule",
            "Module",
            "ExportedProgram",
        ):
            return base.__name__
    return None


def _with_own_weights(model: ir.Model) -> ir.Model:
    # The export shares memory with the module, which its owner may train on.
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            copied = np.array(tensor.numpy())
            value.const_value = ir.Tensor(copied, dtype=tensor.dtype, name=value.name)
    return model


def _first_lines(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    if cause is not None and str(cause):
        lines.append(f"({type(cause).__name__}: {str(cause).splitlines()[0]})")
    return " ".join(lines[:6])[:1000] or type(error).__name__


@contextlib.contextmanager
def _quiet(name: str) -> Generator[None]:
    """Keeps the exporter's prints, warnings and log lines off the terminal; logs them instead."""
    said = io.StringIO()
    loggers = [logging.getLogger(n) for n in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if said.getvalue():
            _LOG.debug("torch.onnx on %s: %s", name, said.getvalue())
