from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from partita.backends import registry
from partita.backends.contract import Backend, Node, Region
from partita.backends.host import HostBackend
from partita.errors import (
    BackendError,
    BackendUnavailableError,
    ContractError,
    OptionError,
    UnknownNameError,
)

GOOD = """
    from partita.backends.contract import Backend
    class Mine(Backend):
        "Runs nothing, politely."
        name = "{name}"
        options = {{"level": 3}}
        aliases = ("Minimal",)
        def why_not(self, node):
            return "no kernel at all"
        def compile(self, region):
            raise NotImplementedError
"""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(registry.ENVIRONMENT, raising=False)
    monkeypatch.delenv(registry.DISABLE, raising=False)
    monkeypatch.setattr(registry, "_named_by_user", {})
    monkeypatch.setattr(registry, "_warned", set())
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


def write(folder: Path, text: str, file: str = "plugin.py") -> Path:
    path = folder / file
    path.write_text(textwrap.dedent(text))
    return path


class Point:
    """An entry point that loads what it is told to, or raises."""

    def __init__(self, name: str, load: Any, package: str = "stranger") -> None:
        self.name, self._load, self.module = name, load, package
        self.dist = type("Dist", (), {"name": package, "version": "2.1"})

    def load(self) -> Any:
        if isinstance(self._load, BaseException):
            raise self._load
        return self._load


def install(monkeypatch: pytest.MonkeyPatch, *points: Point) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(points))


class Stranger(Backend):
    """A good backend."""

    name = "stranger"

    def why_not(self, node: Node) -> str | None:
        return "no kernel at all"

    def compile(self, region: Region) -> Any:
        raise NotImplementedError


def row(name: str) -> registry.BackendInfo:
    return next(info for info in registry.backends() if info.name == name)


# Listing


def test_listing_imports_no_engine() -> None:
    code = (
        "import sys; from partita.backends import registry; rows = str(registry.backends()); "
        "print(sorted({'onnxruntime', 'openvino', 'torch'} & set(sys.modules)), len(rows) > 50)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


def test_listing_shows_every_built_in_backend_and_prints_as_a_table() -> None:
    found = registry.backends()
    assert [info.name for info in found][:4] == ["onnxruntime", "openvino", "host", "null"]
    lines = str(found).splitlines()
    assert lines[0].split() == ["backend", "version", "source"]
    assert len(lines) == len(found) + 1
    assert row("host").available
    assert "reference" in row("host").aliases
    assert row("onnxruntime").options["provider"] == "cpu"


def test_missing_engine_has_a_row_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    find = registry.importlib.util.find_spec
    monkeypatch.setattr(
        registry.importlib.util, "find_spec", lambda n: None if n == "openvino" else find(n)
    )
    info = row("openvino")
    assert not info.available
    assert info.install == 'pip install "partita[openvino]"'
    assert "not installed: pip install" in str(registry.backends())
    with pytest.raises(BackendUnavailableError, match=r'pip install "partita\[openvino\]"'):
        registry.resolve("openvino")


def test_versions_are_read_without_import() -> None:
    assert registry.engine_version("host") == importlib.metadata.version("onnx")
    assert registry.engine_version("null") == ""
    assert registry.engine_version("nothing") == ""


# Resolving


@pytest.mark.parametrize("spec", ["host", "HOST", "Reference", HostBackend])
def test_names_other_names_and_classes_resolve(spec: Any) -> None:
    assert isinstance(registry.resolve(spec), HostBackend)


def test_an_instance_resolves_to_itself_and_takes_no_options() -> None:
    made = Stranger()
    assert registry.resolve(made) is made
    with pytest.raises(OptionError, match=r"give them to Stranger\(…\) instead"):
        registry.resolve(made, {"stranger": {"level": 1}})


def test_options_reach_the_backend_of_that_name_alone() -> None:
    options = {"null": {"launch": "1e-3"}, "host": {}}
    assert registry.resolve("null", options).options["launch"] == 1e-3
    assert registry.resolve("host", options).options == {}


@pytest.mark.engine("onnxruntime")
def test_an_engines_own_name_implies_options() -> None:
    assert registry.resolve("CPUExecutionProvider").options["provider"] == "cpu"
    assert registry.resolve("cudaexecutionprovider").options["provider"] == "cuda"


def test_unknown_backend_lists_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="no backend is named 'onnxrutime'; did you mean"):
        registry.resolve("onnxrutime")


# Files and the environment


def test_a_file_is_registered_and_wins(tmp_path: Path) -> None:
    assert registry.load_library(write(tmp_path, GOOD.format(name="mine"))) == ("mine",)
    made = registry.resolve("minimal", {"mine": {"level": "7"}})
    assert made.name == "mine"
    assert made.options["level"] == 7
    info = row("mine")
    assert info.description == "Runs nothing, politely."
    assert info.source.endswith("plugin.py")


def test_a_file_of_a_built_in_name_wins_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"backend 'null' of .*plugin.py hides the one of partita"):
        registry.load_library(write(tmp_path, GOOD.format(name="null")))
    assert type(registry.resolve("null")).__name__ == "Mine"


def test_relative_paths_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD.format(name="mine"))
    monkeypatch.chdir(tmp_path)
    assert registry.load_library("plugin.py") == ("mine",)


