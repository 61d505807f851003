"""Time stamps of runs as a Chrome trace (Trace Event Format), one row a backend."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from partita.running.schedule import Step


def chrome_trace(steps: Sequence[Step], stamps: Sequence[Sequence[int]]) -> str:
    """Returns the JSON text of a trace.

    Args:
        steps: What ran, in order.
        stamps: For every run: nanoseconds before the first step and after each.

    Returns:
        Complete events (``"ph": "X"``) with times in microseconds from the first stamp on; a
        backend is a thread, so that alternating engines show as alternating rows.
    """
    rows = {name: i for i, name in enumerate(dict.fromkeys(step.backend for step in steps))}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}
        for name, tid in rows.items()
    ]
    origin = stamps[0][0] if stamps else 0
    for run, marks in enumerate(stamps):
        for step, start, end in zip(steps, marks, marks[1:], strict=False):
            events.append(
                {
                    "ph": "X",
                    "name": step.name,
                    "cat": step.backend,
                    "pid": 1,
                    "tid": rows[step.backend],
                    "ts": (start - origin) / 1e3,
                    "dur": (end - start) / 1e3,
                    "args": {
                        "run": run,
                        "nodes": list(step.nodes[:50]),
                        "node count": len(step.nodes),
                    },
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
