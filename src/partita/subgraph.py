"""A cut of a model: some nodes of one graph, what flows in, what flows out, and their weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import final

import onnx_ir as ir

from partita.model import Model, captures


@final
@dataclass(frozen=True, eq=False)
class Subgraph:
    """Some nodes of one graph of a model, in topological order.

    Attributes:
        model: The model that was cut.
        nodes: The live nodes. They are the model's own: read them, never edit them.
        inputs: Values computed or fed outside, in order of first use; no weights among them.
        outputs: Values read outside (or graph outputs), in order of production.
        parameters: Weights read by the nodes, in order of first use.
    """

    model: Model
    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    parameters: tuple[ir.Value, ...]

    def to_model(self, weights_as_inputs: Collection[str] = ()) -> Model:
        """Returns the cut as a model of its own, in time linear in the cut.

        Nodes and values are copies with their original names; weights are shared, not copied.

        Args:
            weights_as_inputs: Names of parameters that become graph inputs (after the others)
                instead of initializers.
        """
        fed = tuple(p for p in self.parameters if p.name in weights_as_inputs)
        kept = tuple(p for p in self.parameters if p.name not in weights_as_inputs)
        view = ir.GraphView(
            (*self.inputs, *fed),
            self.outputs,
            nodes=self.nodes,
            initializers=kept,
            opset_imports=dict(self.model.ir.opset_imports),
            name="region",
        )
        graph = view.clone()
        for value in graph.inputs:
            value.const_value = None
        used = {node.domain for node in ir.traversal.RecursiveGraphIterator(graph)}
        for domain in set(graph.opset_imports) - used - {""}:
            del graph.opset_imports[domain]
        version = max(self.model.ir.ir_version, 4)
        return Model(ir.Model(graph, ir_version=version), self.model.source)


def cut(
    model: Model, nodes: Iterable[ir.Node], outside: Collection[ir.Value] | None = None
) -> Subgraph:
    """Returns the :class:`Subgraph` of exactly ``nodes``, all of one graph.

    Args:
        model: The model that owns the nodes.
        nodes: The nodes, in topological order.
        outside: Values that must count as read outside although no node reads them there.
    """
    chosen = tuple(nodes)
    members = set(chosen)
    reads: dict[ir.Value, None] = {}
    inner_bodies = {g for node in chosen if node.attributes for g in _all_bodies(node)}
    for node in chosen:
        for value in node.inputs:
            if value is not None:
                reads[value] = None
        if node.attributes:
            reads.update(dict.fromkeys(captures(node)))
    made = [v for node in chosen for v in node.outputs]
    own = set(made)
    external = [v for v in reads if v not in own]
    return Subgraph(
        model=model,
        nodes=chosen,
        inputs=tuple(v for v in external if not is_parameter(v)),
        outputs=tuple(
            v
            for v in made
            if v.is_graph_output()
            or (outside is not None and v in outside)
            or any(
                use.node not in members and use.node.graph not in inner_bodies for use in v.uses()
            )
        ),
        parameters=tuple(v for v in external if is_parameter(v)),
    )


def is_parameter(value: ir.Value) -> bool:
    """Tells whether a value is a weight: an initializer that no caller can feed."""
    return value.const_value is not None and value.producer() is None and not value.is_graph_input()


def _all_bodies(node: ir.Node) -> Iterable[ir.Graph]:
    for attribute in node.attributes.values():
        graphs: Iterable[ir.Graph] = ()
        if attribute.type == ir.AttributeType.GRAPH:
            graphs = (attribute.as_graph(),)
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs = attribute.as_graphs()
        for graph in graphs:
            yield graph
            for inner in graph:
                yield from _all_bodies(inner)
