"""Calls of model-local functions become the nodes of the function.

What the calls expand to has been bounded before (``functions.check_expansion``). Recursion follows
calls inside functions and bodies inside nodes; the depth of both is bounded as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import onnx_ir as ir

from partita.errors import InvalidModelError, UnsupportedModelError, printable
from partita.loading.functions import Identifier, identify, shown
from partita.model import bodies
from partita.ops import schemas

FUNCTION_KEY = "partita.function"
"""Metadata of a node that came out of a function: the functions around it, outermost first."""

REGION_KEY = "partita.region"
"""Metadata of a node: the region of a partitioned model that it was placed in."""

Bindings = dict[ir.Value, ir.Value | None]


@final
@dataclass(frozen=True)
class Call:
    """One call of a function: what its formal names stand for.

    Attributes:
        function: The function.
        arguments: Actual inputs, ``None`` where left out.
        attributes: Actual attributes, none of them a reference.
        scope: Goes in front of the names of what comes out, with ``/``; empty keeps the names.
        metadata: Goes to every node that comes out.
    """

    function: ir.Function
    arguments: Sequence[ir.Value | None]
    attributes: Mapping[str, ir.Attr]
    scope: str
    metadata: Mapping[str, str]


@final
@dataclass
class Inliner:
    """Replaces the calls in one model; the model is the loader's own.

    Attributes:
        functions: What may be called.
        opsets: Imports of the model; domains that only functions import are added.
        name_length: Longer names are left empty, for others to give.
    """

    functions: Mapping[Identifier, ir.Function]
    opsets: dict[str, int]
    name_length: int
    _checked: set[Identifier] = field(default_factory=set[Identifier])

    def expand_graph(self, graph: ir.Graph) -> None:
        """Replaces every call in ``graph`` and its bodies.

        Raises:
            InvalidModelError: A call does not fit its function.
            UnsupportedModelError: Function and model import opsets that give an op two meanings.
        """
        expanded: list[ir.Node] = []
        calls: list[ir.Node] = []
        for node in graph:
            function = self.called(node)
            if function is None:
                for _, body in bodies(node):
                    self.expand_graph(body)
                expanded.append(node)
                continue
            identifier = identify(node.domain, node.op_type, node.overload)
            inherited = {k: v for k, v in node.metadata_props.items() if k == REGION_KEY}
            metadata = {FUNCTION_KEY: shown(identifier), **inherited}
            call = Call(function, node.inputs, node.attributes, node.name or "", metadata)
            expanded += self.splice(node, call)
            calls.append(node)
        if calls:
            graph.remove(calls)
            graph.extend(expanded)

    def called(self, node: ir.Node) -> ir.Function | None:
        """Returns the function that ``node`` calls, or ``None`` if it is an operator."""
        return self.functions.get(identify(node.domain, node.op_type, node.overload))

    def splice(self, node: ir.Node, call: Call) -> list[ir.Node]:
        """Returns the nodes that stand for ``node``, whose readers now read their outputs."""
        nodes, results = self.instantiate(call)
        if len(node.outputs) > len(results):
            raise InvalidModelError(
                f"takes {len(node.outputs)} outputs of function '{call.function.name}', which has "
                f"{len(results)}",
                node=node.name,
            )
        free = {value for made in nodes for value in made.outputs}
        for old, new in zip(node.outputs, results, strict=False):
            if not old.name:
                continue
            if new is None:
                raise InvalidModelError(
                    f"reads an output of function '{call.function.name}' that stands for an input "
                    "left out here",
                    node=node.name,
                    value=old.name,
                )
            if new in free:
                free.remove(new)
            else:  # An input handed through: the output keeps its own name behind an Identity.
                nodes.append(
                    ir.Node("", "Identity", [new], version=self.opsets.get("", 1), name="")
                )
                new = nodes[-1].outputs[0]
            _take_over(old, new)
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        return nodes

    def instantiate(self, call: Call) -> tuple[list[ir.Node], list[ir.Value | None]]:
        """Returns a copy of a function's nodes for one call, and what its outputs stand for."""
        function = call.function
        self._check_opsets(function)
        if len(call.arguments) > len(function.inputs):
            raise InvalidModelError(
                f"function '{printable(function.name)}' is called with {len(call.arguments)} "
                f"inputs; it takes {len(function.inputs)}"
            )
        bound: Bindings = dict.fromkeys(function.inputs)
        bound.update(zip(function.inputs, call.arguments, strict=False))
        defaults = {k: a for k, a in function.attributes.items() if a.value is not None}
        whole = Call(function, (), {**defaults, **call.attributes}, call.scope, call.metadata)
        nodes = self._copies(function, whole, bound)
        return nodes, [bound[value] for value in function.outputs]

    def _copies(self, nodes: Iterable[ir.Node], call: Call, bound: Bindings) -> list[ir.Node]:
        copies: list[ir.Node] = []
        for node in nodes:
            function = self.called(node)
            if function is None:
                copies.append(self._copy(node, call, bound))
                continue
            inner = Call(
                function,
                [None if v is None else bound.get(v, v) for v in node.inputs],
                {a.name: a for a in self._attributes(node, call, bound)},
                self._scoped(node.name or node.op_type, call),
                {**call.metadata, FUNCTION_KEY: _chain(call, node)},
            )
            made, results = self.instantiate(inner)
            copies += made
            bound.update(zip(node.outputs, results, strict=False))
        return copies

    def _copy(self, node: ir.Node, call: Call, bound: Bindings) -> ir.Node:
        return ir.Node(
            node.domain,
            node.op_type,
            [None if v is None else bound.get(v, v) for v in node.inputs],
            self._attributes(node, call, bound),
            overload=node.overload,
            outputs=[self._copied_value(v, call, bound) for v in node.outputs],
            name=self._scoped(node.name or "", call),
            doc_string=node.doc_string,
            metadata_props={**node.metadata_props, **call.metadata},
        )

    def _copied_value(self, value: ir.Value, call: Call, bound: Bindings) -> ir.Value:
        copy = ir.Value(
            name=self._scoped(value.name or "", call),
            shape=value.shape,
            type=value.type,
            const_value=value.const_value,
            metadata_props=dict(value.metadata_props) or None,
        )
        bound[value] = copy
        return copy

    def _attributes(self, node: ir.Node, call: Call, bound: Bindings) -> list[ir.Attr]:
        found: list[ir.Attr] = []
        for key, attribute in node.attributes.items():
            if attribute.is_ref():
                actual = call.attributes.get(attribute.ref_attr_name or "")
                if actual is not None:  # A parameter left out leaves the attribute out.
                    found.append(self._attribute(key, actual, call, {}))
            else:
                found.append(self._attribute(key, attribute, call, bound))
        return found

    def _attribute(self, key: str, given: ir.Attr, call: Call, bound: Bindings) -> ir.Attr:
        if given.type == ir.AttributeType.GRAPH:
            return ir.AttrGraph(key, self._body(given.as_graph(), call, bound))
        if given.type == ir.AttributeType.GRAPHS:
            return ir.AttrGraphs(key, [self._body(g, call, bound) for g in given.as_graphs()])
        return ir.Attr(key, given.type, given.value)

    def _body(self, graph: ir.Graph, call: Call, bound: Bindings) -> ir.Graph:
        # Only nodes of the graph itself stand in a region; those of a body belong to their node.
        outside = {k: v for k, v in call.metadata.items() if k != REGION_KEY}
        call = replace(call, metadata=outside)
        inner = dict(bound)
        inputs = [self._copied_value(v, call, inner) for v in graph.inputs]
        weights = [
            inner.get(v) or self._copied_value(v, call, inner) for v in graph.initializers.values()
        ]
        nodes = self._copies(graph, call, inner)
        own = {*inputs, *weights, *(value for node in nodes for value in node.outputs)}
        outputs: list[ir.Value] = []
        for value in graph.outputs:
            made = inner[value]
            if made is None or made not in own:
                identity = ir.Node("", "Identity", [made], name="")
                identity.outputs[0].name = self._scoped(value.name or "", call)
                nodes.append(identity)
                made = identity.outputs[0]
            outputs.append(made)
        return ir.Graph(inputs, outputs, nodes=nodes, initializers=weights, name=graph.name)

    def _scoped(self, name: str, call: Call) -> str:
        if not name or not call.scope:
            return name
        scoped = f"{call.scope}/{name}"
        return scoped if len(scoped) <= self.name_length else name

    def _check_opsets(self, function: ir.Function) -> None:
        identifier = identify(function.domain, function.name, function.overload)
        if identifier in self._checked:
            return
        self._checked.add(identifier)
        for domain, version in function.opset_imports.items():
            self.opsets.setdefault(domain, version)
        for node in function.all_nodes():
            if self.called(node) is None:
                self._check_meaning(node, function, identifier)

    def _check_meaning(self, node: ir.Node, function: ir.Function, identifier: Identifier) -> None:
        inside = function.opset_imports.get(node.domain, 0)
        outside = self.opsets.get(node.domain, inside)
        if inside == outside:
            return
        meaning = schemas.since_version(node.op_type, node.domain, inside)
        if meaning is None or meaning != schemas.since_version(node.op_type, node.domain, outside):
            raise UnsupportedModelError(
                f"function '{shown(identifier)}' imports opset {inside} of domain '{node.domain}', "
                f"the model opset {outside}, and {node.op_type} differs between them: export with "
                "one opset"
            )


def _chain(call: Call, node: ir.Node) -> str:
    around = call.metadata.get(FUNCTION_KEY, "")
    return f"{around}/{node.op_type}" if around else node.op_type


def _take_over(old: ir.Value, new: ir.Value) -> None:
    """Makes ``new`` what ``old`` was to its readers: name, type, shape, metadata and uses."""
    new.name = old.name
    new.type = old.type or new.type
    new.shape = old.shape if old.shape is not None else new.shape
    new.metadata_props.update(old.metadata_props)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
