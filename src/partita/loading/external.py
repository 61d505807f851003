"""Weights stored beside the model: found, checked and opened by partita, never by an engine.

A model may name a file only by a relative path that stays inside its own folder. Every component
is opened without following links and judged by the opened descriptor, so nothing can be swapped
between check and use. The file must not be cut short while the model lives: reading past the end
of a mapping kills the process. What went wrong elsewhere: CVE-2022-25882, CVE-2024-27318,
CVE-2026-27489, CVE-2026-34446, CVE-2026-34447 (onnx) and microsoft/onnxruntime#28709.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx

from partita.errors import ExternalDataError, printable

_KEYS = ("location", "offset", "length", "checksum", "basepath")
_IGNORED_KEY = re.compile(r"prepacked_\d{1,9}")
"""ONNX Runtime notes its own packed copies of weights under such keys."""
_NUMBER = re.compile(r"\d{1,19}")
_COPY = "copy the file itself there (of a download cache: without links)"


@final
class ExternalData:
    """The files beside one model, each opened at most once and mapped, not read.

    Attributes:
        folder: The model's folder; ``None`` if the model did not come from a file.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._files: dict[str, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        self._digests: dict[str, str] = {}

    def read(
        self, entries: Iterable[onnx.StringStringEntryProto], size: int
    ) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Returns ``size`` bytes of a file beside the model as a read-only array over its mapping.

        Args:
            entries: ``TensorProto.external_data``.
            size: What dtype and shape of the tensor amount to.

        Raises:
            ExternalDataError: The entry, the file or the length is not as it has to be.
        """
        fields = _fields(entries)
        location = _checked_location(fields.get("location", ""))
        offset = _number(fields, "offset", 0)
        length = _number(fields, "length", size)
        if length != size:
            raise ExternalDataError(
                f"says that {length:,} bytes of '{printable(location)}' are its data; its type and "
                f"shape need {size:,}"
            )
        content = self._open(location)
        if offset + size > content.size:
            raise ExternalDataError(
                f"wants bytes {offset:,} to {offset + size:,} of '{printable(location)}', which "
                f"has {content.size:,}"
            )
        if "checksum" in fields:
            self._check_digest(location, fields["checksum"])
        return content[offset : offset + size]

    def _open(self, location: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if location not in self._files:
            if self.folder is None:
                raise ExternalDataError(
                    f"its data lies in the file '{printable(location)}', but the model was not "
                    "loaded from a file: load it by path, or pass base_dir"
                )
            self._files[location] = _map(self.folder, location)
        return self._files[location]

    def _check_digest(self, location: str, wanted: str) -> None:
        if location not in self._digests:
            digest = hashlib.sha1(self._files[location].data, usedforsecurity=False)
            self._digests[location] = digest.hexdigest()
        if wanted.lower() != self._digests[location]:
            raise ExternalDataError(
                f"the file '{printable(location)}' has SHA-1 {self._digests[location]}; the model "
                f"wants {printable(wanted, 60)}: it is damaged or belongs to another model"
            )


def _fields(entries: Iterable[onnx.StringStringEntryProto]) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for entry in entries:
        key, text = entry.key, entry.value
        if key.__class__ is not str or text.__class__ is not str:
            raise ExternalDataError("its external_data is not UTF-8")
        if _IGNORED_KEY.fullmatch(key):
            continue
        if key not in _KEYS:
            raise ExternalDataError(
                f"its external_data has the key '{printable(key, 60)}'; legal ones: "
                f"{', '.join(_KEYS)}"
            )
        if key in fields:
            raise ExternalDataError(f"its external_data has the key '{key}' twice")
        fields[key] = text
    return fields


def _number(fields: Mapping[str, str], key: str, default: int) -> int:
    text = fields.get(key)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ExternalDataError(
            f"the {key} of its external_data is '{printable(text, 60)}', not a number of bytes"
        )
    return int(text)


def _checked_location(location: str) -> str:
    """Returns ``location`` if it is a plain relative path below the model's folder."""
    parts = [part for part in location.split("/") if part != "."]
    shown = f"its data is said to lie in '{printable(location)}'"
    if not location:
        raise ExternalDataError("its external_data names no location")
    if "\0" in location or len(location) > 4096:
        raise ExternalDataError(f"{shown}, which is no file name")
    if "_ORT_MEM_ADDR_" in location:
        raise ExternalDataError(
            f"{shown}, an address in memory: save the model with its weights first"
        )
    if location.startswith("/") or "\\" in location or re.match(r"[A-Za-z]:", location):
        raise ExternalDataError(
            f"{shown}; only a relative path with '/' inside the model's folder is opened"
        )
    if not parts or any(part in ("", "..") for part in parts):
        raise ExternalDataError(f"{shown}, which may lead out of the model's folder")
    return "/".join(parts)


def _map(folder: Path, location: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    descriptor = _descriptor(folder, location)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ExternalDataError(f"'{printable(location)}' is no regular file")
        if status.st_nlink > 1:
            raise ExternalDataError(
                f"'{printable(location)}' is a hard link ({status.st_nlink} names), which may lead "
                f"out of the model's folder: {_COPY}"
            )
        if status.st_size == 0:
            return np.zeros(0, np.uint8)
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8)
    finally:
        os.close(descriptor)


def _descriptor(folder: Path, location: str) -> int:
    """Opens ``location`` below ``folder`` without following a link in any component."""
    *parents, name = location.split("/")
    if os.open not in os.supports_dir_fd:
        return _descriptor_by_path(folder, location)
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for parent in parents:
            inner = _open_at(current, parent, os.O_DIRECTORY, location)
            os.close(current)
            current = inner
        return _open_at(current, name, os.O_NONBLOCK, location)
    finally:
        os.close(current)


def _open_at(parent: int, name: str, flags: int, location: str) -> int:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _link(location)
        if not flags & os.O_DIRECTORY and not stat.S_ISREG(status.st_mode):
            raise ExternalDataError(f"'{printable(location)}' is no regular file")
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=parent)
    except OSError as error:
        raise ExternalDataError(
            f"its data file '{printable(location)}' cannot be opened: {error.strerror}"
        ) from None


def _descriptor_by_path(folder: Path, location: str) -> int:
    """Does the same where the system has no descriptors of folders; a swap could go unseen."""
    root = os.path.realpath(folder)
    wanted = os.path.join(root, *location.split("/"))
    if os.path.realpath(wanted) != wanted:
        raise _link(location)
    try:
        return os.open(wanted, os.O_RDONLY)
    except OSError as error:
        raise ExternalDataError(
            f"its data file '{printable(location)}' cannot be opened: {error.strerror}"
        ) from None


def _link(location: str) -> ExternalDataError:
    return ExternalDataError(
        f"'{printable(location)}' is or passes a symbolic link, which may lead out of the model's "
        f"folder: {_COPY}"
    )
