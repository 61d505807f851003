"""What is known of the values of a model while its shapes are inferred."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import final

import onnx_ir as ir

from partita.inferring import contents
from partita.inferring.dims import LARGEST, Dim, Dims, is_unknown, parse, unknown
from partita.inferring.rules import RULES
from partita.inferring.site import Elements, Known, NotInferableError, Site
from partita.inferring.types import fresh, output_types
from partita.model import bodies

_LOG = logging.getLogger(__name__)
_LARGEST_RANK = 64


@final
class State:
    """Shapes and small contents of the values seen so far.

    Types and shapes are written into the model as they are found. What the file declares is
    remembered apart, so that a body can be looked at twice.

    Attributes:
        dims: The shape of each value; ``None`` if its rank is not known.
        depth: How many bodies are around the graph that is looked at.
    """

    def __init__(self) -> None:
        self.dims: dict[ir.Value, Dims | None] = {}
        self.depth = 0
        self._seen: set[ir.Graph] = set()
        self._elements: dict[ir.Value, Elements] = {}
        self._declared: dict[ir.Value, tuple[ir.TypeProtocol | None, Dims | None]] = {}
        self._shapes: dict[Dims, ir.Shape] = {}
        self._symbols: dict[str, ir.SymbolicDim] = {}
        self._anonymous = ir.SymbolicDim(None)

    def elements(self, value: ir.Value) -> Elements | None:
        """Returns the elements of a small tensor, or ``None``."""
        if value.const_value is not None and value not in self._elements:
            found = contents.constant_elements(value)
            if found is None:
                return None
            self._elements[value] = found
        return self._elements.get(value)

    def infer_graph(self, graph: ir.Graph) -> None:
        """Infers all values of a graph whose inputs are settled."""
        for value in graph.initializers.values():
            if value.const_value is not None:
                self.dims[value] = tuple(value.const_value.shape.numpy())
        for node in graph:
            self._infer_node(node)

    def infer_body(self, graph: ir.Graph, inputs: Sequence[Known | None]) -> list[Known]:
        """Infers a body for given inputs and returns what is known of its outputs."""
        self.depth += 1
        self._seen.add(graph)
        for index, value in enumerate(graph.inputs):
            known = inputs[index] if index < len(inputs) else None
            self._settle(value, known or Known(None, None))
        self.infer_graph(graph)
        self.depth -= 1
        return [Known(value.type, self.dims.get(value)) for value in graph.outputs]

    def settle_inputs(self, values: Iterable[ir.Value]) -> None:
        """Takes what the file declares of the inputs of the main graph as true."""
        for value in values:
            self.dims[value] = _declared_dims(value)

    def _infer_node(self, node: ir.Node) -> None:
        site = Site(node, self)
        types = output_types(node)
        try:
            answer = self._answer(site)
        except NotInferableError:
            answer = ()
        except Exception as error:  # Attributes and shapes may be anything: unknown is legal.
            _LOG.debug("no shape for %s '%s': %r", node.op_type, node.name, error)
            answer = ()
        if not answer and node.attributes:
            self._infer_untouched_bodies(node)
        for index, value in enumerate(node.outputs):
            found = answer[index] if index < len(answer) else None
            kind = types[index]
            if isinstance(found, Known):
                kind, found = found.type, found.dims
            self._settle(value, Known(kind, _checked(found)))
        self._follow(site)

    def _answer(self, site: Site):
        rule = RULES.get((site.node.domain, site.node.op_type))
        return () if rule is None else rule(site)

    def _infer_untouched_bodies(self, node: ir.Node) -> None:
        # A rule that failed may have looked at them: a second look would double at each level.
        for _, graph in bodies(node):
            if graph not in self._seen:
                self.infer_body(graph, ())

    def _follow(self, site: Site) -> None:
        value = site.node.outputs[0] if site.node.outputs else None
        dims = self.dims.get(value) if value is not None else None
        if value is None or dims is None or len(dims) > 1:
            return
        count = dims[0] if dims else 1
        if not isinstance(count, int) or count > contents.MOST_ELEMENTS:
            return
        try:
            found = contents.follow(site)
        except NotInferableError:
            return
        except Exception as error:
            _LOG.debug("no content for '%s': %r", site.node.name, error)
            return
        if found is not None and len(found) == count:
            self._elements[value] = found
        else:
            self._elements.pop(value, None)

    def _settle(self, value: ir.Value, known: Known) -> None:
        """Joins what was inferred with what the file declares, and writes it into the model."""
        declared = self._declared.get(value)
        if declared is None:
            declared = self._declared[value] = (value.type, _declared_dims(value))
        kind = known.type or declared[0]
        if kind != value.type:
            value.type = None if kind is None else fresh(kind)
        dims = _merged(declared[1], known.dims)
        self.dims[value] = dims
        if dims is not None:
            value.shape = self._shape(dims)
        elif value.shape is not None:
            value.shape = None

    def _shape(self, dims: Dims) -> ir.Shape:
        found = self._shapes.get(dims)
        if found is None:
            found = ir.Shape([self._written(dim) for dim in dims], frozen=True)
            self._shapes[dims] = found
        return found

    def _written(self, dim: Dim) -> int | ir.SymbolicDim:
        if isinstance(dim, int):
            return dim
        if is_unknown(dim):
            return self._anonymous
        text = str(dim)
        return self._symbols.setdefault(text, ir.SymbolicDim(text))


def _declared_dims(value: ir.Value) -> Dims | None:
    if value.shape is None:
        return None
    return tuple(
        dim if isinstance(dim, int) else unknown() if dim.value is None else _named(dim.value)
        for dim in value.shape
    )


def _named(name: str) -> Dim:
    dim = parse(name)
    # Some exporters write "-1" or "?" for what they do not know.
    return unknown() if isinstance(dim, int) and dim < 0 else dim


def _merged(declared: Dims | None, inferred: Dims | None) -> Dims | None:
    """Returns what follows from the inputs, and what the file declares where nothing follows.

    Files are edited: where they contradict what follows, it is they that are stale. A formula of
    the inputs is exact, whatever number was true of the exporter's example.
    """
    if declared is None or inferred is None:
        return inferred if declared is None else declared
    if len(declared) != len(inferred):
        return inferred
    return tuple(map(_merged_dim, declared, inferred))


def _merged_dim(declared: Dim, inferred: Dim) -> Dim:
    return declared if is_unknown(inferred) and not is_unknown(declared) else inferred


def _checked(dims: Dims | None) -> Dims | None:
    """Drops a shape that cannot be: negative, too large, or of absurd rank."""
    if dims is None or len(dims) > _LARGEST_RANK:
        return None
    for dim in dims:
        if isinstance(dim, int) and not 0 <= dim <= LARGEST:
            return None
    return dims
