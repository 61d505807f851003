"""Constants become weights: one form for what does not change."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from partita.errors import InvalidModelError


def drop_default_inputs(graph: ir.Graph, is_body: bool) -> None:
    """Makes the inputs of a graph and its weights disjoint.

    In the main graph, a weight that could be fed becomes a constant (files before IR version 4
    list all weights as inputs). A body is always fed, so there the default is what goes.
    """
    both = [value for value in graph.inputs if value.is_initializer()]
    if not both:
        return
    if is_body:
        for value in both:
            graph.initializers.pop(str(value.name))
            value.const_value = None
        return
    dropped = set(both)
    kept = [value for value in graph.inputs if value not in dropped]
    graph.inputs.clear()
    graph.inputs.extend(kept)


def lift_constants(graph: ir.Graph) -> None:
    """Turns the ``Constant`` nodes of a graph into weights of that graph with the same names.

    A constant that is an output of the graph stays a node: an output has to be computed.
    """
    lifted: list[ir.Node] = []
    for node in graph:
        if node.op_type != "Constant" or node.domain != "":
            continue
        old = node.outputs[0]
        tensor = constant_tensor(node)
        if old.is_graph_output():
            old.const_value = tensor
            old.type, old.shape = ir.TensorType(tensor.dtype), _shape(tensor)
            continue
        lifted.append(node)
        if not old.name or not old.uses():
            continue
        weight = ir.Value(
            name=old.name,
            const_value=tensor,
            type=ir.TensorType(tensor.dtype),
            shape=_shape(tensor),
            metadata_props=dict(old.metadata_props) or None,
        )
        old.replace_all_uses_with(weight)
        add_weight(graph, weight)
    graph.remove(lifted)


def add_weight(graph: ir.Graph, weight: ir.Value) -> None:
    """Adds a weight to a graph; if its name is taken there, it gets another."""
    name, number = str(weight.name), 0
    while weight.name in graph.initializers:
        number += 1
        tensor, weight.const_value = weight.const_value, None
        weight.name = f"{name}_{number}"
        weight.const_value = tensor
    graph.initializers.add(weight)


def constant_tensor(node: ir.Node) -> ir.TensorProtocol:
    """Returns what a ``Constant`` node holds, whichever of its attributes holds it.

    Raises:
        InvalidModelError: It holds nothing, or more than one thing.
    """
    if len(node.attributes) != 1:
        raise InvalidModelError(
            f"a Constant holds exactly one value; this one has the attributes "
            f"{sorted(node.attributes)}",
            node=node.name,
        )
    (attribute,) = node.attributes.values()
    match attribute.name:
        case "value":
            return attribute.as_tensor()
        case "value_float":
            return ir.Tensor(np.array(attribute.as_float(), np.float32))
        case "value_floats":
            return ir.Tensor(np.array(attribute.as_floats(), np.float32))
        case "value_int":
            return ir.Tensor(np.array(attribute.as_int(), np.int64))
        case "value_ints":
            return ir.Tensor(np.array(attribute.as_ints(), np.int64))
        case "value_string":
            return ir.StringTensor([attribute.as_string().encode()], shape=ir.Shape([]))
        case "value_strings":
            texts = [text.encode() for text in attribute.as_strings()]
            return ir.StringTensor(texts, shape=ir.Shape([len(texts)]))
        case other:
            raise InvalidModelError(f"a Constant has no attribute '{other}'", node=node.name)


def _shape(tensor: ir.TensorProtocol) -> ir.Shape:
    return ir.Shape(tensor.shape.numpy(), frozen=True)
