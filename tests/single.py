"""Models of one node, for tests of backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx_ir as ir

from partita.backends.contract import Region
from partita.inferring.stage import infer
from partita.loading.stage import load
from partita.model import Model
from partita.subgraph import cut


def one_node(
    op_type: str,
    opset: int,
    inputs: Sequence[Any],
    outputs: int = 1,
    weights: Sequence[int] = (),
    domain: str = "",
    shapes: dict[int, list[Any]] | None = None,
    **attributes: Any,
) -> Model:
    """Returns a loaded model of one node; inputs ``i{n}`` (those in ``weights`` are initializers).

    Args:
        op_type: The op.
        opset: Version of its domain.
        inputs: An array for each input, ``None`` for a left-out one.
        outputs: How many outputs, ``o{n}``.
        weights: Positions of inputs that are initializers.
        domain: The op's domain.
        shapes: Declared shapes of inputs, where they differ from the arrays' own.
        **attributes: Attributes of the node.
    """
    names = ["" if x is None else f"i{n}" for n, x in enumerate(inputs)]
    given = [(n, x) for n, x in enumerate(inputs) if x is not None]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                op_type,
                names,
                [f"o{n}" for n in range(outputs)],
                "node",
                domain=domain,
                **attributes,
            )
        ],
        "one",
        [
            onnx.helper.make_tensor_value_info(
                f"i{n}", element_type(x), (shapes or {}).get(n, x.shape)
            )
            for n, x in given
            if n not in weights
        ],
        [onnx.ValueInfoProto(name=f"o{n}") for n in range(outputs)],
        [onnx.numpy_helper.from_array(x, f"i{n}") for n, x in given if n in weights],
    )
    imports = [onnx.helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(onnx.helper.make_opsetid("", 17))
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    return infer(load(model), fold=False)


def element_type(array: np.ndarray[Any, Any]) -> int:
    """Returns ONNX's number of an array's dtype."""
    if array.dtype == object:
        return onnx.TensorProto.STRING
    return ir.DataType.from_numpy(array.dtype).value


def region_of(model: Model, backend: str = "mine") -> Region:
    """Returns the whole main graph of a model as one region."""
    sub = cut(model, list(model.graph))
    return Region(
        name=f"{backend}_0",
        backend=backend,
        nodes=tuple(str(n.name) for n in sub.nodes),
        inputs=tuple(str(v.name) for v in sub.inputs),
        outputs=tuple(str(v.name) for v in sub.outputs),
        parameters=tuple(str(v.name) for v in sub.parameters),
        subgraph=sub,
    )


def only_node(model: Model) -> ir.Node:
    """Returns the node of a model of one node."""
    return model.graph[0]


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns float32 numbers drawn by ``seed``."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
