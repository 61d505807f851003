"""The model: a graph with its weights, held as ``onnx_ir.Model``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import onnx_ir as ir

from partita.files import replacing

if TYPE_CHECKING:
    from partita.partitioning.plan import Plan
    from partita.running.program import Program

INLINE_WEIGHTS_LIMIT = 1_500_000_000
"""Bytes of weights above which ``save`` puts them beside the model (protobuf ends at 2 GiB)."""


@final
class Model:
    """A neural network: an ``onnx_ir.Model`` whose nodes and values all have unique names.

    ``partita.load`` makes it. Nothing in partita edits it afterwards: partitioning,
    outlining and compiling return new records.

    Attributes:
        ir: The graph, its weights and its model-local functions.
        source: Where it came from, for messages: a path, or ``"<bytes>"``, ``"<torch module>"`` …
    """

    def __init__(self, ir_model: ir.Model, source: str = "<model>") -> None:
        self.ir = ir_model
        self.source = source

    def __repr__(self) -> str:
        return (
            f"Model({self.source!r}, {sum(len(g) for _, g in self.graphs())} nodes, "
            f"{len(self.parameters)} parameters, opset {self.opset})"
        )

    @property
    def graph(self) -> ir.Graph:
        """The main graph."""
        return self.ir.graph

    @property
    def opset(self) -> int:
        """The version of the default ONNX operator set that the model imports (0: none)."""
        return self.ir.opset_imports.get("", 0)

    @property
    def parameters(self) -> Mapping[str, ir.Value]:
        """The weights of the main graph by their original names."""
        return self.ir.graph.initializers

    @property
    def inputs(self) -> tuple[ir.Value, ...]:
        """What a caller feeds: graph inputs that are not merely defaults for parameters."""
        initializers = self.ir.graph.initializers
        return tuple(v for v in self.ir.graph.inputs if v.name not in initializers)

    @property
    def outputs(self) -> tuple[ir.Value, ...]:
        """What a run returns, in graph order."""
        return tuple(self.ir.graph.outputs)

    def graphs(self) -> Iterator[tuple[str, ir.Graph]]:
        """Yields ``(path, graph)`` for the main graph (path ``""``) and every nested body.

        A body's path is ``"<node name>.<attribute>"``; node names are unique in the whole model.
        """
        stack: list[tuple[str, ir.Graph]] = [("", self.ir.graph)]
        while stack:
            path, graph = stack.pop()
            yield path, graph
            for node in graph:
                if node.attributes:
                    stack.extend(bodies(node))

    @cached_property
    def hash(self) -> str:
        """SHA-256 (hex) over structure, names, attributes and weights; not over documentation."""
        digest = hashlib.sha256()
        for path, graph in sorted(self.graphs(), key=lambda item: item[0]):
            _hash_graph(digest, path, graph)
        for domain, version in sorted(self.ir.opset_imports.items()):
            digest.update(f"{domain}={version};".encode())
        return digest.hexdigest()

    def save(self, path: str | Path) -> Path:
        """Writes the model as an ONNX file, whole or not at all.

        Weights over 1.5 GB in all are written beside it as ``<name>.data``.

        Returns:
            The path written.
        """
        target = Path(path)
        size = sum(v.const_value.nbytes for v in self.parameters.values() if v.const_value)
        if size <= INLINE_WEIGHTS_LIMIT:
            with replacing(target) as temporary:
                ir.save(self.ir, temporary)  # pyright: ignore[reportUnknownMemberType]
            return target
        # The data file is referred to by its final name, so it is written under that name.
        ir.save(  # pyright: ignore[reportUnknownMemberType]
            self.ir, target, external_data=f"{target.name}.data"
        )
        return target

    def partition(self, backends: Any = None, **rules: Any) -> Plan:
        """The same as :func:`partita.partition` of this model."""
        from partita import verbs

        return verbs.partition(self, backends, **rules)

    def compile(self, backends: Any = None, **options: Any) -> Program:
        """The same as :func:`partita.compile` of this model."""
        from partita import verbs

        return verbs.compile(self, backends, **options)

    def optimize_for(self, backend: Any, **rules: Any) -> Program:
        """Partitions for one backend (host for the rest) and compiles, in one call."""
        from partita import verbs

        return verbs.optimize_for(self, backend, **rules)


def bodies(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """Yields ``(path, graph)`` of the bodies that a node carries (``If``, ``Loop``, ``Scan`` …)."""
    for key, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.GRAPH:
            yield f"{node.name}.{key}", attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            for i, graph in enumerate(attribute.as_graphs()):
                yield f"{node.name}.{key}.{i}", graph


def captures(node: ir.Node) -> tuple[ir.Value, ...]:
    """Returns the outer values that the bodies of ``node`` read, in order of first use.

    They count as inputs of the node: a plan that forgot them would cut through them.
    """
    if not any(
        a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for a in node.attributes.values()
    ):
        return ()
    own: set[ir.Value] = set()
    read: dict[ir.Value, None] = {}
    stack = [graph for _, graph in bodies(node)]
    while stack:
        graph = stack.pop()
        own.update(graph.inputs, graph.initializers.values())
        for inner in graph:
            own.update(inner.outputs)
            read.update((v, None) for v in inner.inputs if v is not None)
            stack.extend(g for _, g in bodies(inner))
        read.update((v, None) for v in graph.outputs)
    return tuple(v for v in read if v not in own)


def _hash_graph(digest: Any, path: str, graph: ir.Graph) -> None:
    digest.update(f"graph {path}({_names(graph.inputs)})->({_names(graph.outputs)})\n".encode())
    for node in graph:
        attributes = ",".join(f"{k}={_stable(a)}" for k, a in sorted(node.attributes.items()))
        digest.update(
            f"{node.domain}:{node.op_type}:{node.name}({_names(node.inputs)})"
            f"->({_names(node.outputs)})[{attributes}]\n".encode()
        )
    for name, value in sorted(graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None:
            digest.update(f"{name}:{tensor.dtype}:{tensor.shape}\n".encode())
            digest.update(content(tensor))


def content(tensor: ir.TensorProtocol) -> bytes | memoryview:
    """Returns the bytes of a tensor, also of a string tensor (joined by NUL)."""
    if tensor.dtype == ir.DataType.STRING:
        return b"\0".join(bytes(s) for s in tensor.numpy().flatten().tolist())
    return tensor.tobytes()


def _names(values: Any) -> str:
    return ",".join("" if v is None else str(v.name) for v in values)


def _stable(attribute: ir.Attr) -> str:
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return "graph"
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor.dtype}{tensor.shape}{hashlib.sha256(content(tensor)).hexdigest()}"
    return repr(attribute.value)
