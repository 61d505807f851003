"""``partita doctor``: what there is, what is broken, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping

from partita.cli import machine
from partita.cli.answer import Answer
from partita.cli.backends import backend_table, listing
from partita.cli.options import Display
from partita.reporting.tables import Column, Table


def doctor(display: Display) -> Answer:
    """Show what partita runs on, which backends work, what is broken and how to mend it.

    Exits with 3 if a backend that is installed does not work.
    """
    backends = listing()
    broken = [b for b in backends if b["problem"]]
    problems = [{"what": f"{b['name']}: {b['problem']}", "mend": b["mend"]} for b in broken]
    engines = [b["name"] for b in backends if b["available"] and b["name"] not in ("host", "null")]
    notes = [] if engines else ["no engine is installed: everything runs on the host"]
    content = {
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
        error=f"{len(problems)} installed backends do not work" if problems else "",
    )


def _pairs(title: str, values: Mapping[str, str]) -> Table:
    return Table(title, (Column("", whole=True), Column("")), tuple(values.items()))
