"""The partitioned model: each region becomes a model-local function, called by one node.

The result is valid ONNX that other tools open and run. Formal inputs and outputs of a function
carry the original names of the values, so that loading the model again can put the nodes back in
place and knows which region each came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import onnx_ir as ir

from partita import __version__
from partita.backends.contract import Region
from partita.compiling.order import execution_order
from partita.model import Model, bodies
from partita.partitioning.plan import Plan

DOMAIN = "partita"
"""Domain of the functions that stand for regions."""
DOMAIN_VERSION = 1
LEAST_IR_VERSION = 10
"""Functions need IR 8; their metadata and the types of their values need IR 10."""
INLINE_BYTES = 1024
"""Parameters up to this size travel into the region as constants."""
INLINE_INDEX_BYTES = 65536
"""The same for int64 vectors: shapes, axes, sizes and splits, which ops want as constants."""

_CONSTANT_DTYPES = frozenset(
    {
        *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BOOL),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
        ir.DataType.STRING,
    }
)
"""What ``Constant`` has taken since opset 1; younger element types are passed as inputs."""


def outline(plan: Plan) -> Model:
    """Returns the partitioned model of a plan, in time linear in the model.

    A region becomes a function of domain ``partita`` that is named as the region, called by one
    node of the same name. Its inputs are the region's inputs, then its large weights, which stay
    initializers of the graph; small parameters become constants inside. Weights are shared with
    the original model, which stays as it is.

    Raises:
        PlanError: The plan has no model.
    """
    model = plan.bound_model
    digest = plan_hash(plan)
    outliner = _Outliner(model, digest)
    for region in plan.regions:
        outliner.regions.setdefault(region.graph, []).append(region)
    graph = outliner.graph("", model.graph)
    graph.opset_imports[DOMAIN] = DOMAIN_VERSION
    outlined = ir.Model(
        graph,
        ir_version=max(model.ir.ir_version, LEAST_IR_VERSION),
        producer_name=model.ir.producer_name,
        producer_version=model.ir.producer_version,
        domain=model.ir.domain,
        model_version=model.ir.model_version,
        doc_string=model.ir.doc_string,
        functions=[*(f.clone() for f in model.ir.functions.values()), *outliner.functions],
        metadata_props={
            **model.ir.metadata_props,
            "partita.version": __version__,
            "partita.plan": digest,
            "partita.regions": json.dumps({r.name: described(r) for r in plan.regions}),
        },
    )
    return Model(outlined, model.source)


def plan_hash(plan: Plan) -> str:
    """Returns the SHA-256 (hex) of a plan: its model's hash and what its regions are."""
    digest = hashlib.sha256(plan.hash.encode())
    for region in plan.regions:
        place = {"name": region.name, "graph": region.graph, "nodes": region.nodes}
        digest.update(json.dumps({**place, **described(region)}, sort_keys=True).encode())
    return digest.hexdigest()


def described(region: Region) -> dict[str, Any]:
    """Returns what a partitioned model says of a region besides its nodes."""
    return {
        "backend": region.backend,
        "strategy": region.strategy,
        "attributes": dict(region.attributes),
        "precision": region.precision,
    }


def travels(parameter: ir.Value, imports: Mapping[str, int]) -> bool:
    """Tells whether a parameter becomes a constant inside the regions that read it.

    Ops such as Reshape, Pad, Slice, Resize, Clip or ReduceSum want shapes, axes and bounds as
    constants; all of those are small. Weights stay outside.
    """
    tensor = parameter.const_value
    if tensor is None or "" not in imports or tensor.dtype not in _CONSTANT_DTYPES:
        return False
    if tensor.dtype == ir.DataType.INT64 and len(tensor.shape) <= 1:
        return tensor.nbytes <= INLINE_INDEX_BYTES
    return tensor.size <= INLINE_BYTES and tensor.nbytes <= INLINE_BYTES


