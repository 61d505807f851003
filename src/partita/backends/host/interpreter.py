"""Whole graphs, op by op."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from partita.backends.contract import Call, Node
from partita.backends.host import numpy_kernels, reference
from partita.backends.host.control_flow import Body, control_flow
from partita.backends.kernels import weight
from partita.backends.straight_line import Step, straight_line
from partita.model import bodies, captures


def operator(node: Node) -> Call:
    """Returns the call of one node without bodies: its inputs in, a tuple of its outputs out.

    numpy where the host has a kernel of its own, ONNX's reference evaluator otherwise. Results may
    be views of the inputs. Left-out inputs are passed as ``None``.

    Raises:
        CompileError: Nothing implements the op.
    """
    if numpy_kernels.table.why_not(node) is None:
        return numpy_kernels.call(node)
    return reference.evaluated(node)


def node_call(node: Node) -> Call:
    """Returns the call of any node: its inputs, then ``captures(node)``, in; its outputs out."""
    outer = captures(node)
    compiled = {
        path.removeprefix(f"{node.name}."): _body(graph, outer) for path, graph in bodies(node)
    }
    if compiled:
        return control_flow(node, compiled)
    return operator(node)


def interpret(graph: ir.Graph, captured: Sequence[ir.Value] = ()) -> Call:
    """Returns a call that runs a whole graph, freeing values after their last use.

    Args:
        graph: A graph or a body; its inputs that have weights of the same name are not passed.
        captured: Outer values that the graph reads; they are passed after its inputs.
    """
    weights = {v: weight(v) for v in graph.initializers.values()}
    inputs = [v for v in graph.inputs if v not in weights]
    return straight_line(steps(graph), (*inputs, *captured), graph.outputs, weights)


def steps(nodes: Iterable[Node]) -> list[Step]:
    """Returns one step a node; a node with bodies reads its captures after its inputs."""
    return [Step(node_call(n), (*n.inputs, *captures(n)), n.outputs) for n in nodes]


def _body(graph: ir.Graph, outer: Sequence[ir.Value]) -> Body:
    read = _reads(graph)
    picked = tuple(i for i, value in enumerate(outer) if value in read)
    return Body(interpret(graph, [outer[i] for i in picked]), picked)


def _reads(graph: ir.Graph) -> set[ir.Value]:
    """Returns every value that a graph or its nested bodies read."""
    found: set[ir.Value] = set()
    stack = [graph]
    while stack:
        current = stack.pop()
        found.update(current.outputs)
        for node in current:
            found.update(v for v in node.inputs if v is not None)
            stack.extend(inner for _, inner in bodies(node))
    return found
