"""Which backends there are: built-in ones, installed plugins, and files that the user names.

Found, in this order (an earlier one wins, with a warning):

1. files given to ``load_library``;
2. files named in the environment: ``PARTITA_BACKENDS=name:path[:Class][,name:path …]``;
3. the built-in backends;
4. entry points of installed packages, group ``partita.backends``
   (none if ``PARTITA_DISABLE_PLUGINS=1``).

A path comes from the user alone, never from a model, a plan or a cache. Nothing is imported before
it is asked for, and a broken plugin breaks nothing but itself.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, final

from partita.backends import door
from partita.backends.contract import EMPTY, Backend
from partita.errors import (
    BackendError,
    BackendUnavailableError,
    ContractError,
    OptionError,
    PartitaError,
    UnknownNameError,
    printable,
)

GROUP = "partita.backends"
ENVIRONMENT = "PARTITA_BACKENDS"
DISABLE = "PARTITA_DISABLE_PLUGINS"


@final
@dataclass(frozen=True)
class BuiltIn:
    """A backend that comes with partita.

    Attributes:
        place: ``module:Class``.
        description: One line.
        modules: What has to be importable for it to work.
        distributions: Packages that bring those, for their version.
        install: The command that installs them.
        implied: Options that go with one of its other names (lower case).
    """

    place: str
    description: str
    modules: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    install: str = ""
    implied: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)

    @property
    def missing(self) -> bool:
        """Whether its engine is not installed. Nothing is imported."""
        return any(importlib.util.find_spec(module) is None for module in self.modules)

    @property
    def version(self) -> str:
        """Version of its engine, ``""`` if there is none."""
        for name in self.distributions:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return ""


BUILT_IN: Mapping[str, BuiltIn] = {
    "onnxruntime": BuiltIn(
        "partita.backends.onnxruntime:OnnxRuntimeBackend",
        "ONNX Runtime on CPU or CUDA",
        ("onnxruntime",),
        ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml"),
        'pip install "partita[onnxruntime]"',
        {
            "cudaexecutionprovider": {"provider": "cuda"},
            "cpuexecutionprovider": {"provider": "cpu"},
        },
    ),
    "openvino": BuiltIn(
        "partita.backends.openvino:OpenVinoBackend",
        "OpenVINO on CPU, float32 unless asked otherwise",
        ("openvino",),
        ("openvino",),
        'pip install "partita[openvino]"',
    ),
    "host": BuiltIn(
        "partita.backends.host:HostBackend",
        "every op of ONNX, one by one, in numpy",
        distributions=("onnx",),
    ),
    "null": BuiltIn("partita.backends.null:NullBackend", "computes nothing, charges modelled time"),
}


@final
@dataclass(frozen=True)
class BackendInfo:
    """One row of ``partita.backends()``.

    Attributes:
        name: What users write.
        available: Whether it can be used now.
        version: Version of its engine, ``""`` if unknown.
        source: The package or file that it comes from.
        install: The command that makes it available, ``""`` if there is nothing to install.
        error: Why it is not available, ``""`` if it is.
        description: One line.
        aliases: Other names users may write.
        options: Every option with its default.
    """

    name: str
    available: bool
    version: str = ""
    source: str = ""
    install: str = ""
    error: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@final
class BackendList(tuple[BackendInfo, ...]):
    """Rows of backends; ``print`` shows them as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        head = ("backend", "version", "source", "")
        rows = [head, *((i.name, i.version or "-", i.source, _remark(i)) for i in self)]
        widths = [max(len(row[c]) for row in rows) for c in range(3)]
        return "\n".join(
            "  ".join((*(row[c].ljust(widths[c]) for c in range(3)), row[3])).rstrip()
            for row in rows
        )

    __repr__ = __str__


@final
@dataclass(frozen=True)
class _Entry:
    """A backend that has been found but perhaps not yet imported."""

    name: str
    source: str
    load: door.Loader
    built_in: BuiltIn | None = None
    version: str = ""


_named_by_user: dict[str, _Entry] = {}
_warned: set[tuple[str, str, str]] = set()


def backends() -> BackendList:
    """Returns every known backend, the missing and the broken ones too; imports no engine."""
    return BackendList(_info(entry) for entry in _entries().values())


def engine_version(name: str) -> str:
    """Returns the version of a backend's engine, or ``""``; imports nothing."""
    entry = _entries().get(name)
    if entry is None:
        return ""
    return entry.built_in.version if entry.built_in is not None else entry.version


