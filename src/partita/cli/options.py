"""Options that several verbs share, as records; :mod:`partita.cli.frame` spells them out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import typer

from partita.errors import UsageError, printable

ModelPath = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="An ONNX file.", exists=True, dir_okay=False),
]
"""The first argument of most verbs."""


@final
@dataclass(frozen=True)
class Display:
    """How a verb speaks."""

    json: Annotated[
        bool, typer.Option("--json", help="Answer with one JSON document on stdout.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the answer and errors, no placement line.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also log what is done, and show every row.")
    ] = False


@final
@dataclass(frozen=True)
class Choices:
    """Which backends take part and what the user rules."""

    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            "-b",
            metavar="NAME",
            help="A backend, most preferred first; repeat it or separate names by commas. "
            "Without it the first installed engine. The host takes what is left.",
        ),
    ] = None
    backend_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME.KEY=VALUE", help="An option of a backend; repeatable."),
    ] = None
    exclude_op: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="An op type that no backend gets; repeatable."),
    ] = None
    include_op: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="The only op types that backends get; repeatable."),
    ] = None
    min_nodes: Annotated[
        int, typer.Option(metavar="N", help="Give up regions with fewer nodes.", min=1)
    ] = 1
    max_regions: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many regions.", min=0)
    ] = None
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB=NAME",
            help="Nodes that a backend must take, or it is an error; repeatable.",
        ),
    ] = None
    prefer: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB=NAME", help="The same as a wish; repeatable."),
    ] = None
    connected: Annotated[
        bool, typer.Option("--connected", help="Every region is one connected piece.")
    ] = False
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Apply this plan file in place of making a plan.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    library: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A Python file that holds a backend; repeatable.", exists=True
        ),
    ] = None
    require_full_coverage: Annotated[
        bool,
        typer.Option("--require-full-coverage", help="Exit with 1 if a node is left to the host."),
    ] = False

    def backends(self) -> list[str] | None:
        """Returns the names of the backends in order, or ``None`` if none was named."""
        return split(self.backend) or None

    def options(self) -> dict[str, dict[str, str]]:
        """Returns the backends' options: ``{backend: {option: value}}``.

        Raises:
            UsageError: One is not written ``NAME.KEY=VALUE``.
        """
        found: dict[str, dict[str, str]] = {}
        for text in self.backend_option or ():
            path, equals, value = text.partition("=")
            name, dot, key = path.partition(".")
            if not (equals and dot and name and key):
                raise UsageError(
                    f"--backend-option is '{printable(text)}'; write it NAME.KEY=VALUE, "
                    "such as onnxruntime.threads=1"
                )
            found.setdefault(name, {})[key] = value
        return found

    def rules(self) -> dict[str, Any]:
        """Returns the rules as keyword arguments of :func:`partita.partition`."""
        return {
            "excluded_ops": split(self.exclude_op),
            "included_ops": split(self.include_op) or None,
            "min_nodes": self.min_nodes,
            "max_regions": self.max_regions,
            "pin": _targets("--pin", self.pin),
            "prefer": _targets("--prefer", self.prefer),
            "connected": self.connected,
        }

    def decides(self) -> str:
        """Returns the first option given that a plan file decides already, or nothing."""
        given = {
            "--backend": self.backend,
            "--backend-option": self.backend_option,
            "--exclude-op": self.exclude_op,
            "--include-op": self.include_op,
            "--min-nodes": self.min_nodes > 1,
            "--max-regions": self.max_regions is not None,
            "--pin": self.pin,
            "--prefer": self.prefer,
            "--connected": self.connected,
        }
        return next((name for name, value in given.items() if value), "")


@final
@dataclass(frozen=True)
class Sizes:
    """Sizes of dimensions that a model leaves open."""

    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="Size of a dimension that the model leaves open; repeatable."
        ),
    ] = None


@final
@dataclass(frozen=True)
class Feeds:
    """What a model is run on."""

    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=FILE.npy",
            help="An input; or a FILE.npz with several. Without it, random ones. Repeatable.",
        ),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of random inputs.", min=0)] = 0
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="Size of a dimension that the model leaves open; repeatable."
        ),
    ] = None


def split(texts: Iterable[str] | None) -> list[str]:
    """Returns names from options that may be repeated and may hold commas."""
    return [name for text in texts or () for name in text.replace(" ", "").split(",") if name]


def _targets(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts or ():
        glob, equals, backend = text.rpartition("=")
        if not (equals and glob and backend):
            raise UsageError(
                f"{option} is '{printable(text)}'; write it GLOB=NAME, "
                "such as '*/attention/*=openvino'"
            )
        found.pop(glob, None)  # a later word of the same glob counts as written later
        found[glob] = backend
    return found
