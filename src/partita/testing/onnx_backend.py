"""Runs ONNX's own backend tests through partita.

In a test file::

    import onnx.backend.test
    from partita.testing.onnx_backend import backend

    globals().update(onnx.backend.test.BackendTest(backend(["onnxruntime"]), __name__).test_cases)

``run_suite`` runs them without a test framework and counts.
"""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
import unittest
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast, final

import numpy as np
import onnx
import onnx.helper
from onnx.backend.base import Backend, BackendRep

from partita import verbs
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.running.program import Program

KINDS = ("Node", "Real", "Simple", "PyTorchConverted", "PyTorchOperator")
"""ONNX's kinds of tests: single ops, whole networks, small graphs, and exports of old PyTorch."""


@final
class ProgramRep(BackendRep):
    """A prepared model in ONNX's sense.

    Attributes:
        plan: Where its nodes went.
        program: What runs.
    """

    def __init__(self, plan: Plan, program: Program) -> None:
        self.plan = plan
        self.program = program

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on inputs in graph order, or by name."""
        if isinstance(inputs, Mapping):
            return tuple(self.program.run(cast("Mapping[str, Any]", inputs)).values())
        single = not isinstance(inputs, (list, tuple))
        return tuple(self.program(*([inputs] if single else inputs)))


@final
class ReferenceRep(BackendRep):
    """A model prepared for onnx's reference evaluator alone: the other side of every comparison."""

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator

        # Files before IR 4 list weights among the inputs; those are not fed.
        self._weights = {tensor.name for tensor in model.graph.initializer}
        self._names = [i.name for i in model.graph.input if i.name not in self._weights]
        self._evaluator: Any = ReferenceEvaluator(model)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on inputs in graph order."""
        feeds = dict(zip(self._names, inputs, strict=False))
        return tuple(self._evaluator.run(None, feeds))


def backend(
    backends: Sequence[Any] = ("onnxruntime",),
    assign: int | None = None,
    save_and_load: bool = False,
    strict: bool = False,
    **rules: Any,
) -> type[Backend]:
    """Returns an ``onnx.backend.base.Backend`` that partitions, compiles and runs with partita.

    Args:
        backends: Backends in order of preference; the host takes the rest.
        assign: Seed by which every node is given at random to one of the backends that take it, or
            to the host; ``None``: as preferred.
        save_and_load: Whether the partitioned model is written, read and partitioned again first.
        strict: Whether a region that its backend cannot compile is an error; otherwise it falls to
            the next backend.
        **rules: As ``partita.partition`` takes them.
    """

    def prepared(model: onnx.ModelProto) -> ProgramRep:
        loaded = verbs.load(model)
        wishes = {} if assign is None else _wishes(loaded, backends, assign)
        plan = verbs.partition(loaded, backends, prefer=wishes, **rules)
        if save_and_load:
            plan = _saved_and_loaded(plan, backends)
        return ProgramRep(plan, verbs.compile(plan, strict=strict))

    return _adapter(prepared)


def reference_backend() -> type[Backend]:
    """Returns an ``onnx.backend.base.Backend`` over onnx's reference evaluator alone."""
    return _adapter(ReferenceRep)


def _adapter(prepared: Callable[[onnx.ModelProto], BackendRep]) -> type[Backend]:
    @final
    class Adapter(Backend):
        """Prepares models with what it was made for; devices other than the CPU there are none."""

        @classmethod
        def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
            """Tells whether the device is there; every model is tried."""
            return cls.supports_device(device)

        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
            """Loads, partitions and compiles a model."""
            if not cls.supports_device(device):
                raise ValueError(f"device is {device!r}; there is 'CPU' only")
            return prepared(model)

        @classmethod
        def run_model(
            cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
        ) -> tuple[Any, ...]:
            """Prepares and runs a model once."""
            return cls.prepare(model, device).run(inputs)

        @classmethod
        def run_node(
            cls,
            node: onnx.NodeProto,
            inputs: Any,
            device: str = "CPU",
            outputs_info: Any = None,
            **kwargs: Any,
        ) -> tuple[Any, ...]:
            """Runs a single node; input types are those of the arrays, output types inferred."""
            arrays = [np.asarray(array) for array in inputs]
            model = _model_of(node, arrays, outputs_info, kwargs.get("opset_version"))
            return cls.run_model(model, arrays, device)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            """Tells whether the device is the CPU."""
            return device.split(":")[0] == "CPU"

    return Adapter


