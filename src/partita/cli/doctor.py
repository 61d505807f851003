"""``partita doctor``: what there is, what is broken, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partita.cli import machine
from partita.cli.answer import Answer
from partita.cli.backends import backend_table, listing
from partita.cli.options import Display
from partita.reporting.quantities import plural
from partita.reporting.tables import Column, Table


def doctor(display: Display) -> Answer:
    """Show what partita runs on, which backends work, what is broken and how to mend it.

    Exits with 3 if a backend that is installed does not work.
    """
    backends = listing()
    problems = [
        {"what": f"backend '{b['name']}' does not work: {b['problem']}", "mend": _remedy(b)}
        for b in backends
        if b["problem"]
    ]
    engines = [b["name"] for b in backends if b["available"] and b["name"] not in ("host", "null")]
    advice = (
        'no engine is installed, so everything runs on the host: pip install "partita[onnxruntime]"'
    )
    notes = [] if engines else [advice]
    content: dict[str, Any] = {
        "machine": machine.facts(),
        "packages": machine.packages(),
        "environment": machine.variables(),
        "backends": backends,
        "problems": problems,
        "notes": notes,
    }
    body = [
        _pairs("Machine", content["machine"]),
        _pairs("Packages", content["packages"]),
        _pairs("Environment", content["environment"]),
        backend_table(backends),
    ]
    verdict = [f"{p['what']}\n  mend it: {p['mend']}" for p in problems] + notes
    return Answer(
        "doctor",
        content,
        (*(t for t in body if t.rows), *(verdict or ["nothing is broken"])),
        code=3 if problems else 0,
        error=f"{plural(len(problems), 'backend')} not working" if problems else "",
    )


def _remedy(backend: Mapping[str, Any]) -> str:
    if backend["source"].startswith("PARTITA_BACKENDS"):
        return "correct or unset the environment variable PARTITA_BACKENDS"
    if backend["source"] == "partita":
        return "reinstall its engine; if that does not help, report it to partita"
    return f"update or uninstall {backend['source']}, or tell its author"


def _pairs(title: str, values: Mapping[str, str]) -> Table:
    return Table(title, (Column("", whole=True), Column("")), tuple(values.items()))
