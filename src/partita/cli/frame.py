"""The frame around a verb: options in, answer out, errors as one line and an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, final, get_type_hints

import typer
from typer.core import TyperGroup

from partita.cli.answer import Answer
from partita.cli.options import Display
from partita.cli.terminal import complain, listening, show
from partita.errors import PartitaError

EXIT_FAILURE = 3
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

# typer carries its own click since 0.26; this is the base of all usage errors in both.
_USAGE_ERROR: type[Any] = typer.BadParameter.__bases__[0]


def framed(verb: Callable[..., Answer]) -> Callable[..., int]:
    """Returns a command for ``typer``: records among the parameters become their fields.

    While the verb works, whatever plugins print goes to standard error, so that standard output
    holds the answer alone.
    """
    hints = get_type_hints(verb, include_extras=True)
    records: dict[str, type[Any]] = {
        name: kind
        for name, kind in hints.items()
        if name != "return" and isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }

    def command(**values: Any) -> int:
        built: dict[str, Any] = {}
        for name, record in records.items():
            own = {f.name: values.pop(f.name) for f in dataclasses.fields(record)}
            built[name] = record(**own)
        display = next((r for r in built.values() if isinstance(r, Display)), Display())
        with listening(display), contextlib.redirect_stdout(sys.stderr):
            answer = verb(**values, **built)
        show(answer, display)
        if answer.error:
            complain(answer.error)
        return answer.code

    command.__name__ = verb.__name__
    # The mark keeps typer from filling the lines of the examples into a paragraph.
    command.__doc__ = inspect.cleandoc(verb.__doc__ or "").replace("\n\nExample", "\n\n\b\nExample")
    signature = inspect.Signature(_flat_parameters(verb, hints, records))
    command.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    command.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return command


def _flat_parameters(
    verb: Callable[..., Answer], hints: dict[str, Any], records: dict[str, Any]
) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        record = records.get(parameter.name)
        if record is None:
            annotation = hints[parameter.name]
            found.append(
                parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)
            )
            continue
        fields = get_type_hints(record, include_extras=True)
        found.extend(
            inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=fields[f.name]
            )
            for f in dataclasses.fields(record)
        )
    return found


@final
class Verbs(TyperGroup):
    """The group of all verbs; it alone turns errors into lines and exit codes."""

    def invoke(self, ctx: Any) -> int:
        """Runs a verb and returns its exit code."""
        return _guarded(lambda: TyperGroup.invoke(self, ctx))

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Runs the command line; ends the process with the exit code in standalone mode."""
        code = _guarded(lambda: TyperGroup.main(self, *args, standalone_mode=False, **extra))
        if standalone_mode:
            sys.exit(code)
        return code


def _guarded(action: Callable[[], Any]) -> int:
    try:
        return int(action() or 0)
    except (typer.Exit, SystemExit):
        raise
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; nothing more may be written, not even when Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:
        if os.environ.get("PARTITA_DEBUG"):
            raise
        complain(_message(error))
        return _exit_code(error)


def _message(error: Exception) -> str:
    if isinstance(error, PartitaError):
        return str(error)
    if isinstance(error, _USAGE_ERROR):
        usage: Any = error
        path = usage.ctx.command_path if usage.ctx is not None else "partita"
        return f"{usage.format_message().rstrip('.')} (see '{path} --help')"
    if isinstance(error, MemoryError):
        return f"out of memory {error}"
    if isinstance(error, OSError):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {error}; this is a fault of partita or of a plugin "
        "(PARTITA_DEBUG=1 shows where)"
    )


def _exit_code(error: Exception) -> int:
    if isinstance(error, PartitaError):
        return error.exit_code
    return EXIT_USAGE if isinstance(error, _USAGE_ERROR) else EXIT_FAILURE
