"""A partitioned model becomes flat again; its nodes remember the region they stood in.

In a partitioned model a region is a model-local function of domain ``partita``, named like the
region and called by one node. Its inputs and outputs have the names of the original values, and
weights stand in it as ``Constant`` nodes under their original names, maybe in several regions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from partita.errors import InvalidModelError, printable
from partita.loading.functions import identify
from partita.loading.inlining import REGION_KEY, Call, Inliner
from partita.loading.lifting import constant_tensor
from partita.model import bodies, content

DOMAIN = "partita"
REGIONS_KEY = "partita.regions"
"""Metadata of a model: JSON ``{region: {backend, strategy, attributes, precision}}``."""


def flatten(model: ir.Model, name_length: int = 10_000) -> None:
    """Puts the nodes of all regions back in place, marks them and describes the regions.

    The model is edited. Nodes get ``metadata_props["partita.region"]``, the model
    ``metadata_props["partita.regions"]``. A model without regions stays as it is.

    Raises:
        InvalidModelError: A call does not fit its region, a region is called twice, or its
            description is damaged.
    """
    functions = {
        identify(f.domain, f.name, f.overload): f
        for f in model.functions.values()
        if f.domain == DOMAIN
    }
    if not functions:
        return
    inliner = Inliner(functions, model.opset_imports, name_length)
    found: dict[str, Mapping[str, Any]] = {}
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        _flatten_graph(graph, inliner, model.graph, found)
        waiting.extend(body for node in graph for _, body in bodies(node))
    for function in functions.values():
        del model.functions[function.identifier()]
    model.opset_imports.pop(DOMAIN, None)
    model.metadata_props[REGIONS_KEY] = json.dumps(found, sort_keys=True)


def describe(model: ir.Model) -> Mapping[str, Mapping[str, Any]]:
    """Returns what a flat model says of its regions: ``{region: {backend, strategy, …}}``.

    Raises:
        InvalidModelError: The description is damaged.
    """
    text = model.metadata_props.get(REGIONS_KEY)
    if text is None:
        return {}
    regions = _json(text, REGIONS_KEY)
    if not all(isinstance(entry, dict) for entry in regions.values()):
        raise InvalidModelError(f"its metadata '{REGIONS_KEY}' describe a region by no JSON object")
    return regions


def _flatten_graph(
    graph: ir.Graph, inliner: Inliner, main: ir.Graph, found: dict[str, Mapping[str, Any]]
) -> None:
    expanded: list[ir.Node] = []
    calls: list[ir.Node] = []
    for node in graph:
        function = inliner.called(node)
        if function is None:
            expanded.append(node)
            continue
        region = function.name
        if region in found:
            raise InvalidModelError(
                f"region '{printable(region)}' is called a second time; a region stands in one "
                "place",
                node=node.name,
            )
        found[region] = _description(function)
        calls.append(node)
        call = Call(function, node.inputs, {}, "", {REGION_KEY: region})
        made = inliner.splice(node, call)
        expanded += [inner for inner in made if not _becomes_weight(inner, main)]
    if calls:
        graph.remove(calls)
        graph.extend(expanded)


def _becomes_weight(node: ir.Node, main: ir.Graph) -> bool:
    """Puts a weight that travelled as a ``Constant`` back among the weights, once."""
    if node.op_type != "Constant" or node.domain != "" or node.outputs[0].is_graph_output():
        return False
    old, tensor = node.outputs[0], constant_tensor(node)
    known = main.initializers.get(str(old.name))
    if known is None:
        known = ir.Value(
            name=old.name,
            const_value=tensor,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy(), frozen=True),
        )
        main.initializers.add(known)
    elif known.const_value is None or not _equal(known.const_value, tensor):
        return False
    old.replace_all_uses_with(known)
    return True


def _equal(one: ir.TensorProtocol, other: ir.TensorProtocol) -> bool:
    return (
        one.dtype == other.dtype
        and list(one.shape) == list(other.shape)
        and bytes(content(one)) == bytes(content(other))
    )


def _description(function: ir.Function) -> Mapping[str, Any]:
    metadata = function.metadata_props
    backend = metadata.get("partita.backend")
    if not backend:
        raise InvalidModelError(
            f"function '{DOMAIN}::{printable(function.name)}' does not name its backend: its "
            "metadata need 'partita.backend'"
        )
    return {
        "backend": backend,
        "strategy": metadata.get("partita.strategy", ""),
        "attributes": _json(metadata.get("partita.attributes", "{}"), "partita.attributes"),
        "precision": metadata.get("partita.precision", "float32"),
    }


def _json(text: str, key: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidModelError(f"metadata '{key}' is no JSON object: {printable(text, 60)}")
    return found  # pyright: ignore[reportUnknownVariableType]
