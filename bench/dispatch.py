"""What partita itself costs a run and a step, and beside an engine called directly.

    python bench/dispatch.py [--rounds 200] [--zoo FOLDER]

Prints JSON lines. All ways of a case are measured in turns in one process, so that a busy machine
slows them alike; times are medians over the rounds, ratios are medians of the ratio of each round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import partita as pt

STEPS = 100
SHAPE = (4, 4)


class Even(pt.Backend):
    """Runs every second node of a chain; what a step computes is given."""

    name = "even"
    number = 0

    def __init__(self, function: Callable[[Any], Any]) -> None:
        pt.Backend.__init__(self)
        self.function = function

    def why_not(self, node: Any) -> str | None:
        return None if int(node.name[1:]) % 2 == self.number else "it is the other's"

    def compile(self, region: Any) -> Any:
        return Step(self.function)


class Odd(Even):
    """Runs the others."""

    name = "odd"
    number = 1


class Step(pt.Executable):
    """A step that costs what its function costs."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return (self.function(x),)


class WithoutBinding(pt.Executable):
    """An engine's region that is handed values as they are."""

    def __init__(self, inner: pt.Executable) -> None:
        self.inner = inner

    def __call__(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def chain(count: int, shape: Sequence[int] = SHAPE, op: str = "Neg") -> onnx.ModelProto:
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(count)]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "chain", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def dense(layers: int, width: int) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = [random.standard_normal((width, width)).astype("f4") / width for _ in range(layers)]
    nodes = []
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"m{i}"], name=f"m{i}"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"v{i + 1}"], name=f"r{i}"))
    infos = [("v0", [1, width]), (f"v{layers}", [1, width])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in infos]
    tensors = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "dense", info[:1], info[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def in_turns(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Returns median microseconds of each way, and each way's ratio to the last one."""
    loops = {name: loops_for(way) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            repeat = range(loops[name])
            start = time.perf_counter_ns()
            for _ in repeat:
                way()
            times[name].append((time.perf_counter_ns() - start) / len(repeat) / 1e3)
    base = list(ways)[-1]
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times[base], strict=True))
        for name in ways
    }
    least = {name: min(t) for name, t in times.items()}
    return {
        "us": {name: round(statistics.median(t), 3) for name, t in times.items()},
        "least_us": {name: round(t, 3) for name, t in least.items()},
        f"ratio_to_{base}": {n: round(r, 3) for n, r in ratios.items() if n != base},
        f"least_ratio_to_{base}": {
            n: round(t / least[base], 3) for n, t in least.items() if n != base
        },
    }


def loops_for(way: Callable[[], Any], budget: float = 2e-3) -> int:
    """Returns how many calls fill about two milliseconds."""
    for _ in range(3):
        way()
    start = time.perf_counter()
    way()
    return max(1, min(2000, int(budget / max(time.perf_counter() - start, 1e-7))))


def own_cost(name: str, function: Callable[[Any], Any], rounds: int) -> Iterator[dict[str, Any]]:
    """Yields own cost beyond the calls of the steps, from one step and from a hundred and one."""
    backends = [Even(function), Odd(function)]
    single = pt.compile(pt.partition(pt.load(chain(1)), backends))
    many = pt.compile(pt.partition(pt.load(chain(STEPS + 1)), backends))
    assert (len(single.steps), len(many.steps)) == (1, STEPS + 1)
    step = Step(function).__call__
    calls = [step] * (STEPS + 1)
    x = np.ones(SHAPE, np.float32)

    def loop() -> Any:
        value = x
        for call in calls:
            (value,) = call(value)
        return value

    found = in_turns(
        {
            "one step": lambda: single(x),
            "one step by name": lambda: single.run({"v0": x}),
            f"{STEPS + 1} steps": lambda: many(x),
            f"{STEPS + 1} calls in a loop": loop,
            "one call": lambda: step(x),
        },
        rounds,
    )
    us = found["us"]
    loop_us, many_us = us[f"{STEPS + 1} calls in a loop"], us[f"{STEPS + 1} steps"]
    yield {
        "case": f"own cost, {name} steps",
        "own_us_a_run": round(us["one step"] - us["one call"], 3),
        "own_us_a_run_by_name": round(us["one step by name"] - us["one call"], 3),
        "us_a_step_with_its_call": round((many_us - us["one step"]) / STEPS, 3),
        "us_a_call_in_a_loop": round(loop_us / (STEPS + 1), 3),
        **found,
    }


