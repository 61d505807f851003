"""Model files: opened, measured and told apart before anything is parsed."""

from __future__ import annotations

import difflib
import mmap
import os
import stat
from pathlib import Path

from partita.errors import InvalidModelError, LimitError, UnsupportedModelError, printable
from partita.loading.limits import Limits

_EXECUTES = (
    "loading it would run code that the file brings along (pickle): load it with PyTorch if you "
    "trust it, and give partita the module with example inputs, or export it to ONNX"
)
_REFUSED_SUFFIXES = {
    ".pt": _EXECUTES,
    ".pth": _EXECUTES,
    ".pt2": _EXECUTES,
    ".ckpt": _EXECUTES,
    ".pkl": _EXECUTES,
    ".ort": "it is ONNX Runtime's own format: give the .onnx file that it was made from",
    ".tflite": "it is a TensorFlow Lite model: convert it with tf2onnx",
    ".h5": "it is a Keras model: export it with keras.Model.export(format='onnx')",
    ".keras": "it is a Keras model: export it with keras.Model.export(format='onnx')",
    ".xml": "it is an OpenVINO model: give the .onnx file that it was made from",
    ".safetensors": "it holds weights alone, without a graph: export the model to ONNX",
    ".gguf": "it is a GGUF model: export the model to ONNX",
    ".zip": "it is an archive: unpack it first",
    ".gz": "it is compressed: unpack it first",
    ".tar": "it is an archive: unpack it first",
}
_MAGIC = (
    (0, b"\x1f\x8b", "it is compressed with gzip: unpack it first"),
    (0, b"PK\x03\x04", "it is a zip archive, as PyTorch writes them: " + _EXECUTES),
    (0, b"\x80\x02", "it is a pickle: " + _EXECUTES),
    (0, b"\x80\x04", "it is a pickle: " + _EXECUTES),
    (0, b"\x89HDF", "it is an HDF5 file (Keras): export the model to ONNX"),
    (0, b"GGUF", "it is a GGUF model: export the model to ONNX"),
    (0, b"version https://git-lfs", "it is a Git LFS pointer, not the file: run `git lfs pull`"),
    (0, b"<!DOCTYPE", "it is a web page: the download went wrong"),
    (0, b"<html", "it is a web page: the download went wrong"),
    (0, b"<?xml", "it is an XML file"),
    (4, b"ORTM", "it is ONNX Runtime's own format: give the .onnx file that it was made from"),
    (4, b"TFL3", "it is a TensorFlow Lite model: convert it with tf2onnx"),
)
_TEXT = bytes(range(32, 127)) + b"\t\r\n"


def read(path: Path, limits: Limits) -> bytes | memoryview:
    """Returns the bytes of a model file, mapped where the system can.

    Raises:
        InvalidModelError: There is no such file, or it is a folder, a device or empty.
        LimitError: It is larger than ``limits.file_bytes``.
        UnsupportedModelError: It is of a format that partita does not read.
    """
    file = str(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InvalidModelError(f"it is a folder, not a model file{_models(path)}", file=file)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidModelError("it is no regular file", file=file)
        if status.st_size == 0:
            raise InvalidModelError("the file is empty", file=file)
        if status.st_size > limits.file_bytes:
            raise LimitError(
                f"the file has {status.st_size:,} bytes; at most {limits.file_bytes:,} are taken "
                "(Limits.file_bytes): store the weights beside the model (external data)",
                file=file,
            )
        with path.open("rb") as opened:
            content = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise InvalidModelError(f"there is no such file{_near(path)}", file=file) from None
    except OSError as error:
        raise InvalidModelError(
            f"the file cannot be opened: {error.strerror or error}", file=file
        ) from None
    _check_format(content, file)
    return content


def refuse_by_suffix(path: Path) -> None:
    """Raises UnsupportedModelError if the suffix says that partita does not read the format."""
    reason = _REFUSED_SUFFIXES.get(path.suffix.lower())
    if reason is not None:
        raise UnsupportedModelError(f"partita does not open this file: {reason}", file=str(path))


def _check_format(content: memoryview, file: str) -> None:
    head = bytes(content[:64])
    for offset, magic, reason in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            raise UnsupportedModelError(f"it is no ONNX model: {reason}", file=file)
    if len(head) > 8 and not head.strip(_TEXT):
        raise InvalidModelError(
            f"it is a text file, not an ONNX model; it begins {printable(repr(head[:40]))}",
            file=file,
        )


def _near(path: Path) -> str:
    try:
        names = sorted(entry.name for entry in os.scandir(path.parent))
    except OSError:
        return f": the folder '{printable(str(path.parent))}' does not exist"
    close = difflib.get_close_matches(path.name, names[:5000], n=3, cutoff=0.5)
    return f"; near: {', '.join(printable(name) for name in close)}" if close else ""


def _models(path: Path) -> str:
    names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(".onnx"))
    return f"; it holds {', '.join(printable(name) for name in names[:5])}" if names else ""
