"""What partita costs over the raw engine, where one engine takes the whole model.

    python bench/engines.py [--models FOLDER ...] [--only GLOB] [--backends NAME,NAME]
                            [--threads N] [--runs N] [--seconds S] [--instances N]
                            [--clock wall|cpu] [--control]

For each model and engine, in one process and in turns: the engine called directly, and a program of
``partita.compile`` for that engine with the same threads and float32. One round is a block of calls
of each side and the blocks again in reverse order; the ratio is the median of the rounds' ratios.
The first call of a block does not count: it finds the other side's weights in the caches. All sides
are made several times, in turn first: where memory happens to lie moves one session by 2 %. With
``--control`` a second copy of the raw engine takes part: how far its ratio is from 1 is what
the machine alone does. JSON lines on stdout; exit code 1: an output is wrong, 3: a model failed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

import partita as pt
from recorded import Recorded, cache, light_models, models, relative_error

TOLERANCE = 1e-4
LONG_MS = 1.0
"""Only models above this count in the summary: below it, microseconds decide."""
BLOCK_SECONDS = 0.02
BLOCK_CALLS = (3, 200)

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

Side = Callable[[], Sequence[np.ndarray]]


def raw_onnxruntime(model: Recorded, threads: int) -> Side:
    """Returns a call of ONNX Runtime as its documentation shows it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feeds = dict(model.inputs)
    return lambda: session.run(names, feeds)


def raw_openvino(model: Recorded, threads: int) -> Side:
    """Returns a call of one OpenVINO request; inputs are shared, outputs are copies."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    settings |= {"INFERENCE_NUM_THREADS": str(threads)} if threads else {}
    compiled = openvino.Core().compile_model(model.path, "CPU", settings)
    request = compiled.create_infer_request()
    feeds = dict(model.inputs)
    return lambda: list(request.infer(feeds, share_inputs=True).values())


RAW: Mapping[str, Callable[[Recorded, int], Side]] = {
    "onnxruntime": raw_onnxruntime,
    "openvino": raw_openvino,
}


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    records = []
    for model in chosen(asked.models, asked.only):
        for backend in asked.backends:
            if sys.stderr.isatty():
                print(f"{model.name} on {backend} …", file=sys.stderr)
            record = measured(model, backend, asked)
            records.append(record)
            print(json.dumps(record), flush=True)
            gc.collect()
    summary = {name: summed(r for r in records if r["backend"] == name) for name in asked.backends}
    print(json.dumps({"bench": "engines", "threads": asked.threads, "summary": summary}))
    failed = any(r["state"] == "failed" for r in records)
    sys.exit(3 if failed else int(any(not r["equal"] for r in records if r["state"] == "measured")))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        type=Path,
        action="append",
        help="folder of NAME.onnx, NAME.inputs.npz, NAME.outputs.npz; may be given several times; "
        "default: what zoo.py has built, and the light models of the onnx package",
    )
    parser.add_argument("--only", default="*", help="glob over model names")
    parser.add_argument("--backends", default=",".join(RAW), help="names, joined by commas")
    parser.add_argument("--threads", type=int, default=1, help="of each engine; 0: it decides")
    parser.add_argument("--runs", type=int, default=20, help="rounds an instance at most")
    parser.add_argument("--instances", type=int, default=3, help="times all sides are made anew")
    parser.add_argument("--seconds", type=float, default=8.0, help="time a model at most")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: time on any core of this process, for one thread on a machine that others use",
    )
    parser.add_argument("--control", action="store_true", help="measure a second raw engine too")
    asked = parser.parse_args(arguments)
    asked.backends = asked.backends.split(",")
    unknown = set(asked.backends) - set(RAW)
    if unknown:
        parser.error(f"no raw call is known for {sorted(unknown)}; there is {sorted(RAW)}")
    asked.backends = [name for name in asked.backends if importlib.util.find_spec(name)]
    return asked


def chosen(folders: Iterable[Path] | None, only: str) -> list[Recorded]:
    """Returns the models to measure; without folders the built zoo and onnx's light models."""
    found = [*models(cache()), *light_models()] if folders is None else []
    for folder in folders or ():
        found += models(folder)
    return [model for model in found if fnmatch(model.name, only)]