@pytest.mark.parametrize("place", ["{file}", "{file}:Mine"])
def test_the_environment_names_files(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, GOOD.format(name="mine"))
    monkeypatch.setenv(registry.ENVIRONMENT, f"mine:{place.format(file=file)},")
    assert registry.resolve("mine").name == "mine"
    assert row("mine").available


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("mine:{file}:Yours", "has no class Yours; it has Mine"),
        ("yours:{file}", "has no backend named 'yours'; it has Mine"),
        ("mine:/no/such/file.py", "there is no file '/no/such/file.py'"),
        ("mine", "its name has to end in .py"),
    ],
)
def test_a_bad_entry_in_the_environment_hurts_itself_alone(
    entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, GOOD.format(name="mine"))
    monkeypatch.setenv(registry.ENVIRONMENT, entry.format(file=file))
    name = entry.partition(":")[0]
    assert message in row(name).error
    assert not row(name).available
    with pytest.raises(BackendError, match=message.replace(".", r"\.")):
        registry.resolve(name)
    assert registry.resolve("host").name == "host"


@pytest.mark.parametrize(
    ("file", "text", "error", "message"),
    [
        ("lib.so", "", BackendError, "C and C.. libraries are not supported yet, give a Python"),
        ("lib.txt", "", BackendError, "is no Python file; its name has to end in .py"),
        ("a.py", "raise RuntimeError('boom')", ContractError, "imported: RuntimeError: boom"),
        ("b.py", "import sys; sys.exit(3)", ContractError, "imported: SystemExit: 3"),
        ("c.py", "x = 1 +", ContractError, "fails when it is imported: SyntaxError"),
        ("d.py", "import no_such_module", BackendUnavailableError, "needs module 'no_such_module'"),
        ("e.py", "x = 1", ContractError, "defines no subclass of partita.Backend"),
    ],
)
def test_a_bad_file_is_refused(
    file: str, text: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text, file)
    with pytest.raises(error, match=message) as caught:
        registry.load_library(path)
    assert file in str(caught.value)
    assert len(registry.backends()) >= 4


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="there is no file"):
        registry.load_library(tmp_path / "nothing.py")


# The door


def broken(**members: Any) -> type[Backend]:
    body = {
        "name": "mine",
        "why_not": lambda self, node: None,
        "compile": lambda self, region: None,
        **members,
    }
    return type("Broken", (Backend,), {k: v for k, v in body.items() if v is not None})


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (int, "offers <class 'int'> as a backend; it needs a subclass of partita.Backend"),
        (broken(name="Mine"), "has name 'Mine'; it needs a lower-case word such as 'mine'"),
        (broken(name=3), "has name 3; it needs a lower-case word"),
        (broken(name=None), "has name None; it needs a lower-case word"),
        (broken(compile=None), r"lacks compile\(\)"),
        (broken(why_not=None, compile=None), r"lacks compile\(\) and why_not\(\)"),
        (broken(options=[1]), r"has options \[1\]; they need to be a mapping of defaults"),
        (broken(options={"a b": 1}), "has an option named 'a b'; it needs to be an identifier"),
        (broken(options={"a": [1]}), "default of option 'a' is a list; it needs to be a bool"),
        (broken(aliases="x"), "has aliases 'x'; they need to be a tuple of text"),
        (broken(why_not=lambda self: None), r"why_not\(\) is called as why_not\(node\), which it"),
        (broken(compile=lambda self, a, b: None), r"called as compile\(region\), which it does"),
        (broken(judge=lambda self: None), r"judge\(\) is called as judge\(model\), which it does"),
        (broken(owns=3), "owns is 3; it needs to be a method"),
    ],
)
def test_the_door_names_the_guest_and_what_to_mend(
    cls: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Point("mine", cls))
    info = row("mine")
    assert not info.available
    assert "stranger" in info.error
    with pytest.raises(ContractError, match=message):
        registry.resolve("mine")
    with pytest.raises(ContractError, match=message):
        registry.resolve(cls)


def test_static_methods_pass_the_door() -> None:
    made = broken(why_not=staticmethod(lambda node: None), compile=staticmethod(lambda r: None))
    assert registry.resolve(made).name == "mine"


def test_a_broken_package_breaks_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        Point("stranger", Stranger),
        Point("bad", RuntimeError("boom"), "badpack"),
        Point("lost", ModuleNotFoundError("no", name="tpu_driver"), "lostpack"),
        Point("other", Stranger, "liar"),
    )
    assert row("stranger").available
    assert row("stranger").version == "2.1"
    assert (
        "'badpack' (entry point 'bad') fails when it is imported: RuntimeError: boom"
        in row("bad").error
    )
    assert "needs module 'tpu_driver'" in row("lost").error
    assert "is announced as 'other', but its name is 'stranger'" in row("other").error
    assert registry.resolve("stranger").name == "stranger"
    with pytest.raises(BackendUnavailableError, match="tpu_driver"):
        registry.resolve("lost")


def test_a_package_cannot_take_a_built_in_name(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("host", Stranger, "hijack"))
    with pytest.warns(UserWarning, match="backend 'host' of partita hides the one of hijack"):
        assert isinstance(registry.resolve("host"), HostBackend)


def test_plugins_can_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("stranger", Stranger))
    monkeypatch.setenv(registry.DISABLE, "1")
    assert [info.name for info in registry.backends()] == list(registry.BUILT_IN)
    with pytest.raises(UnknownNameError, match="no backend is named 'stranger'"):
        registry.resolve("stranger")


@pytest.mark.parametrize(
    ("raised", "error", "message"),
    [
        (ValueError("no device"), ContractError, "cannot start: ValueError: no device"),
        (ImportError("libtpu.so"), BackendUnavailableError, "cannot start: libtpu.so; install"),
    ],
)
def test_a_backend_that_cannot_start_is_named(
    raised: Exception, error: type[Exception], message: str
) -> None:
    def start(self: Backend, **options: Any) -> None:
        raise raised

    with pytest.raises(error, match=message):
        registry.resolve(broken(__init__=start))
