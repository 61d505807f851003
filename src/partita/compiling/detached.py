"""Nodes cut loose from their model, so that what is built from them does not keep it alive."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from partita.model import bodies
from partita.subgraph import is_parameter


def detached(node: ir.Node) -> ir.Node:
    """Returns a copy of a node that leads to no other node and no weight but its own inputs.

    An operator's implementation may hold on to the node it was built from; through a live node that
    would be the whole model, weights that an engine has taken over included. Of bodies only the
    signature is kept: their inputs, and their outputs behind one placeholder node. The copy's
    ``captures`` are therefore empty.
    """
    known: dict[ir.Value, ir.Value] = {}
    graphs = dict(bodies(node)) if node.attributes else {}
    skeletons = {graph: _signature(graph) for graph in graphs.values()}
    return ir.Node(
        node.domain,
        node.op_type,
        [None if v is None else _input(v, known) for v in node.inputs],
        [_attribute(a, skeletons) for a in node.attributes.values()],
        overload=node.overload,
        outputs=[_alike(v) for v in node.outputs],
        version=node.version,
        name=node.name,
    )


def _input(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    if value not in known:
        known[value] = _alike(value)
        if is_parameter(value):
            known[value].const_value = value.const_value
    return known[value]


def _alike(value: ir.Value) -> ir.Value:
    return ir.Value(name=value.name, type=value.type, shape=value.shape)


def _signature(graph: ir.Graph) -> ir.Graph:
    outputs = [_alike(v) for v in graph.outputs]
    placeholder = ir.Node("partita", "Body", [], outputs=outputs)
    return ir.Graph([_alike(v) for v in graph.inputs], outputs, nodes=[placeholder])


def _attribute(attribute: ir.Attr, skeletons: Mapping[ir.Graph, ir.Graph]) -> ir.Attr:
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, skeletons[attribute.as_graph()])
    if attribute.type == ir.AttributeType.GRAPHS:
        return ir.AttrGraphs(attribute.name, [skeletons[g] for g in attribute.as_graphs()])
    return attribute
