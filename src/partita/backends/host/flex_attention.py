# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false
"""``FlexAttention``: attention whose scores and probabilities pass through bodies.

Source: https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Call, Node

Run = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""Takes a body's inputs and the captures of its node."""


def flex_attention(node: Node, runners: Mapping[str, Run]) -> Call:
    """Returns the call of a ``FlexAttention`` with bodies ``score_mod`` and ``prob_mod``."""
    given = len(node.inputs)
    scale = node.attributes.get_float("scale")
    wanted = node.attributes.get_int("softmax_precision")
    score, probability = runners.get("score_mod"), runners.get("prob_mod")

    def call(*values: Any) -> Sequence[Array]:
        query, key, content = values[:3]
        captured = values[given:]
        with np.errstate(all="ignore"):
            repeats = query.shape[1] // key.shape[1]
            key, content = (np.repeat(x, repeats, axis=1) for x in (key, content))
            factor = 1.0 / np.sqrt(query.shape[-1]) if scale is None else scale
            root = np.array(np.sqrt(np.float32(factor)), query.dtype)
            scores = np.matmul(query * root, np.swapaxes(key * root, -1, -2))
            scores = scores.astype(_precision(query.dtype, wanted))
            if score is not None:
                scores = np.asarray(score([scores], captured)[0], scores.dtype)
            raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights = raised / raised.sum(axis=-1, keepdims=True)
            if probability is not None:
                weights = np.asarray(probability([weights], captured)[0], weights.dtype)
            return (np.matmul(weights, content.astype(weights.dtype)).astype(content.dtype),)

    return call


def _precision(dtype: np.dtype[Any], wanted: int | None) -> np.dtype[Any]:
    if wanted is not None:
        return ir.DataType(wanted).numpy()
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
