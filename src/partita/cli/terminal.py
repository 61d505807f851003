"""Standard error for people while a verb works, standard output for its answer."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Generator

from partita.cli.answer import Answer
from partita.cli.options import Display
from partita.errors import printable
from partita.reporting.documents import document, dumps
from partita.reporting.tables import TEXT_WIDTH, Table, renderable, text

LINE_LIMIT = 2000


def say(display: Display, line: str) -> None:
    """Writes one line to standard error, unless the user wants quiet."""
    if not display.quiet:
        print(printable(line, LINE_LIMIT), file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """Writes an error to standard error: one line, safe for terminals."""
    line = " ".join(message.split())
    print(f"partita: error: {printable(line, LINE_LIMIT)}", file=sys.stderr, flush=True)


def show(answer: Answer, display: Display) -> None:
    """Writes an answer to standard output, as JSON or as text; colours only on a terminal."""
    if display.json:
        print(dumps(document(answer.verb, **answer.content)), flush=True)
        return
    parts = [part if isinstance(part, Table) else _lines(part) for part in answer.body]
    if sys.stdout.isatty():
        _print_coloured(parts)
    else:
        texts = [text([part], TEXT_WIDTH) if isinstance(part, Table) else part for part in parts]
        print("\n\n".join(texts), flush=True)


def _lines(part: str) -> str:
    return "\n".join(printable(line, LINE_LIMIT) for line in part.split("\n"))


def _print_coloured(parts: list[str | Table]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    for i, part in enumerate(parts):
        if i:
            console.print()
        if isinstance(part, Table):
            console.print(renderable(part))
        else:
            console.print(part, soft_wrap=True)


@contextlib.contextmanager
def listening(display: Display) -> Generator[None]:
    """Lets partita's log go to standard error: warnings, or everything if the user wants it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    # The library logs the placement line under its own name; the verbs have said it already.
    handler.addFilter(lambda record: record.name != "partita")
    logger = logging.getLogger("partita")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(
        logging.ERROR if display.quiet else logging.DEBUG if display.verbose else logging.WARNING
    )
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextlib.contextmanager
def progress(display: Display, what: str) -> Generator[Callable[[int, int, str], None] | None]:
    """Yields what reports (done, total, next) as a bar, on a terminal only; elsewhere ``None``."""
    if display.quiet or display.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int, name: str) -> None:
            label = Text(f"{what} {printable(name, 60)}").markup
            bar.update(task, completed=done, total=total, description=label)

        yield report
