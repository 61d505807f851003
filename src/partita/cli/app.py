"""The command ``partita``: its verbs and its options."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from partita import __version__
from partita.cli.backends import backends
from partita.cli.bench import bench
from partita.cli.compare import compare
from partita.cli.compile import compile
from partita.cli.demo import demo
from partita.cli.doctor import doctor
from partita.cli.explain import explain
from partita.cli.frame import Verbs, framed
from partita.cli.inspect import inspect
from partita.cli.plan import plan
from partita.cli.run import run

HELP = """
Cut a neural network into subgraphs, give each to the backend you prefer among those that take
it, and say why.

Every verb says on standard error where the nodes go; answers go to standard output, as JSON with
--json. Exit codes: 0 fine, 1 mismatch or unmet demand, 2 usage, 3 model, backend or resource
failure.

\b
Start with:
  partita demo
  partita plan model.onnx
  partita explain model.onnx NODE
"""

app = typer.Typer(
    name="partita",
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (inspect, plan, explain, compile, run, compare, bench, backends, doctor, demo):
    app.command(verb.__name__)(framed(verb))


@app.callback(invoke_without_command=True, help=HELP)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Answers where no verb is given."""
    if version:
        print(f"partita {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Runs the command line and ends the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no arrows still gets text
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="partita")
