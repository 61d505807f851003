"""Backends that each break one promise of a compiled region, and the promise that catches them."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest

from partita.backends.contract import Backend, Executable, Node, Region
from partita.backends.host.interpreter import interpret
from partita.testing import BackendConformance
from partita.testing.properties import PROPERTIES

OPS = ("Relu", "Add", "Mul", "MatMul")


class Sound(Backend):
    """Keeps every promise; the others differ from it in one thing."""

    name = "sound"
    options = {"threads": 1, "fast": False}  # noqa: RUF012

    def why_not(self, node: Node) -> str | None:
        known = node.op_type in OPS and all(
            v is not None and v.dtype is not None and v.dtype.is_floating_point()
            for v in node.inputs
        )
        return None if known else f"{node.op_type} is none of {', '.join(OPS)} on floats"

    def compile(self, region: Region) -> Any:
        run = interpret(region.to_model().graph)
        return lambda *inputs: [np.array(o) for o in run(*inputs)]


class AddsWrongly(Sound):
    def compile(self, region: Region) -> Any:
        run = super().compile(region)
        off = float(any(node.op_type == "Add" for node in region.ir_nodes))
        return lambda *inputs: [o + o.dtype.type(off) for o in run(*inputs)]


class ReusesItsOutputs(Sound):
    def compile(self, region: Region) -> Any:
        run = super().compile(region)
        held: list[np.ndarray] = []

        def call(*inputs: Any) -> Any:
            found = run(*inputs)
            if [h.shape for h in held] != [f.shape for f in found]:
                held[:] = found
            for h, f in zip(held, found, strict=True):
                h[...] = f
            return list(held)

        return call


class WritesIntoItsInputs(Sound):
    def compile(self, region: Region) -> Any:
        run = super().compile(region)

        def call(*inputs: Any) -> Any:
            found = run(*inputs)
            for array in inputs:
                array[...] = 0
            return found

        return call


class Drifts(Sound):
    def compile(self, region: Region) -> Any:
        run, count = super().compile(region), itertools.count()

        def call(*inputs: Any) -> Any:
            step = next(count)
            return [o + o.dtype.type(1e-6 * step) for o in run(*inputs)]

        return call


class ForgetsOlderRegions(Sound):
    """The second compiled form of a region takes the first one's place."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._latest: dict[str, object] = {}

    def compile(self, region: Region) -> Any:
        run, token = super().compile(region), object()
        self._latest[region.name] = token

        def call(*inputs: Any) -> Any:
            if self._latest[region.name] is not token:
                return [np.zeros_like(o) - 1 for o in run(*inputs)]
            return run(*inputs)

        return call


class MixesThreads(Sound):
    def compile(self, region: Region) -> Any:
        run = super().compile(region)
        shelf: dict[str, Any] = {}

        def call(*inputs: Any) -> Any:
            shelf["inputs"] = inputs
            time.sleep(0.001)
            return run(*shelf["inputs"])

        return call


class CompilesOneAtATime(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._busy = threading.Lock()

    def compile(self, region: Region) -> Any:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another compilation is under way")
        try:
            time.sleep(0.02)
            return super().compile(region)
        finally:
            self._busy.release()


class _Bound(Executable):
    def __init__(self, run: Any, stale: bool, returns: bool) -> None:
        self._run, self._stale, self._returns = run, stale, returns

    def __call__(self, *inputs: Any) -> Any:
        return self._run(*inputs)

    def bind(self, inputs: Any, outputs: Any) -> Any:
        given = [None if i is None else (i.copy() if self._stale else i) for i in inputs]

        def call(*rest: Any) -> Any:
            more = iter(rest)
            found = self._run(*(next(more) if g is None else g for g in given))
            for buffer, array in zip(outputs, found, strict=True):
                if buffer is not None:
                    buffer[...] = array
            return [f for f, b in zip(found, outputs, strict=True) if b is None or self._returns]

        return call


class BindsWell(Sound):
    def compile(self, region: Region) -> Any:
        return _Bound(super().compile(region), False, False)


class BindsStaleInputs(Sound):
    def compile(self, region: Region) -> Any:
        return _Bound(super().compile(region), True, False)


class BoundCallReturnsAll(Sound):
    def compile(self, region: Region) -> Any:
        return _Bound(super().compile(region), False, True)


class OwnsStrangers(Sound):
    def owns(self, region: Region) -> Any:
        return (*region.parameters, "somebody else's")


class CostsWords(Sound):
    def cost(self, region: Region) -> Any:
        return "cheap"


class PairsStrangers(Sound):
    def inplace(self, region: Region) -> Any:
        return {"nothing": "no one"}


class SharesMemory(Sound):
    """Hands out its input as the output of an Executable, which has to copy."""

    def why_not(self, node: Node) -> str | None:
        return None if node.op_type == "Identity" else f"{node.op_type} is not Identity"

    def compile(self, region: Region) -> Any:
        return _Bound(lambda *inputs: list(inputs), False, False)


def kit(backend: type[Backend], **settings: Any) -> BackendConformance:
    """Returns the kit as a stranger would write it, with few trials."""
    body = {"backend": backend, "trials": 4, "random_models": 2, **settings}
    return type(f"Test{backend.__name__}", (BackendConformance,), body)()


@pytest.mark.parametrize("backend", [Sound, BindsWell])
@pytest.mark.parametrize("promise", PROPERTIES)
def test_a_sound_backend_keeps_every_promise(backend: type[Backend], promise: str) -> None:
    kit(backend).test_promise(promise)


@pytest.mark.parametrize(
    ("backend", "promise"),
    [
        (AddsWrongly, "compiled_region_is_right"),
        (ForgetsOlderRegions, "compiling_twice_gives_two_that_work"),
        (WritesIntoItsInputs, "calls_repeat"),
        (Drifts, "calls_repeat"),
        (ReusesItsOutputs, "outputs_belong_to_the_caller"),
        (SharesMemory, "outputs_belong_to_the_caller"),
        (MixesThreads, "calls_may_come_from_several_threads"),
        (CompilesOneAtATime, "compiling_may_happen_in_several_threads"),
        (BindsStaleInputs, "bound_calls_write_into_the_buffers"),
        (BoundCallReturnsAll, "bound_calls_write_into_the_buffers"),
        (BoundCallReturnsAll, "calls_may_be_bound_in_part"),
        (OwnsStrangers, "words_about_a_region_hold"),
        (CostsWords, "words_about_a_region_hold"),
        (PairsStrangers, "words_about_a_region_hold"),
    ],
)
def test_a_broken_promise_is_caught(backend: type[Backend], promise: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        kit(backend).test_promise(promise)