def _wishes(model: Model, backends: Sequence[Any], seed: int) -> dict[str, str]:
    """Draws a backend for every node."""
    rng = random.Random(f"{seed} {model.hash}")
    names = [b if isinstance(b, str) else b.name for b in backends]
    choices = list(dict.fromkeys((*names, "host")))
    return {str(node.name): rng.choice(choices) for _, graph in model.graphs() for node in graph}


def _saved_and_loaded(plan: Plan, backends: Sequence[Any]) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        path = plan.apply().save(Path(folder) / "partitioned.onnx")
        return verbs.partition(verbs.load(path), backends)


def _model_of(
    node: onnx.NodeProto, arrays: Sequence[Any], outputs_info: Any, opset: int | None
) -> onnx.ModelProto:
    fed = [name for name in node.input if name]
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(fed, arrays, strict=True)
    ]
    if outputs_info is None:
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    else:
        outputs = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
            )
            for name, (dtype, shape) in zip(node.output, outputs_info, strict=True)
        ]
    version = opset or onnx.defs.onnx_opset_version()
    imports = [onnx.helper.make_opsetid(node.domain, version)]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    return model if outputs_info is not None else onnx.shape_inference.infer_shapes(model)


@final
@dataclass(frozen=True)
class Failure:
    """A test that failed.

    Attributes:
        test: Its name.
        error: Type and text of the exception.
    """

    test: str
    error: str


@final
@dataclass(frozen=True)
class SuiteReport:
    """What came of ONNX's tests.

    Attributes:
        passed: Names of tests that passed.
        failures: Tests that failed, and why.
        skipped: Names of tests that ONNX skips by itself.
        seconds: Wall time.
    """

    passed: tuple[str, ...]
    failures: tuple[Failure, ...]
    skipped: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Returns counts and failures as plain data for JSON."""
        return {
            "passed": len(self.passed),
            "failed": len(self.failures),
            "skipped": len(self.skipped),
            "seconds": round(self.seconds, 2),
            "failures": [asdict(failure) for failure in self.failures],
        }


def suite_of(
    backend_class: type[Backend], kinds: Sequence[str] = KINDS
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields name and function of every CPU test of the installed onnx, in a fixed order."""
    from onnx.backend.test.runner import Runner

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        runner = Runner(backend_class)
    items = runner._test_items  # pyright: ignore[reportPrivateUsage]
    for kind in kinds:
        for name, item in sorted(items.get(f"{kind}Model", {}).items()):
            if name.endswith("_cpu"):
                yield name, item.func


def run_suite(
    backend_class: type[Backend],
    kinds: Sequence[str] = KINDS,
    *,
    keep: Callable[[str], bool] = lambda name: True,
    progress: Callable[[str], None] | None = None,
) -> SuiteReport:
    """Runs ONNX's backend tests and counts.

    Args:
        backend_class: What :func:`backend` or :func:`reference_backend` returned.
        kinds: Which kinds of tests, of :data:`KINDS`.
        keep: Tells of a test's name whether to run it.
        progress: Is told the name of each test before it runs.
    """
    start = time.perf_counter()
    passed: list[str] = []
    failures: list[Failure] = []
    skipped: list[str] = []
    with _quiet():
        for name, function in suite_of(backend_class, kinds):
            if not keep(name):
                continue
            if progress is not None:
                progress(name)
            try:
                function(None)
                passed.append(name)
            except unittest.SkipTest:
                skipped.append(name)
            except Exception as error:
                failures.append(Failure(name, f"{type(error).__name__}: {error}"[:2000]))
    return SuiteReport(tuple(passed), tuple(failures), tuple(skipped), time.perf_counter() - start)


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Keeps warnings, log lines and prints away, and what is written out of the home folder."""
    before = os.environ.get("ONNX_HOME")
    logger = logging.getLogger("partita")
    level = logger.level
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
    ):
        warnings.simplefilter("ignore")
        os.environ["ONNX_HOME"] = folder
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
            if before is None:
                del os.environ["ONNX_HOME"]
            else:
                os.environ["ONNX_HOME"] = before