def measured(model: Recorded, backend: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Returns the record of one model on one engine; a failure is a record too."""
    record: dict[str, Any] = {"bench": "engines", "model": model.name, "backend": backend}
    record |= {"threads": asked.threads, "clock": asked.clock, "state": "failed"}
    try:
        instances = []
        for number in range(max(asked.instances, 1)):
            instances.append(instance(model, backend, asked, partita_first=number % 2 == 1))
            gc.collect()
    except Exception as failure:
        return record | {"reason": f"{type(failure).__name__}: {failure}"[:500]}
    times = {name: [r for i, _ in instances for r in i[name]] for name in instances[0][0]}
    figures = [facts for _, facts in instances]
    medians = {
        key: round(statistics.median(f[key] for f in figures), 1)
        for key in figures[0]
        if key.endswith("_ms")
    }
    equal = all(facts["equal"] for facts in figures)
    return (
        record | figures[0] | {"state": "measured"} | compared(times) | medians | {"equal": equal}
    )


def instance(
    model: Recorded, backend: str, asked: argparse.Namespace, partita_first: bool
) -> tuple[Mapping[str, list[list[float]]], dict[str, Any]]:
    """Makes every side anew, checks outputs and measures; returns times and other facts."""
    facts: dict[str, Any] = {}
    raw = RAW[backend]
    makers: dict[str, Callable[[], Side]] = {"raw": lambda: raw(model, asked.threads)}
    makers["partita"] = lambda: prepared(model, backend, asked.threads, facts)
    if asked.control:
        makers["control"] = lambda: raw(model, asked.threads)
    sides: dict[str, Side] = {}
    for name in reversed(makers) if partita_first else makers:
        sides[name], seconds = timed(makers[name])
        facts[f"{name}_load_ms"] = seconds * 1e3
    facts.pop("partita_load_ms")
    facts |= checked(sides["partita"](), sides["raw"](), list(model.outputs.values()))
    sides = {name: sides[name] for name in makers}
    seconds = asked.seconds / max(asked.instances, 1)
    return interleaved(sides, asked.runs, seconds, CLOCKS[asked.clock]), facts


def prepared(model: Recorded, backend: str, threads: int, facts: dict[str, Any]) -> Side:
    """Returns a call of partita's program; adds to ``facts`` what making it took."""
    loaded, load = timed(lambda: pt.load(model.path))
    options = {backend: {"threads": threads}}
    plan, partition = timed(lambda: pt.partition(loaded, [backend], options=options))
    program, compiling = timed(lambda: pt.compile(plan))
    arrays = [model.inputs[spec.name] for spec in program.inputs]
    left = sum(step.backend == "host" for step in program.steps)
    facts |= {
        "regions": len(plan.regions),
        "host_steps": left,
        "whole": len(program.steps) == 1 and not left,
        "load_ms": load * 1e3,
        "partition_ms": partition * 1e3,
        "compile_ms": compiling * 1e3,
    }
    return lambda: program(*arrays)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def checked(
    found: Sequence[np.ndarray], raw: Sequence[np.ndarray], recorded: Sequence[np.ndarray]
) -> dict[str, Any]:
    """Returns relative errors of the outputs; ``None`` stands for another shape or for NaN.

    They are equal if they agree with the recorded outputs or with the raw engine's. Some models
    (a softmax of 1e10, a suppression of overlapping boxes) turn one rounding into another result,
    so that no two engines agree on them.
    """
    errors = {
        "error": greatest(found, recorded),
        "raw_error": greatest(raw, recorded),
        "difference": greatest(found, raw),
    }
    equal = min(errors["error"], errors["difference"]) <= TOLERANCE
    return {k: v if math.isfinite(v) else None for k, v in errors.items()} | {"equal": equal}


def greatest(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    return max(relative_error(f, w) for f, w in zip(found, wanted, strict=True))


def interleaved(
    sides: Mapping[str, Side], runs: int, seconds: float, clock: Callable[[], float]
) -> Mapping[str, list[list[float]]]:
    """Returns, for each side, its call times in seconds, one list a round."""
    for call in sides.values():
        spans(call, 3, clock)
    once = statistics.median(spans(next(iter(sides.values())), 3, time.perf_counter))
    calls = min(max(round(BLOCK_SECONDS / once), BLOCK_CALLS[0]), BLOCK_CALLS[1])
    times: dict[str, list[list[float]]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    gc.collect()
    gc.disable()
    try:
        for _ in range(max(runs, 1)):
            for name in sides:
                times[name].append(spans(sides[name], calls, clock))
            for name in reversed(sides):
                times[name][-1] += spans(sides[name], calls, clock)
            if time.perf_counter() > end:
                break
    finally:
        gc.enable()
    return times


def spans(call: Side, calls: int, clock: Callable[[], float]) -> list[float]:
    """Returns the times of ``calls`` calls in seconds, after one that does not count."""
    call()
    found = []
    for _ in range(calls):
        start = clock()
        call()
        found.append(clock() - start)
    return found


def compared(times: Mapping[str, list[list[float]]]) -> dict[str, Any]:
    """Returns medians in ms, and ratios to the raw engine with their quartiles over the rounds."""
    rounds = {name: [statistics.median(r) for r in found] for name, found in times.items()}
    record: dict[str, Any] = {"rounds": len(rounds["raw"]), "calls": len(times["raw"][0])}
    for name, medians in rounds.items():
        record[f"{name}_ms"] = round(statistics.median(medians) * 1e3, 4)
        if name == "raw":
            continue
        ratios = [m / raw for m, raw in zip(medians, rounds["raw"], strict=True)]
        low, middle, high = (float(q) for q in np.percentile(ratios, (25, 50, 75)))
        label = "ratio" if name == "partita" else f"{name}_ratio"
        record |= {label: round(middle, 4), f"{label}_quartiles": [round(low, 4), round(high, 4)]}
    differences = [m - raw for m, raw in zip(rounds["partita"], rounds["raw"], strict=True)]
    return record | {"own_us": round(statistics.median(differences) * 1e6, 2)}


def summed(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns mean and greatest ratio over models above 1 ms that one engine took whole."""
    every = list(records)
    good = [r for r in every if r["state"] == "measured"]
    long = [r for r in good if r["whole"] and r["raw_ms"] > LONG_MS]
    summary: dict[str, Any] = {
        "models": len(every),
        "failed": [r["model"] for r in every if r["state"] == "failed"],
        "not_equal": [r["model"] for r in good if not r["equal"]],
        "not_whole": [r["model"] for r in good if not r["whole"]],
        "over_1_ms": len(long),
    }
    if not long:
        return summary
    worst = max(long, key=lambda r: r["ratio"])
    mean = math.exp(statistics.fmean(math.log(r["ratio"]) for r in long))
    return summary | {
        "geometric_mean": round(mean, 4),
        "max_ratio": worst["ratio"],
        "max_model": worst["model"],
        "own_us": round(statistics.median(r["own_us"] for r in long), 2),
    }


if __name__ == "__main__":
    main()
