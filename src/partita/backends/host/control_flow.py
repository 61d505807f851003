"""Control flow: ``If``, ``Loop``, ``Scan`` and ``SequenceMap`` by running their bodies.

Source: the ops' pages on https://onnx.ai/onnx/operators/. The reference evaluator is not used: it
knows no scan axes or directions, stacks scalars wrongly, and stops a loop without a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Call, Node
from partita.backends.host.flex_attention import flex_attention
from partita.errors import CompileError
from partita.model import bodies

OPS = frozenset({"If", "Loop", "Scan", "SequenceMap", "FlexAttention"})
"""Ops whose bodies this module runs."""


@final
@dataclass(frozen=True)
class Body:
    """A compiled body of a node.

    Attributes:
        call: Takes the body's inputs, then the captured values; returns the body's outputs.
        captured: Which of the node's captures it reads, as positions in ``captures(node)``.
    """

    call: Call
    captured: tuple[int, ...] = ()


def control_flow(node: Node, bodies_by_attribute: Mapping[str, Body]) -> Call:
    """Returns the call of a node with bodies.

    Args:
        node: An ``If``, ``Loop``, ``Scan``, ``SequenceMap`` or ``FlexAttention``.
        bodies_by_attribute: Each body by the name of its attribute.

    Returns:
        A call that takes the node's inputs (``None`` for left-out ones) and then its captures, and
        returns its outputs.

    Raises:
        CompileError: The op is none of these, or a body is missing.
    """
    runners = {key: _bound(node, key, bodies_by_attribute) for key in _graphs(node)}
    if node.op_type == "If":
        return _if(node, runners)
    if node.op_type == "Loop":
        return _loop(node, runners["body"])
    if node.op_type == "Scan":
        return (_scan_8 if (node.version or 9) < 9 else _scan)(node, runners["body"])
    if node.op_type == "SequenceMap":
        return _sequence_map(node, runners["body"])
    if node.op_type == "FlexAttention":
        return flex_attention(node, runners)
    raise CompileError(f"node '{node.name}': the host cannot run the bodies of {node.op_type}")


def _graphs(node: Node) -> dict[str, ir.Graph]:
    return {path.removeprefix(f"{node.name}."): graph for path, graph in bodies(node)}


def _bound(node: Node, key: str, given: Mapping[str, Body]) -> Any:
    """Returns a function of (body inputs, captures of the node)."""
    if key not in given:
        raise CompileError(f"node '{node.name}': body '{key}' was not compiled")
    body = given[key]
    call, picked = body.call, body.captured

    def run(inputs: Sequence[Any], captured: Sequence[Any]) -> Sequence[Any]:
        return call(*inputs, *[captured[i] for i in picked])

    return run


def _if(node: Node, runners: Mapping[str, Any]) -> Call:
    then_branch, else_branch = runners["then_branch"], runners["else_branch"]

    def call(condition: Array, *captured: Any) -> Sequence[Any]:
        branch = then_branch if _truth(condition, node) else else_branch
        return branch((), captured)

    return call


def _loop(node: Node, run: Any) -> Call:
    body = _graphs(node)["body"]
    given, carried = len(node.inputs), max(len(body.inputs) - 2, 0)
    endless = _input(node, 0) is None
    conditional = _input(node, 1) is not None
    counter_shape, condition_shape = _small_shape(body, 0), _small_shape(body, 1)
    stacked = body.outputs[1 + carried :]

    def call(*values: Any) -> Sequence[Any]:
        inputs, captured = values[:given], values[given:]
        limit = None if endless else int(inputs[0].item())
        going = not conditional or _truth(inputs[1], node)
        condition = np.array(going).reshape(condition_shape)
        state = list(inputs[2:])
        scans: list[list[Any]] = [[] for _ in stacked]
        count = 0
        while going and (limit is None or count < limit):
            counter = np.array(count, np.int64).reshape(counter_shape)
            outputs = run((counter, condition, *state)[: 2 + carried], captured)
            # Without a condition among the inputs the body's own is ignored (opset 1 and later).
            going = not conditional or _truth(outputs[0], node)
            condition = np.array(going).reshape(condition_shape)
            state = list(outputs[1 : 1 + carried])
            for scan, value in zip(scans, outputs[1 + carried :], strict=True):
                scan.append(value)
            count += 1
        return (*state, *(_stack(s, v, 0) for s, v in zip(scans, stacked, strict=True)))

    return call


def _scan(node: Node, run: Any) -> Call:
    body = _graphs(node)["body"]
    given, scanned = len(node.inputs), node.attributes.get_int("num_scan_inputs", 0)
    states = given - scanned
    produced = body.outputs[states:]
    in_axes = _ints(node, "scan_input_axes", scanned)
    backwards = _ints(node, "scan_input_directions", scanned)
    out_axes = _ints(node, "scan_output_axes", len(produced))
    reversed_out = _ints(node, "scan_output_directions", len(produced))

    def call(*values: Any) -> Sequence[Any]:
        state, captured = list(values[:states]), values[given:]
        columns = [
            _slices(x, axis, bool(back))
            for x, axis, back in zip(values[states:given], in_axes, backwards, strict=True)
        ]
        scans: list[list[Any]] = [[] for _ in produced]
        for row in zip(*columns, strict=True):
            outputs = run((*state, *row), captured)
            state = list(outputs[:states])
            for scan, value in zip(scans, outputs[states:], strict=True):
                scan.append(value)
        results = [
            _stack(s[::-1] if back else s, v, axis)
            for s, v, axis, back in zip(scans, produced, out_axes, reversed_out, strict=True)
        ]
        return (*state, *results)

    return call


def _scan_8(node: Node, run: Any) -> Call:
    """Opset 8: a batch axis before everything, lengths of sequences as a first input."""
    body = _graphs(node)["body"]
    given, scanned = len(node.inputs), node.attributes.get_int("num_scan_inputs", 0)
    states = given - 1 - scanned
    backwards = _ints(node, "directions", scanned)
    produced = body.outputs[states:]

    def sequence(batch: int, length: int, arguments: Sequence[Any], captured: Any) -> list[Any]:
        state = [x[batch] for x in arguments[:states]]
        columns = [
            _slices(x[batch][:length], 0, bool(back))
            for x, back in zip(arguments[states:], backwards, strict=True)
        ]
        scans: list[list[Any]] = [[] for _ in produced]
        for row in zip(*columns, strict=True):
            outputs = run((*state, *row), captured)
            state = list(outputs[:states])
            for scan, value in zip(scans, outputs[states:], strict=True):
                scan.append(value)
        return [*state, *(_stack(s, v, 0) for s, v in zip(scans, produced, strict=True))]

    def call(*values: Any) -> Sequence[Any]:
        lengths, arguments, captured = values[0], values[1:given], values[given:]
        batches, longest = arguments[-1].shape[:2]
        rows = [
            sequence(b, longest if lengths is None else int(lengths[b]), arguments, captured)
            for b in range(batches)
        ]
        finals = [np.stack([r[i] for r in rows]) for i in range(states)]
        scans = [
            np.stack([_padded(r[i], longest) for r in rows])
            for i in range(states, states + len(produced))
        ]
        return (*finals, *scans)

    return call


def _sequence_map(node: Node, run: Any) -> Call:
    given, outputs = len(node.inputs), len(node.outputs)

    def call(*values: Any) -> Sequence[Any]:
        inputs, captured = values[:given], values[given:]
        results: list[list[Any]] = [[] for _ in range(outputs)]
        for i in range(len(inputs[0])):
            row: list[Any] = [x[i] if isinstance(x, list) else x for x in inputs]
            for result, value in zip(results, run(row, captured), strict=False):
                result.append(value)
        return tuple(results)

    return call


def _truth(condition: Array, node: Node) -> bool:
    if condition.size != 1:
        raise ValueError(
            f"node '{node.name}': the condition of {node.op_type} holds {condition.size} values, "
            "not one"
        )
    return bool(condition.item())


def _stack(values: list[Any], formal: ir.Value, axis: int) -> Array:
    """Stacks the results of all iterations; of none, by what is known of the body's output."""
    if values:
        return np.stack(values, axis)
    dtype = np.float32 if formal.dtype is None else formal.dtype.numpy()
    shape = [] if formal.shape is None else [d if isinstance(d, int) else 0 for d in formal.shape]
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 0)
    return np.empty(shape, dtype)


def _slices(array: Array, axis: int, backwards: bool) -> list[Array]:
    rows = np.moveaxis(array, axis, 0)
    return [rows[i, ...] for i in (range(len(rows))[::-1] if backwards else range(len(rows)))]


def _padded(array: Array, length: int) -> Array:
    result = np.zeros((length, *array.shape[1:]), array.dtype)
    result[: len(array)] = array
    return result


def _small_shape(body: ir.Graph, index: int) -> tuple[int, ...]:
    """Returns the shape in which a body wants its counter or condition: ``()`` or ``(1,)``."""
    shape = body.inputs[index].shape if index < len(body.inputs) else None
    return (1,) if shape is not None and len(shape) == 1 else ()


def _ints(node: Node, key: str, length: int) -> list[int]:
    found = list(node.attributes.get_ints(key) or ())
    return found + [0] * (length - len(found))


def _input(node: Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None