def load_library(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Registers the backends that a Python file defines; they win over others of the same name.

    Args:
        path: The file; its code is run.

    Returns:
        Their names.

    Raises:
        BackendError: There is no such file, or it cannot be run.
        ContractError: It defines no backend, or one that breaks the contract.
    """
    file = Path(path).expanduser().resolve()
    found = door.classes_of_file(file)
    for cls in found:
        door.check(cls, str(file))
    for cls in found:
        _named_by_user[cls.name] = _Entry(cls.name, str(file), door.given(cls))
    _entries()  # warns of what is hidden now
    return tuple(cls.name for cls in found)


def resolve(
    spec: str | type[Backend] | Backend, options: Mapping[str, Mapping[str, Any]] = EMPTY
) -> Backend:
    """Returns the live backend that ``spec`` means.

    Args:
        spec: A name, another name of it in any case (``"CPUExecutionProvider"``), a class or an
            instance.
        options: ``{backend: {option: value}}``; those of other backends are left alone.

    Raises:
        UnknownNameError: There is no such backend; the message lists near matches.
        BackendUnavailableError: Its engine is not installed; the message has the command.
        ContractError: It breaks the backend contract.
        OptionError: An instance was given together with options for it.
    """
    if isinstance(spec, Backend):
        door.check(type(spec), f"class {type(spec).__qualname__}")
        if options.get(spec.name):
            raise OptionError(
                f"backend '{spec.name}' is an instance that has its options; give them to "
                f"{type(spec).__name__}(…) instead"
            )
        return spec
    if isinstance(spec, type):
        source = f"class {spec.__qualname__}"
        return _made(door.check(spec, source), source, options)
    entry, implied = _find(spec)
    if entry.built_in is not None and entry.built_in.missing:
        raise BackendUnavailableError(_missing(entry.name, entry.built_in))
    cls = door.check(entry.load(), entry.source)
    mine = {**implied, **options.get(cls.name, {}), **options.get(spec, {})}
    return _made(cls, entry.source, {cls.name: mine})


def _made(cls: type[Backend], source: str, options: Mapping[str, Mapping[str, Any]]) -> Backend:
    try:
        return cls(**options.get(cls.name, {}))
    except PartitaError:
        raise
    except ImportError as error:
        raise BackendUnavailableError(
            f"backend '{cls.name}' of {source} cannot start: {printable(str(error))}; "
            "install what it needs"
        ) from error
    except Exception as error:
        raise ContractError(
            f"backend '{cls.name}' of {source} cannot start: {type(error).__name__}: "
            f"{printable(str(error))}; its author has to mend that"
        ) from error


def _find(name: str) -> tuple[_Entry, Mapping[str, Any]]:
    """Returns the entry of that name or other name, and the options that the name implies."""
    entries = _entries()
    if name in entries:
        return entries[name], EMPTY
    wanted = name.lower()
    others: list[str] = []
    for entry in entries.values():
        aliases = _aliases(entry)
        others += aliases
        if wanted == entry.name or wanted in (a.lower() for a in aliases):
            implied = EMPTY if entry.built_in is None else entry.built_in.implied
            return entry, implied.get(wanted, EMPTY)
    raise UnknownNameError("backend", name, [*entries, *others])


def _aliases(entry: _Entry) -> tuple[str, ...]:
    try:
        return door.check(entry.load(), entry.source).aliases
    except BackendError:  # a broken plugin has no other names
        return ()


def _entries() -> dict[str, _Entry]:
    """Returns what is found now, the winner under each name; losers are warned about once."""
    found: dict[str, _Entry] = {}
    for entry in (
        *_named_by_user.values(),
        *_from_environment(),
        *_built_in(),
        *_from_packages(),
    ):
        winner = found.setdefault(entry.name, entry)
        conflict = (entry.name, winner.source, entry.source)
        if winner.source != entry.source and conflict not in _warned:
            _warned.add(conflict)
            warnings.warn(
                f"backend '{entry.name}' of {winner.source} hides the one of {entry.source}",
                UserWarning,
                stacklevel=3,
            )
    return found


def _from_environment() -> Iterator[_Entry]:
    for part in os.environ.get(ENVIRONMENT, "").split(","):
        if not part.strip():
            continue
        name, _, place = part.strip().partition(":")
        file, _, cls = place.partition(".py:")
        path = f"{file}.py" if cls else place
        yield _Entry(name, f"{ENVIRONMENT}={part.strip()}", door.in_file(name, path, cls))


def _built_in() -> Iterator[_Entry]:
    for name, built_in in BUILT_IN.items():
        yield _Entry(name, "partita", door.at(built_in.place, "partita"), built_in)


def _from_packages() -> Iterator[_Entry]:
    if os.environ.get(DISABLE, "") not in ("", "0"):
        return
    for point in _entry_points(tuple(sys.path)):
        package = point.dist.name if point.dist else point.module
        if package == "partita":
            continue
        version = point.dist.version if point.dist else ""
        yield _Entry(point.name, package, door.of_entry_point(point, package), version=version)


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Reads the metadata of all installed packages; ``path`` is what they are looked for in."""
    points = importlib.metadata.entry_points(group=GROUP)
    return tuple(sorted(points, key=lambda p: (p.name, p.dist.name if p.dist else "")))


def _info(entry: _Entry) -> BackendInfo:
    built_in = entry.built_in
    version = entry.version if built_in is None else built_in.version
    description = "" if built_in is None else built_in.description
    try:
        cls = door.check(entry.load(), entry.source, entry.name)
    except BackendError as error:
        return BackendInfo(entry.name, False, version, entry.source, error=str(error))
    missing = built_in is not None and built_in.missing
    return BackendInfo(
        name=entry.name,
        available=not missing,
        version=version,
        source=entry.source,
        install=built_in.install if built_in is not None and missing else "",
        error=_missing(entry.name, built_in) if built_in is not None and missing else "",
        description=description or (cls.__doc__ or "").strip().partition("\n")[0],
        aliases=cls.aliases,
        options=cls.options,
    )


def _missing(name: str, built_in: BuiltIn) -> str:
    return f"backend '{name}' is known, but its engine is not installed; {built_in.install}"


def _remark(info: BackendInfo) -> str:
    if info.install:
        return f"not installed: {info.install}"
    return printable(info.error, 300) if info.error else info.description
