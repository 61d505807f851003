# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Which nodes OpenVINO can run: asked of its ONNX frontend and its device plugin, not guessed.

All nodes that differ are put side by side into one model, each with inputs of its own; the frontend
converts what it can, and ``query_model`` answers for the rest at once. No weight is copied: large
ones stand in as inputs of their shape. What comes back is traced from each node's outputs to its
inputs, so that an answer belongs to exactly one node however many operations it became.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, final

import onnx_ir as ir

from partita.backends import openvino_limits
from partita.backends.openvino_integers import Smallness
from partita.backends.value_types import type_string
from partita.errors import printable
from partita.model import bodies, captures, content

SMALL_WEIGHT_ELEMENTS = 1024
"""Weights up to this size are shown to the frontend: it wants many of them as constants."""
BATCH = 2000
"""Nodes a query; a larger query takes no less time a node."""
Key = tuple[Any, ...]


@final
class Claims:
    """Answers "why can't you run this node?"; answers are remembered by what they depend on."""

    def __init__(self, core: Any, device: str, config: dict[str, str]) -> None:
        self._core, self._device, self._config = core, device, config
        self._known: dict[Key, str | None] = {}

    def ask(self, nodes: Iterable[ir.Node], smallness: Smallness) -> None:
        """Asks about all nodes whose answer is not known yet, in as few queries as possible."""
        new: dict[Key, ir.Node] = {}
        for node in nodes:
            if openvino_limits.why_not(node, smallness) is None:
                key = _key(node)
                if key not in self._known:
                    new.setdefault(key, node)
        pending = list(new.items())
        for start in range(0, len(pending), BATCH):
            self._query(pending[start : start + BATCH])

    def why_not(self, node: ir.Node, smallness: Smallness) -> str | None:
        """Returns ``None``, or the sentence that says why ``node`` cannot be run."""
        refusal = openvino_limits.why_not(node, smallness)
        if refusal is not None:
            return refusal
        key = _key(node)
        if key not in self._known:
            self._query([(key, node)])
        return self._known[key]

    def _query(self, asked: Sequence[tuple[Key, ir.Node]]) -> None:
        try:
            answers = self._answers([node for _, node in asked])
        except (
            Exception
        ) as error:  # the frontend's exceptions derive from Exception or RuntimeError
            if len(asked) == 1:
                key, node = asked[0]
                self._known[key] = _refusal(node, error)
                return
            # One node can spoil a query; halving finds it.
            self._query(asked[: len(asked) // 2])
            self._query(asked[len(asked) // 2 :])
            return
        for (key, node), runs in zip(asked, answers, strict=True):
            self._known[key] = None if runs else self._reason(node)

    def _answers(self, nodes: Sequence[ir.Node]) -> list[bool]:
        frontend = _frontend()
        whole = io.BytesIO(_side_by_side(nodes))
        model = frontend.convert_partially(frontend.load(whole))
        supported = self._core.query_model(model, self._device, self._config)
        made: dict[int, list[Any]] = {}
        for result in model.get_results():
            producer = result.input_value(0)
            number = min(int(n.partition("|")[0]) for n in producer.get_names() if "|" in n)
            made.setdefault(number, []).append(producer.get_node())
        return [
            i in made and all(_runs(part, supported) for part in _parts(made[i]))
            for i in range(len(nodes))
        ]

    def _reason(self, node: ir.Node) -> str:
        """Asks again about one node, for the frontend's own words."""
        frontend = _frontend()
        try:
            model = frontend.convert(frontend.load(io.BytesIO(_side_by_side([node]))))
            self._core.query_model(model, self._device, self._config)
        except Exception as error:  # see _query
            return _refusal(node, error)
        return f"OpenVINO's {self._device} plugin has no kernel for {node.op_type}"


def _refusal(node: ir.Node, error: Exception) -> str:
    if "No conversion rule found" in str(error):
        return f"OpenVINO has no conversion for {node.op_type}"
    return f"OpenVINO refuses {node.op_type}: {shortened(str(error))}"


def _frontend() -> Any:
    from openvino.frontend import FrontEndManager

    return FrontEndManager().load_by_framework("onnx")


def _runs(part: Any, supported: dict[str, str]) -> bool:
    return part.get_type_name() != "NotSupportedONNXNode" and part.get_friendly_name() in supported


def _parts(outputs: Sequence[Any]) -> list[Any]:
    """Returns every operation between some outputs and the inputs of the model."""
    seen: dict[str, Any] = {}
    stack = list(outputs)
    while stack:
        part = stack.pop()
        name = part.get_friendly_name()
        if name not in seen:
            seen[name] = part
            stack.extend(source.get_node() for source in part.input_values())
    return list(seen.values())


def _key(node: ir.Node) -> Key:
    """Returns what the answer for a node depends on."""
    read = (*node.inputs, *captures(node)) if any(True for _ in bodies(node)) else node.inputs
    return (
        node.domain,
        node.op_type,
        node.version,
        tuple(_value_key(v) for v in read),
        tuple(bool(v.name) for v in node.outputs),
        tuple((k, _attribute_key(a)) for k, a in sorted(node.attributes.items())),
    )


def _value_key(value: ir.Value | None) -> object:
    if value is None:
        return None
    tensor = value.const_value
    shape = None if value.shape is None else tuple(str(d) for d in value.shape)
    if tensor is not None and tensor.size <= SMALL_WEIGHT_ELEMENTS:
        return type_string(value), shape, bytes(content(tensor))
    return type_string(value), shape


def _attribute_key(attribute: ir.Attr) -> object:
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return id(attribute.value)
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return bytes(content(tensor)), tensor.dtype, str(tensor.shape)
    value: Any = attribute.value
    return tuple(value) if isinstance(value, (list, tuple)) else str(value)


def _side_by_side(nodes: Sequence[ir.Node]) -> bytes:
    """Returns one ONNX model with every node on its own; names start with its number and ``|``."""
    inputs: list[ir.Value] = []
    outputs: list[ir.Value] = []
    weights: list[ir.Value] = []
    copies: list[ir.Node] = []
    opsets: dict[str, int] = {}
    for number, node in enumerate(nodes):
        alone = _alone(node)
        copy, fed, made = alone[0], list(alone.inputs), list(alone.outputs)
        held = list(alone.initializers.values())
        for owned in (alone.inputs, alone.outputs, alone.initializers):
            owned.clear()
        alone.remove(copy)
        copy.name = f"{number}|"
        for value in (*fed, *made, *held):
            value.name = f"{number}|{value.name}"
        inputs.extend(fed)
        outputs.extend(made)
        weights.extend(held)
        copies.append(copy)
        opsets[node.domain] = node.version or 1
    whole = ir.Graph(
        inputs, outputs, nodes=copies, initializers=weights, opset_imports=opsets, name="asked"
    )
    return ir.to_proto(ir.Model(whole, ir_version=10)).SerializeToString()


def _alone(node: ir.Node) -> ir.Graph:
    read = dict.fromkeys(v for v in (*node.inputs, *captures(node)) if v is not None)
    weights = [v for v in read if _shown(v)]
    view = ir.GraphView(
        [v for v in read if not _shown(v)],
        [v for v in node.outputs if v.name],
        nodes=[node],
        initializers=weights,
    )
    graph = view.clone()
    for value in graph.inputs:
        value.const_value = None
    return graph


def _shown(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.size <= SMALL_WEIGHT_ELEMENTS


_NO_REASON = re.compile(
    r"(Exception from|Check '.*' failed at|FrontEnd API|Model wasn't|Summary|-- \S+ with a message"
    r"|While validating|To facilitate)"
)


def shortened(message: str) -> str:
    """Returns the part of an OpenVINO message that says what is wrong, in one line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if not _NO_REASON.match(line)]
    text = re.sub(r"<Node\((\w+)\)[^>]*>", r"\1", told[0] if told else "no reason given")
    return printable(text.removeprefix("-- ").rstrip("."), 200)