@final
@dataclass(eq=False)
class _Outliner:
    """Copies graphs; the regions on the way become calls of functions."""

    model: Model
    plan_hash: str
    regions: dict[str, list[Region]] = field(default_factory=dict[str, list[Region]])
    functions: list[ir.Function] = field(default_factory=list[ir.Function])
    copies: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])

    def graph(self, path: str, graph: ir.Graph) -> ir.Graph:
        """Returns a copy of a graph in which its regions are calls."""
        inputs = [_copy(value, self.copies) for value in graph.inputs]
        weights = [_copy(value, self.copies) for value in graph.initializers.values()]
        nodes = [
            self.call(unit) if isinstance(unit, Region) else self.node(unit)
            for unit in execution_order(graph, self.regions.get(path, ()))
        ]
        outputs = [self.copies[value] for value in graph.outputs]
        handed_out = set(outputs)
        return ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=[w for w in weights if w.uses() or w in handed_out],
            doc_string=graph.doc_string,
            opset_imports=dict(graph.opset_imports),
            name=graph.name,
            metadata_props=dict(graph.metadata_props),
        )

    def node(self, node: ir.Node) -> ir.Node:
        """Returns a copy of a node that is left to the host; its bodies are outlined too."""
        paths = dict(bodies(node)) if node.attributes else {}
        by_graph = {graph: self.graph(path, graph) for path, graph in paths.items()}
        return _copy_node(node, self.copies, by_graph)

    def call(self, region: Region) -> ir.Node:
        """Returns the node that calls a region's function, and makes the function."""
        inner: dict[ir.Value, ir.Value] = {}
        imports = self.model.ir.opset_imports
        inside = [p for p in region.cut.parameters if travels(p, imports)]
        passed = [p for p in region.cut.parameters if not travels(p, imports)]
        formal = [_copy(v, inner, weight=False) for v in (*region.cut.inputs, *passed)]
        nodes = [_constant(p, region, inner) for p in inside]
        nodes += [_copy_whole(node, inner) for node in region.ir_nodes]
        outputs = _outputs(region)
        used = {inner_node.domain for inner_node in _all_nodes(region.ir_nodes)}
        body = ir.Graph(
            formal,
            [inner[v] for v in outputs],
            nodes=nodes,
            opset_imports={d: v for d, v in imports.items() if d in used or (inside and d == "")},
            name=region.name,
            metadata_props=self._metadata(region),
        )
        self.functions.append(ir.Function(DOMAIN, region.name, graph=body, attributes=()))
        return ir.Node(
            DOMAIN,
            region.name,
            [self.copies[v] for v in (*region.cut.inputs, *passed)],
            outputs=[_copy(v, self.copies) for v in outputs],
            name=region.name,
            metadata_props={"partita.backend": region.backend},
        )

    def _metadata(self, region: Region) -> dict[str, str]:
        return {
            "partita.backend": region.backend,
            "partita.strategy": region.strategy,
            "partita.attributes": json.dumps(dict(region.attributes), sort_keys=True),
            "partita.precision": region.precision,
            "partita.plan": self.plan_hash,
        }


def _outputs(region: Region) -> tuple[ir.Value, ...]:
    """Returns what the function returns: an unread value if nobody reads any, for it needs one."""
    if region.cut.outputs:
        return region.cut.outputs
    return tuple(v for v in region.ir_nodes[-1].outputs if v.name)[:1]


def _copy(value: ir.Value, copies: dict[ir.Value, ir.Value], *, weight: bool = True) -> ir.Value:
    copy = ir.Value(
        name=value.name,
        type=value.type,
        shape=value.shape.copy() if value.shape is not None else None,
        doc_string=value.doc_string,
        const_value=value.const_value if weight and value.producer() is None else None,
        metadata_props=dict(value.metadata_props),
    )
    copies[value] = copy
    return copy


def _copy_node(
    node: ir.Node, copies: dict[ir.Value, ir.Value], by_graph: Mapping[ir.Graph, ir.Graph]
) -> ir.Node:
    return ir.Node(
        node.domain,
        node.op_type,
        [None if v is None else copies[v] for v in node.inputs],
        [_copy_attribute(a, by_graph) for a in node.attributes.values()],
        overload=node.overload,
        outputs=[_copy(v, copies) for v in node.outputs],
        version=node.version,
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )


def _copy_attribute(attribute: ir.Attr, by_graph: Mapping[ir.Graph, ir.Graph]) -> ir.Attr:
    if attribute.type == ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, by_graph[attribute.as_graph()])
    if attribute.type == ir.AttributeType.GRAPHS:
        return ir.AttrGraphs(attribute.name, [by_graph[g] for g in attribute.as_graphs()])
    return attribute


def _copy_whole(node: ir.Node, copies: dict[ir.Value, ir.Value]) -> ir.Node:
    """Returns a copy of a node with its bodies as they are."""
    graphs = [graph for _, graph in bodies(node)] if node.attributes else []
    return _copy_node(node, copies, {graph: _copy_body(graph, copies) for graph in graphs})


def _copy_body(graph: ir.Graph, copies: dict[ir.Value, ir.Value]) -> ir.Graph:
    inputs = [_copy(v, copies) for v in graph.inputs]
    weights = [_copy(v, copies) for v in graph.initializers.values()]
    nodes = [_copy_whole(node, copies) for node in graph]
    return ir.Graph(
        inputs,
        [copies[v] for v in graph.outputs],
        nodes=nodes,
        initializers=weights,
        doc_string=graph.doc_string,
        opset_imports=dict(graph.opset_imports),
        name=graph.name,
    )


def _constant(parameter: ir.Value, region: Region, copies: dict[ir.Value, ir.Value]) -> ir.Node:
    tensor = parameter.const_value
    assert tensor is not None
    return ir.Node(
        "",
        "Constant",
        [],
        [ir.AttrTensor("value", tensor)],
        outputs=[_copy(parameter, copies, weight=False)],
        name=f"{region.name}/{parameter.name}",
    )


def _all_nodes(nodes: Iterable[ir.Node]) -> Iterable[ir.Node]:
    for node in nodes:
        yield node
        for _, graph in bodies(node):
            yield from _all_nodes(graph)
