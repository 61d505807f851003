"""Runs ONNX's own backend tests through partita and through onnx's reference evaluator alone.

One JSON line a side, both sides in one run, then a line with what each side loses and gains against
the reference. Example::

    python bench/onnx_suite.py --processes 2
    python bench/onnx_suite.py --sides reference preferred --match softmax
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any

from partita.testing.onnx_backend import KINDS, backend, reference_backend, run_suite, suite_of

MIXED = ("onnxruntime", "openvino")

SIDES: Mapping[str, Callable[[int], Any]] = {
    "reference": lambda seed: reference_backend(),
    "host": lambda seed: backend(["host"]),
    "preferred": lambda seed: backend(["onnxruntime"]),
    "preferred, saved and loaded": lambda seed: backend(["onnxruntime"], save_and_load=True),
    "random": lambda seed: backend(["onnxruntime"], assign=seed),
    "random of three": lambda seed: backend(MIXED, assign=seed),
    "random of three, saved and loaded": lambda seed: backend(
        MIXED, assign=seed, save_and_load=True
    ),
    "openvino": lambda seed: backend(["openvino"]),
}
"""What is measured, by name; each takes the seed of random assignments."""
DEFAULT_SIDES = tuple(name for name in SIDES if name not in ("host", "openvino"))


def run(job: tuple[str, int, int, int, str, Sequence[str]]) -> dict[str, Any]:
    """Runs every ``count``-th test of a side, beginning with the ``index``-th."""
    side, seed, index, count, match, kinds = job
    adapter = SIDES[side](seed)
    wanted = [name for name, _ in suite_of(adapter, kinds) if re.search(match, name)]
    mine = set(wanted[index::count])
    report = run_suite(adapter, kinds, keep=lambda name: name in mine)
    return {**report.to_dict(), "names": report.passed}


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Adds the counts of several processes up."""
    return {
        **{key: sum(part[key] for part in parts) for key in ("passed", "failed", "skipped")},
        "seconds": max(part["seconds"] for part in parts),
        "failures": sorted((f for p in parts for f in p["failures"]), key=lambda f: f["test"]),
        "names": sorted(name for part in parts for name in part["names"]),
    }


def main() -> None:
    """Reads the command line, runs the sides one after another and prints JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", nargs="+", choices=list(SIDES), default=list(DEFAULT_SIDES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--match", default="", help="regular expression over test names")
    parser.add_argument("--seed", type=int, default=0, help="of the random assignments")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    passed: dict[str, set[str]] = {}
    # Engines keep threads: processes are spawned, not forked.
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        for side in arguments.sides:
            jobs = [
                (side, arguments.seed, i, arguments.processes, arguments.match, arguments.kinds)
                for i in range(arguments.processes)
            ]
            result = merged(list(pool.map(run, jobs)))
            passed[side] = set(result.pop("names"))
            head = {"bench": "onnx_suite", "onnx": version("onnx"), "side": side}
            print(json.dumps({**head, "seed": arguments.seed, **result}), flush=True)
    for side in passed.keys() - {"reference"} if "reference" in passed else ():
        lost = sorted(passed["reference"] - passed[side])
        gained = sorted(passed[side] - passed["reference"])
        print(
            json.dumps(
                {
                    "bench": "onnx_suite",
                    "against": "reference",
                    "side": side,
                    "lost": lost,
                    "gained": gained,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
