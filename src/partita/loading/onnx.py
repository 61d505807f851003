"""ONNX: from a protobuf message to a flat, sorted model in which everything has its own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from partita.errors import InvalidModelError, LimitError, ModelError, UnsupportedModelError
from partita.loading import regions
from partita.loading.build import Builder
from partita.loading.external import ExternalData
from partita.loading.functions import identify
from partita.loading.inlining import Inliner
from partita.loading.lifting import drop_default_inputs, lift_constants
from partita.loading.limits import Limits
from partita.loading.naming import graphs_outermost_first, make_names_unique
from partita.loading.places import placed
from partita.loading.sorting import find_cycle, stable_order
from partita.loading.tensors import TensorReader
from partita.loading.types import TypeReader
from partita.loading.validate import validate
from partita.model import Model, captures

_FIRST_IR_WITH_SEPARATE_WEIGHTS = 4


def parse(data: bytes | memoryview, file: str) -> onnx.ModelProto:
    """Returns the message that ``data`` encode.

    Raises:
        InvalidModelError: They encode none, or are cut short.
        LimitError: Messages are nested too deeply for protobuf.
    """
    if not len(data):
        raise InvalidModelError("the file is empty", file=file)
    try:
        return onnx.ModelProto.FromString(data)  # pyright: ignore[reportArgumentType]
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise LimitError(
                "its messages are nested deeper than 100, which is about 32 bodies inside each "
                "other; protobuf ends there",
                file=file,
            ) from None
        raise InvalidModelError(
            f"its {len(data):,} bytes are no ONNX model: damaged, cut short or of another format",
            file=file,
        ) from None


def load_proto(
    proto: onnx.ModelProto,
    file: str,
    base_dir: Path | None,
    limits: Limits,
    given: Mapping[str, ir.TensorProtocol] | None = None,
) -> Model:
    """Returns the model of a protobuf message, which is left as it is.

    Args:
        proto: The message.
        file: Where it came from, for messages.
        base_dir: The folder of weights stored beside the model, if it is known.
        limits: Bounds.
        given: Tensors already in memory; see ``skeleton``.

    Raises:
        ModelError: The model is not legal, too large, or cannot be taken.
    """
    structure = validate(proto, file, limits)
    tensors = TensorReader(ExternalData(base_dir), limits, given)
    try:
        built = Builder(file, tensors, TypeReader(limits)).model(proto, structure.opsets)
        normalise(built, structure.in_order, limits)
    except ModelError as error:
        raise placed(error, file) from None
    return Model(built, file)


def normalise(model: ir.Model, in_order: bool, limits: Limits) -> None:
    """Brings a freshly built model into the one form that everything downstream relies on.

    Afterwards regions and functions are gone, weights are no inputs, constants are weights,
    nodes are sorted and carry their opset version, and every name is unique in the model.

    Raises:
        ModelError: A call of a function cannot be resolved.
    """
    if not in_order:
        for graph in _with_functions(model):
            sort(graph)
    if model.functions:
        make_names_unique(model)
    regions.flatten(model, limits.name_length)
    if model.functions:
        _inline(model, limits)
    for index, graph in enumerate(graphs_outermost_first(model.graph)):
        drop_default_inputs(graph, is_body=index > 0)
        lift_constants(graph)
    make_names_unique(model)
    _stamp_versions(model)
    # Older versions want every weight to be an input as well.
    model.ir_version = max(model.ir_version, _FIRST_IR_WITH_SEPARATE_WEIGHTS)


def sort(graph: ir.Graph) -> None:
    """Sorts the nodes of one graph topologically; what is in order stays where it is."""
    nodes = list(graph)
    position = {node: index for index, node in enumerate(nodes)}
    needs: list[list[int]] = []
    for node in nodes:
        makers = [v.producer() for v in (*node.inputs, *captures(node)) if v is not None]
        needs.append([position[maker] for maker in makers if maker in position])
    order = stable_order(needs)
    if len(order) < len(nodes):
        cycle = " -> ".join(str(nodes[i].name) for i in find_cycle(needs, order)[:8])
        raise InvalidModelError(f"the graph has a cycle: {cycle}")
    graph.extend(nodes[index] for index in order)


def _inline(model: ir.Model, limits: Limits) -> None:
    functions = {identify(f.domain, f.name, f.overload): f for f in model.functions.values()}
    own = dict(model.opset_imports)
    inliner = Inliner(functions, model.opset_imports, limits.name_length)
    inliner.expand_graph(model.graph)
    model.functions.clear()
    used = {node.domain for graph in graphs_outermost_first(model.graph) for node in graph}
    for domain in {d for d, _, _ in functions} - used - {""}:
        model.opset_imports.pop(domain, None)
    model.opset_imports.update({d: v for d, v in own.items() if d in used})


def _stamp_versions(model: ir.Model) -> None:
    opsets = model.opset_imports
    for graph in graphs_outermost_first(model.graph):
        for node in graph:
            version = node.version = opsets.get(node.domain)
            if version is None:
                raise UnsupportedModelError(
                    f"is of domain '{node.domain}', which the model does not import",
                    node=node.name,
                )


def _with_functions(model: ir.Model) -> Iterator[ir.Graph]:
    yield from graphs_outermost_first(model.graph)
    for function in model.functions.values():
        yield from graphs_outermost_first(function.graph)
