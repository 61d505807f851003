"""From the units of a graph to a schedule: values become slots, bodies become calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Call, Executable, FunctionExecutable, Region
from partita.backends.host import Body, control_flow, operator
from partita.compiling.detached import detached
from partita.compiling.order import Unit, execution_order, needed
from partita.compiling.regions import Compiled
from partita.errors import CompileError, printable
from partita.model import bodies, captures
from partita.partitioning.rules import HOST
from partita.running.ownership import owning
from partita.running.schedule import LEFT_OUT, Schedule, Static, Step, Task
from partita.running.specs import spec_of
from partita.running.straight_line import straight_line
from partita.running.values import Array
from partita.subgraph import is_parameter

CompileRegion = Callable[[Region], Compiled | None]
"""Compiles a region, or returns ``None`` if the host has to run its nodes one by one."""


@final
@dataclass(eq=False)
class Lowering:
    """Lowers the graphs of one model; parameters read in several of them are held once.

    Attributes:
        compile_region: Compiles regions as they come.
        regions: Regions by the path of their graph.
        arrays: Parameters that the program holds.
        host_steps: Operators that the host runs one by one, so far.
    """

    compile_region: CompileRegion
    regions: Mapping[str, Sequence[Region]]
    arrays: dict[ir.Value, Any] = field(default_factory=dict[ir.Value, Any])
    host_steps: int = 0

    def main(self, graph: ir.Graph, inputs: Sequence[ir.Value]) -> Schedule:
        """Returns the schedule of the main graph; what it hands out belongs to the caller.

        Raises:
            CompileError: The host cannot run a node, or a value comes from nowhere.
        """
        units = execution_order(graph, self.regions.get("", ()))
        return self.units(units, inputs, graph.outputs)

    def units(
        self,
        units: Sequence[Unit],
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
    ) -> Schedule:
        """Returns the schedule of some units in order that read ``inputs`` and weights alone."""
        scope = _Scope(self.arrays)
        for value in inputs:
            scope.make(value)
        lowered = self._lowered(scope, units, inputs, outputs)
        if scope.captured:
            name = printable(scope.captured[0].name or "")
            raise CompileError(f"value '{name}' is read, but nothing makes it")
        copied = _copied(lowered.outputs, {*lowered.inputs, *scope.constants})
        return replace(lowered, copied=copied)

    def body(self, path: str, graph: ir.Graph) -> tuple[Call, tuple[ir.Value, ...]]:
        """Returns a call of (body inputs, captured values), and the captured values."""
        scope = _Scope(self.arrays)
        for value in graph.inputs:
            scope.make(value)
        units = execution_order(graph, self.regions.get(path, ()))
        schedule = self._lowered(scope, units, graph.inputs, graph.outputs)
        # What comes in belongs to the node that runs the body; it may go out again as it is.
        schedule = replace(schedule, copied=_copied(schedule.outputs, set(scope.constants)))
        return straight_line(schedule), tuple(scope.captured)

    def _lowered(
        self,
        scope: _Scope,
        units: Sequence[Unit],
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
    ) -> Schedule:
        handed_out = frozenset(outputs)
        tasks: list[Task] = []
        for unit in needed(units, outputs):
            if isinstance(unit, ir.Node):
                tasks.append(self._host_task(scope, unit, handed_out))
                continue
            compiled = self.compile_region(unit)
            if compiled is not None:
                tasks.append(_region_task(scope, compiled, handed_out))
            else:
                tasks += [self._host_task(scope, node, handed_out) for node in unit.ir_nodes]
        results = tuple(scope.read(value) for value in outputs)
        given = tuple(scope.slots[v] for v in (*inputs, *scope.captured))
        return Schedule(given, results, tuple(tasks), scope.constants, scope.static)

    def _host_task(self, scope: _Scope, node: ir.Node, handed_out: frozenset[ir.Value]) -> Task:
        self.host_steps += 1
        inner = dict(bodies(node)) if node.attributes else {}
        try:
            if inner:
                call, captured = self._control_flow(scope, node, inner)
            else:
                call, captured = operator(detached(node)), ()
        except CompileError:
            raise
        except Exception as error:
            raise CompileError(
                f"the host cannot run node '{printable(node.name or '')}' ({node.op_type}): "
                f"{type(error).__name__}: {error}"
            ) from error
        outputs = _named(node.outputs)
        if len(outputs) < len(node.outputs):
            call = _first(call, len(outputs))
        if not handed_out.isdisjoint(outputs):
            call = owning(call)
        reads = (*(scope.read(v) for v in node.inputs), *captured)
        step = Step(
            name=str(node.name),
            backend=HOST,
            nodes=(str(node.name),),
            inputs=_names((*node.inputs, *(captures(node) if inner else ()))),
            outputs=_names(outputs),
        )
        return Task(step, call, reads, tuple(scope.make(v) for v in outputs))

    def _control_flow(
        self, scope: _Scope, node: ir.Node, inner: Mapping[str, ir.Graph]
    ) -> tuple[Call, tuple[int, ...]]:
        """Returns the call of a node with bodies, and the slots of the values they capture."""
        outer = captures(node)
        position = {value: i for i, value in enumerate(outer)}
        lowered: dict[str, Body] = {}
        needed: set[ir.Value] = set()
        prefix = len(f"{node.name}.")
        for path, graph in inner.items():
            call, captured = self.body(path, graph)
            needed.update(captured)
            lowered[path[prefix:]] = Body(call, tuple(position[v] for v in captured))
        # Weights that a body reads are constants of the body, or swallowed by an engine: they are
        # not passed, so that the program need not hold them for this node's sake.
        slots = tuple(scope.read(v) if v in needed else LEFT_OUT for v in outer)
        return control_flow(detached(node), lowered), slots


@final
@dataclass(eq=False)
class _Scope:
    """The slots of one graph."""

    arrays: dict[ir.Value, Any]
    slots: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    constants: dict[int, Any] = field(default_factory=dict[int, Any])
    static: dict[int, Static] = field(default_factory=dict[int, Static])
    captured: list[ir.Value] = field(default_factory=list[ir.Value])

    def make(self, value: ir.Value) -> int:
        """Returns a new slot for a value."""
        slot = self.slots[value] = len(self.slots)
        spec = spec_of(value)
        shape = spec.static_shape
        if spec.dtype is not None and spec.dtype.kind in "biuf" and shape and 0 not in shape:
            self.static[slot] = spec.dtype, shape
        return slot

    def read(self, value: ir.Value | None) -> int:
        """Returns the slot of a value that is read; weights and captured values come in here."""
        if value is None:
            return LEFT_OUT
        slot = self.slots.get(value)
        if slot is None:
            slot = self.make(value)
            if is_parameter(value):
                self.constants[slot] = self._array(value)
            else:
                self.captured.append(value)
        return slot

    def _array(self, value: ir.Value) -> Any:
        if value not in self.arrays:
            assert value.const_value is not None
            self.arrays[value] = run_time_array(value.const_value)
        return self.arrays[value]


def run_time_array(tensor: ir.TensorProtocol) -> Array:
    """Returns a tensor as steps take it: numpy, strings as ``str`` objects."""
    array = tensor.numpy()
    if tensor.dtype != ir.DataType.STRING:
        return array
    words = [w.decode() if isinstance(w, bytes) else str(w) for w in array.ravel().tolist()]
    return np.array(words, dtype=object).reshape(array.shape)


def _region_task(scope: _Scope, compiled: Compiled, handed_out: frozenset[ir.Value]) -> Task:
    region = compiled.region
    passed = [p for p in region.cut.parameters if p.name not in compiled.owned]
    reads = (*region.cut.inputs, *passed)
    step = Step(
        name=region.name,
        backend=region.backend,
        nodes=region.nodes,
        inputs=_names(reads),
        outputs=region.outputs,
    )
    inputs = tuple(scope.read(v) for v in reads)
    outputs = tuple(scope.make(v) for v in region.cut.outputs)
    call = compiled.call
    if isinstance(call, Executable) and not isinstance(call, FunctionExecutable):
        # The bound method spares the look-up of __call__ on every run.
        return Task(step, call.__call__, inputs, outputs, call)
    if not handed_out.isdisjoint(region.cut.outputs):
        call = owning(call)
    return Task(step, call, inputs, outputs)


def _copied(results: Sequence[int], not_made: set[int]) -> frozenset[int]:
    """Returns the positions of outputs that no task made for this caller alone."""
    seen: set[int] = set()
    copied: list[int] = []
    for position, slot in enumerate(results):
        if slot in not_made or slot in seen:
            copied.append(position)
        seen.add(slot)
    return frozenset(copied)


def _named(outputs: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """Returns the outputs without those at the end that the model leaves out."""
    count = len(outputs)
    while count and not outputs[count - 1].name:
        count -= 1
    return outputs[:count]


def _first(call: Call, count: int) -> Call:
    """Returns a call that keeps the first results; implementations differ on left-out ones."""
    return lambda *inputs: call(*inputs)[:count]


def _names(values: Iterable[ir.Value | None]) -> tuple[str, ...]:
    return tuple("" if v is None else str(v.name) for v in values)
