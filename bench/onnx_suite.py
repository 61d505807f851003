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
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any

from partita.testing.onnx_backend import KINDS, backend, reference_backend, run_suite, suite_of

SIDES: Mapping[str, tuple[Sequence[str], bool, bool]] = {
    "reference": ((), False, False),
    "host": (("host",), False, False),
    "preferred": (("onnxruntime",), False, False),
    "preferred, saved and loaded": (("onnxruntime",), False, True),
    "random": (("onnxruntime",), True, False),
    "random of three": (("onnxruntime", "openvino"), True, False),
    "random of three, saved and loaded": (("onnxruntime", "openvino"), True, True),
    "openvino": (("openvino",), False, False),
}
"""What is measured, by name: backends (none: onnx's reference evaluator alone), whether nodes are
assigned at random, whether the partitioned model is saved and loaded. The host takes part always.
"""
DEFAULT_SIDES = tuple(name for name in SIDES if name not in ("host", "openvino"))


def run(job: tuple[str, int, argparse.Namespace]) -> dict[str, Any]:
    """Runs a side's share of the tests: every ``processes``-th, beginning with the ``index``-th."""
    side, index, asked = job
    backends, assigned, save_and_load = SIDES[side]
    adapter = reference_backend()
    if backends:
        seed = asked.seed if assigned else None
        adapter = backend(backends, seed, save_and_load, strict=asked.strict)
    wanted = [name for name, _ in suite_of(adapter, asked.kinds) if re.search(asked.match, name)]
    mine = set(wanted[index :: asked.processes])
    report = run_suite(adapter, asked.kinds, keep=lambda name: name in mine)
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
    parser.add_argument("--strict", action="store_true", help="a failed compilation is a failure")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    passed: dict[str, set[str]] = {}
    # Engines keep threads: processes are spawned, not forked.
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        for side in arguments.sides:
            jobs = [(side, i, arguments) for i in range(arguments.processes)]
            result = merged(list(pool.map(run, jobs)))
            passed[side] = set(result.pop("names"))
            head = {"bench": "onnx_suite", "onnx": version("onnx"), "side": side}
            print(json.dumps({**head, "seed": arguments.seed, **result}), flush=True)
    for side in passed.keys() - {"reference"} if "reference" in passed else ():
        lost = sorted(passed["reference"] - passed[side])
        gained = sorted(passed[side] - passed["reference"])
        row = {"against": "reference", "side": side, "lost": lost, "gained": gained}
        print(json.dumps({"bench": "onnx_suite", **row}), flush=True)


if __name__ == "__main__":
    main()
