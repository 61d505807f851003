"""Imports run one way, engines stay in their files, and the public names are pinned."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import partita

SOURCE = Path(partita.__file__).parent
ORDER = [
    {"collector", "errors", "files"},
    {"model"},
    {"subgraph"},
    {"ops"},
    {"loading", "inferring"},
    {"backends"},
    {"partitioning"},
    {"compiling", "running"},
    {"reporting"},
    {"verbs"},
    {"testing"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
CONVENIENCE = {"model.py", "partitioning/plan.py", "running/program.py"}
"""Records whose methods call the verbs, with an import inside the method."""
ENGINES = {
    "onnxruntime": "backends/onnxruntime",
    "openvino": "backends/openvino",
    "torch": "loading/torch",
    "sklearn": "cli/",
}


MODULES = {
    "partita." + p.relative_to(SOURCE).as_posix().removesuffix(".py").replace("/", ".")
    for p in SOURCE.rglob("*.py")
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yields (module, whether at the top level), leaving out ``if TYPE_CHECKING`` blocks."""
    stack: list[tuple[ast.AST, bool]] = [(node, True) for node in tree.body]
    while stack:
        node, top = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            stack.extend((n, top) for n in node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner_module = f"{node.module}.{alias.name}"
                yield (inner_module if inner_module in MODULES else node.module), top
        inner = top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        stack.extend((n, inner) for n in ast.iter_child_nodes(node))


def room(module: str) -> str:
    return module.removeprefix("partita.").split(".")[0]


def test_imports_run_one_way() -> None:
    wrong: list[str] = []
    for path, tree in modules():
        own = path.removesuffix(".py").split("/")[0]
        if own in ("__init__", "__main__"):
            continue
        for name, top in imports(tree):
            if not name.startswith("partita.") or room(name) not in RANK:
                continue
            if path in CONVENIENCE and not top and room(name) == "verbs":
                continue
            if RANK[room(name)] > RANK[own]:
                wrong.append(f"{path} imports {name}")
    assert not wrong


def test_every_room_is_known() -> None:
    rooms = {path.removesuffix(".py").split("/")[0] for path, _ in modules()}
    assert rooms - {"__init__", "__main__"} <= set(RANK)


def test_imports_at_the_top_have_no_cycle() -> None:
    names = {
        "partita." + path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path, _ in modules()
    }
    edges = {
        module: {
            n for n, top in imports(ast.parse((SOURCE / path).read_text())) if top and n in names
        }
        for module, path in names.items()
    }
    list(graphlib.TopologicalSorter(edges).static_order())  # raises CycleError, which names it


def test_engines_are_imported_in_their_own_files_and_lazily() -> None:
    wrong = [
        f"{path} imports {name}"
        for path, tree in modules()
        for name, top in imports(tree)
        for engine, home in ENGINES.items()
        if name.split(".")[0] == engine and (top or not path.startswith(home))
    ]
    assert not wrong


def test_nothing_unpickles_or_evaluates() -> None:
    banned = {"pickle", "marshal", "dill", "joblib", "shelve", "cloudpickle"}
    wrong = [
        f"{path} imports {name}"
        for path, tree in modules()
        for name, _ in imports(tree)
        if name.split(".")[0] in banned
    ]
    assert not wrong


def test_importing_partita_imports_no_engine() -> None:
    code = (
        "import sys, partita; "
        "bad = {'onnxruntime', 'openvino', 'torch', 'scipy', 'rich', 'jinja2', 'typer'}; "
        "print(sorted(bad & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_pinned() -> None:
    assert sorted(partita.__all__) == [
        "Backend",
        "Executable",
        "KernelTable",
        "Model",
        "Pattern",
        "Plan",
        "Program",
        "Region",
        "Selector",
        "Strategy",
        "__version__",
        "backends",
        "compare",
        "compile",
        "load",
        "load_library",
        "optimize_for",
        "partition",
    ]
    assert all(hasattr(partita, name) for name in partita.__all__)
