"""The door: everything wrong with a guest is found here, and the error names the guest.

A plugin's code runs only when its class is asked for. Whatever it raises becomes a
``ContractError`` (or ``BackendUnavailableError`` if it lacks a module) that names its source.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from partita.backends.contract import Backend
from partita.errors import BackendError, BackendUnavailableError, ContractError, printable

Loader = Callable[[], Any]
"""Imports a plugin and returns what should be its class."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PLAIN = (bool, int, float, str, tuple, type(None))


def check(cls: Any, source: str, name: str | None = None) -> type[Backend]:
    """Returns ``cls`` if it keeps the backend contract.

    Args:
        cls: What a plugin offers as its backend.
        source: The package or file it comes from, for messages.
        name: The name under which it was announced, if any.

    Raises:
        ContractError: It does not; the message says what its author has to mend.
    """
    shown = printable(repr(cls))
    if not (isinstance(cls, type) and issubclass(cls, Backend)):
        raise ContractError(
            f"{source} offers {shown} as a backend; it needs a subclass of partita.Backend"
        )
    who = f"backend class {cls.__qualname__} of {source}"
    own = cls.__dict__.get("name", getattr(cls, "name", None))
    if not (isinstance(own, str) and _NAME.fullmatch(own)):
        raise ContractError(
            f"{who} has name {printable(repr(own))}; it needs a lower-case word such as 'mine'"
        )
    if name is not None and own != name:
        raise ContractError(f"{who} is announced as '{printable(name)}', but its name is '{own}'")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ContractError(f"{who} lacks {' and '.join(f'{m}()' for m in missing)}")
    _check_options(cls, who)
    _check_signatures(cls, who)
    return cls


def _check_options(cls: type[Backend], who: str) -> None:
    options: Any = vars(cls).get("options", cls.options)
    if not isinstance(options, Mapping):
        raise ContractError(f"{who} has options {options!r}; they need to be a mapping of defaults")
    for key, default in cast("Mapping[Any, Any]", options).items():
        if not (isinstance(key, str) and key.isidentifier()):
            raise ContractError(f"{who} has an option named {key!r}; it needs to be an identifier")
        if not isinstance(default, _PLAIN):
            raise ContractError(
                f"{who}: the default of option '{key}' is a {type(default).__name__}; "
                "it needs to be a bool, int, float, str, tuple or None"
            )
    aliases: Any = vars(cls).get("aliases", cls.aliases)
    if not isinstance(aliases, tuple) or not all(
        isinstance(a, str) for a in cast("tuple[Any, ...]", aliases)
    ):
        raise ContractError(f"{who} has aliases {aliases!r}; they need to be a tuple of text")


def _check_signatures(cls: type[Backend], who: str) -> None:
    """Checks that every method that replaces one of the contract can be called as it is called."""
    for key, original in vars(Backend).items():
        replaced = inspect.getattr_static(cls, key, original)
        if replaced is original or key.startswith("_") or not inspect.isfunction(original):
            continue
        arguments = list(inspect.signature(original).parameters)[1:]
        if isinstance(replaced, staticmethod):
            takes = replaced.__func__
        elif inspect.isfunction(replaced):
            arguments, takes = ["self", *arguments], replaced
        else:
            takes = getattr(cls, key)
        if not callable(takes):
            raise ContractError(f"{who}: {key} is {takes!r}; it needs to be a method")
        try:
            inspect.signature(takes).bind(*arguments)
        except TypeError as error:
            shown = ", ".join(a for a in arguments if a != "self")
            raise ContractError(
                f"{who}: {key}() is called as {key}({shown}), which it does not take: {error}"
            ) from error
        except ValueError:  # a builtin without a signature
            continue


def given(cls: type[Backend]) -> Loader:
    """Returns a loader of a class that is there already."""
    return lambda: cls


def at(place: str, source: str) -> Loader:
    """Returns a loader of ``module:Class``."""
    module, _, cls = place.partition(":")
    return lambda: _guarded(lambda: getattr(importlib.import_module(module), cls), source)


def of_entry_point(point: importlib.metadata.EntryPoint, source: str) -> Loader:
    """Returns a loader of an entry point."""
    return lambda: _guarded(point.load, f"package '{source}' (entry point '{point.name}')")


def in_file(name: str, path: str, cls: str = "") -> Loader:
    """Returns a loader of a class in a Python file: of that class, or of the one of that name."""

    def load() -> Any:
        found = {c.__name__: c for c in classes_of_file(Path(path).expanduser().resolve())}
        if cls and cls in found:
            return found[cls]
        named = [c for c in found.values() if getattr(c, "name", None) == name]
        if cls or not named:
            wanted = f"class {cls}" if cls else f"backend named '{name}'"
            raise ContractError(f"{path} has no {wanted}; it has {', '.join(found)}")
        return named[0]

    return load


def classes_of_file(file: Path) -> list[type[Backend]]:
    """Runs a Python file and returns the backend classes that it defines.

    Raises:
        BackendError: There is no such file, it is no Python file, or running it fails.
        ContractError: It defines no backend.
    """
    if file.suffix in (".so", ".dll", ".dylib"):
        raise BackendError(
            f"'{file}' is a compiled library; C and C++ libraries are not supported yet, give a "
            "Python file"
        )
    if file.suffix != ".py":
        raise BackendError(f"'{file}' is no Python file; its name has to end in .py")
    if not file.is_file():
        raise BackendError(f"there is no file '{file}'")
    module: ModuleType = _guarded(lambda: _run_file(file), f"'{file}'")
    values: dict[str, Any] = module.__dict__
    found: list[Any] = [
        c for c in values.values() if _is_backend(c) and c.__module__ == module.__name__
    ]
    whole = [c for c in found if not inspect.isabstract(c)]
    if found and not whole:
        check(found[0], f"'{file}'")
    if not found:
        raise ContractError(f"'{file}' defines no subclass of partita.Backend")
    return whole


def _is_backend(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Backend)


def _run_file(file: Path) -> ModuleType:
    name = f"partita_backend_{re.sub(r'[^a-zA-Z0-9_]', '_', str(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BackendError(f"'{file}' cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and typing look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _guarded(load: Loader, source: str) -> Any:
    """Runs a guest's code; whatever it raises is the guest's and is said so."""
    try:
        return load()
    except BackendError:
        raise
    except ModuleNotFoundError as error:
        raise BackendUnavailableError(
            f"{source} needs module '{error.name}', which is not installed"
        ) from error
    except (Exception, SystemExit) as error:
        raise ContractError(
            f"{source} fails when it is imported: {type(error).__name__}: {printable(str(error))}"
        ) from error