def beside_onnxruntime(name: str, proto: Any, feeds: dict[str, Any], rounds: int) -> dict[str, Any]:
    """A model wholly claimed by ONNX Runtime, beside ``session.run`` and IOBinding."""
    import onnxruntime

    model = pt.load(proto, fold=False)
    plan = pt.partition(model, ["onnxruntime"], options={"onnxruntime": {"threads": 1}})
    program = pt.compile(plan, strict=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    source = proto if isinstance(proto, str) else proto.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    arrays = [feeds[spec.name] for spec in program.inputs]
    wanted = session.run(None, feeds)
    for a, b in zip(program(*arrays), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    names = [o.name for o in session.get_outputs()]
    out = {n: np.empty_like(w) for n, w in zip(names, wanted, strict=True)}
    binding = bound(session, feeds, [np.empty_like(w) for w in wanted])
    found = in_turns(
        {
            "partita": lambda: program(*arrays),
            "partita by name": lambda: program.run(feeds),
            "partita out=": lambda: program(*arrays, out=out),
            "iobinding": lambda: session.run_with_iobinding(binding),
            "session_run": lambda: session.run(None, feeds),
        },
        rounds,
    )
    return {"case": f"onnxruntime, {name}", "steps": len(program.steps), **found}


def bound(session: Any, feeds: dict[str, Any], outputs: list[Any]) -> Any:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output, array in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_output(output.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.buffers = outputs
    return binding


def handing_over(regions: int, shape: Sequence[int], rounds: int) -> dict[str, Any]:
    """Measures regions of one engine with bound buffers between them, and without."""
    from partita.backends.onnxruntime import OnnxRuntimeBackend

    class First(OnnxRuntimeBackend):
        name = "first"
        number = 0

        def why_not(self, node: Any) -> str | None:
            return None if int(node.name[1:]) % 2 == self.number else "it is the other's"

    class Second(First):
        name = "second"
        number = 1

    class FirstPlain(First):
        def compile(self, region: Any) -> Any:
            return WithoutBinding(First.compile(self, region))

    class SecondPlain(Second):
        def compile(self, region: Any) -> Any:
            return WithoutBinding(Second.compile(self, region))

    model = pt.load(chain(regions, shape), fold=False)
    bound_program = pt.compile(model, [First(threads=1), Second(threads=1)], strict=True)
    plain = pt.compile(model, [FirstPlain(threads=1), SecondPlain(threads=1)], strict=True)
    assert len(bound_program.steps) == len(plain.steps) == regions
    x = np.ones(shape, np.float32)
    found = in_turns({"bound": lambda: bound_program(x), "handed": lambda: plain(x)}, rounds)
    size = int(np.prod(shape)) * 4
    return {"case": f"onnxruntime, {regions} regions, {size} bytes between them", **found}


def zoo_cases(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.onnx")):
        feeds = dict(np.load(path.with_suffix(".inputs.npz")))
        yield beside_onnxruntime(path.stem, str(path), feeds, rounds)


def main() -> None:
    """Prints one JSON line a case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--zoo", type=Path, help="folder of NAME.onnx with NAME.inputs.npz")
    arguments = parser.parse_args()
    rounds = arguments.rounds

    def cases() -> Iterator[dict[str, Any]]:
        yield from own_cost("empty", lambda x: x, rounds)
        yield from own_cost("numpy", lambda x: np.negative(x), rounds)
        one = {"v0": np.ones(SHAPE, np.float32)}
        yield beside_onnxruntime("one Neg of 16 floats", chain(1), one, rounds)
        wide = {"v0": np.ones((1, 256), np.float32)}
        yield beside_onnxruntime("eight dense layers of 256", dense(8, 256), wide, rounds)
        for count, shape in ((2, (4, 4)), (5, (4, 4)), (5, (256, 256))):
            yield handing_over(count, shape, rounds)
        if arguments.zoo:
            yield from zoo_cases(arguments.zoo, rounds)

    for case in cases():
        print(json.dumps({"bench": "dispatch", "rounds": rounds, **case}), flush=True)


if __name__ == "__main__":
    main()
