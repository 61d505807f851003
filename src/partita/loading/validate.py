"""Structural rules of ONNX, checked by partita itself: engines accept cycles and duplicate names.

Names, order, operators, opsets and functions are checked here on the protobuf message, before
anything is built from it; tensors and types are checked where they are built (``tensors``,
``types``). Rules: https://github.com/onnx/onnx/blob/main/docs/IR.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, final

import onnx

from partita.errors import (
    InvalidModelError,
    LimitError,
    ModelError,
    UnsupportedModelError,
    printable,
)
from partita.loading import functions, opsets
from partita.loading.limits import Limits
from partita.loading.nodes import NodeRules
from partita.loading.places import placed
from partita.loading.sorting import find_cycle, stable_order

_SHOWN_ON_A_CYCLE = 8
_SEARCHED_FOR_NEAR_NAMES = 5_000


@final
@dataclass(frozen=True)
class Structure:
    """What the check found out about a legal model.

    Attributes:
        in_order: Whether the nodes of every graph stand in topological order.
        opsets: ``{domain: version}`` that the model imports, the default domain as ``""``.
    """

    in_order: bool
    opsets: Mapping[str, int]


def validate(proto: onnx.ModelProto, file: str, limits: Limits) -> Structure:
    """Checks everything that can be told without looking at tensors and types.

    Raises:
        InvalidModelError: A rule of the format is broken; the message names file, node and value.
        LimitError: The model is larger, deeper or more expanding than ``limits`` allow.
        UnsupportedModelError: It needs a newer ``onnx``.
    """
    try:
        _check_header(proto, limits)
        imported = opsets.imports(proto.opset_import, proto.ir_version)
        called = functions.index(proto.functions)
        calls = functions.Calls()
        rules = NodeRules(imported, called.keys(), None, calls, limits.name_length)
        main = _GraphCheck(file, limits, rules)
        main.check_main(proto.graph)
        in_order = main.in_order
        written: dict[functions.Identifier, functions.Calls] = {}
        known = frozenset(called)
        for identifier, function in called.items():
            check = _function_check(file, limits, identifier, function, known)
            check.check_function(function)
            written[identifier] = check.rules.calls
            in_order &= check.in_order
        functions.check_expansion(calls, written, limits)
    except ModelError as error:
        raise placed(error, file) from None
    return Structure(in_order, imported)


def _check_header(proto: onnx.ModelProto, limits: Limits) -> None:
    if not proto.HasField("graph"):
        raise InvalidModelError("holds no graph: it is empty or no ONNX model")
    if proto.ir_version < 1:
        raise InvalidModelError("has no ir_version: it is damaged or no ONNX model")
    if proto.ir_version > onnx.IR_VERSION:
        raise UnsupportedModelError(
            f"is written in ONNX IR version {proto.ir_version}; the installed onnx "
            f"{onnx.__version__} reads up to {onnx.IR_VERSION}: install a newer onnx"
        )
    if not proto.graph.output:
        raise InvalidModelError("its graph has no outputs: there is nothing to compute")
    limits.check_nodes(len(proto.graph.node) + sum(len(f.node) for f in proto.functions))


def _function_check(
    file: str,
    limits: Limits,
    identifier: functions.Identifier,
    function: onnx.FunctionProto,
    known: frozenset[functions.Identifier],
) -> _GraphCheck:
    where = f"{file}: function '{functions.shown(identifier)}'"
    declared = frozenset([*function.attribute, *(a.name for a in function.attribute_proto)])
    try:
        imported = opsets.imports(function.opset_import, onnx.IR_VERSION)
    except ModelError as error:
        raise placed(error, where) from None
    rules = NodeRules(imported, known, declared, functions.Calls(), limits.name_length)
    return _GraphCheck(where, limits, rules)


@final
class _GraphCheck:
    """Checks one main graph or one function, with all its bodies.

    Recursion follows bodies alone, and ``Limits.body_depth`` bounds it.
    """

    def __init__(self, file: str, limits: Limits, rules: NodeRules) -> None:
        self.file, self.limits, self.rules = file, limits, rules
        self.in_order = True

    def check_main(self, graph: onnx.GraphProto) -> None:
        made, free = self._graph(graph, 0)
        self._refuse_free(free, made)

    def check_function(self, function: onnx.FunctionProto) -> None:
        made = self._declare(function.input, (), function.node)
        free = self._nodes(function.node, made, 0)
        self._refuse_free(free, made)
        self._check_outputs(function.output, made, is_body=False)

    def _graph(
        self, graph: onnx.GraphProto, depth: int
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Returns who makes each name here, and who reads the names that nobody makes here."""
        if depth > self.limits.body_depth:
            raise LimitError(
                f"bodies are nested deeper than {self.limits.body_depth} (Limits.body_depth)",
                file=self.file,
            )
        stored = [t.name for t in graph.initializer]
        stored += [t.values.name for t in graph.sparse_initializer]
        made = self._declare([v.name for v in graph.input], stored, graph.node)
        free = self._nodes(graph.node, made, depth)
        self._check_outputs([v.name for v in graph.output], made, is_body=depth > 0)
        return made, free

    def _declare(
        self, inputs: Iterable[str], stored: Iterable[str], nodes: Iterable[onnx.NodeProto]
    ) -> dict[str, int]:
        made: dict[str, int] = {}
        for name in inputs:
            self._check_name(name, "a graph input")
            if name in made:
                self._refuse("two graph inputs have this name", value=name)
            made[name] = -1
        weights: set[str] = set()
        for name in stored:
            self._check_name(name, "a weight")
            if name in weights:
                self._refuse("two weights have this name", value=name)
            weights.add(name)
            made[name] = -1
        longest = self.limits.name_length
        for index, node in enumerate(nodes):
            for name in node.output:
                if name.__class__ is not str or len(name) > longest:
                    self._check_name(name, "an output", _label(node, index))
                if name in made:
                    self._refuse_second_maker(name, _label(node, index), made[name], nodes)
                if name:
                    made[name] = index
        return made

    def _nodes(
        self, nodes: Sequence[onnx.NodeProto], made: Mapping[str, int], depth: int
    ) -> dict[str, str]:
        free: dict[str, str] = {}
        captured: dict[int, Iterable[str]] = {}
        forward = False
        self.rules.calls.nodes += len(nodes)
        self.limits.check_nodes(self.rules.calls.nodes)
        for index, node in enumerate(nodes):
            fault = self.rules.why_illegal(node)
            if fault is not None:
                self._refuse(fault, node=_label(node, index))
            reads: Iterable[str] = node.input
            if node.attribute:
                captured[index] = self._bodies(node, index, depth)
                reads = (*reads, *captured[index])
            for name in reads:
                maker = made.get(name)
                if maker is None:
                    if name:
                        free.setdefault(name, _label(node, index))
                elif maker >= index:
                    forward = True
        if forward:
            self._check_acyclic(nodes, made, captured)
        return free

    def _bodies(self, node: onnx.NodeProto, index: int, depth: int) -> Mapping[str, str]:
        free: dict[str, str] = {}
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            for graph in (*graphs, *attribute.graphs):
                if not graph.output:
                    self._refuse(f"body '{attribute.name}' has no outputs", _label(node, index))
                free.update(self._graph(graph, depth + 1)[1])
        return free

    def _check_outputs(self, names: Iterable[str], made: Mapping[str, int], is_body: bool) -> None:
        for name in names:
            self._check_name(name, "a graph output")
            if name in made:
                continue
            hint = "; a body returns an outer value through an Identity node"
            if not is_body:
                hint = _near(name, made)
            self._refuse(f"is an output of the graph, but nothing there makes it{hint}", value=name)

    def _check_acyclic(
        self,
        nodes: Sequence[onnx.NodeProto],
        made: Mapping[str, int],
        captured: Mapping[int, Iterable[str]],
    ) -> None:
        self.in_order = False
        needs: list[list[int]] = []
        for index, node in enumerate(nodes):
            reads = (*node.input, *captured.get(index, ()))
            needs.append([maker for name in reads if (maker := made.get(name, -1)) >= 0])
        order = stable_order(needs)
        if len(order) == len(needs):
            return
        cycle = find_cycle(needs, order)
        labels = [f"'{printable(_label(nodes[i], i))}'" for i in cycle]
        if len(cycle) > _SHOWN_ON_A_CYCLE:
            labels[_SHOWN_ON_A_CYCLE:] = [f"… ({len(cycle):,} nodes in all)"]
        self._refuse(f"the graph has a cycle: {' -> '.join([*labels, labels[0]])}")

    def _check_name(self, name: str, what: str, node: str | None = None) -> None:
        if name.__class__ is not str:
            self._refuse(f"the name of {what} is not UTF-8: {name!r:.60}", node)
        if not name and node is None:
            self._refuse(f"{what} has no name")
        if len(name) > self.limits.name_length:
            raise LimitError(
                f"the name of {what} has {len(name):,} characters; at most "
                f"{self.limits.name_length:,} are taken (Limits.name_length)",
                file=self.file,
                node=node,
            )

    def _refuse_second_maker(
        self, name: str, node: str, first: int, nodes: Iterable[onnx.NodeProto]
    ) -> NoReturn:
        owner = "a graph input or weight"
        if first >= 0:
            owner = f"node '{printable(_label(list(nodes)[first], first))}'"
        self._refuse(f"is made a second time; {owner} has this name already", node, name)

    def _refuse_free(self, free: Mapping[str, str], made: Mapping[str, int]) -> None:
        for name, reader in free.items():
            self._check_name(name, "an input", reader)
            self._refuse(
                f"is read, but no node, input or weight has this name{_near(name, made)}",
                reader,
                name,
            )

    def _refuse(self, message: str, node: str | None = None, value: str | None = None) -> NoReturn:
        raise InvalidModelError(message, file=self.file, node=node, value=value)


def _label(node: onnx.NodeProto, index: int) -> str:
    name = node.name if node.name.__class__ is str else ""
    return name or f"{node.op_type}_{index}"


def _near(name: str, made: Mapping[str, int]) -> str:
    if len(made) > _SEARCHED_FOR_NEAR_NAMES or len(name) > 200:
        return ""
    close = difflib.get_close_matches(name, made, n=3, cutoff=0.75)
    return f"; near: {', '.join(printable(c) for c in close)}" if close else ""
