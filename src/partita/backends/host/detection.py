"""``NonMaxSuppression`` in numpy.

The reference evaluator wants its limits in one dimension, and keeps state in its object, so that
two threads would disturb each other.

Source: https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partita.backends.contract import Array, Node
from partita.backends.host.elementwise import quiet
from partita.backends.kernels import KernelTable


def register(table: KernelTable) -> None:
    """Adds the rows of this module to a table."""
    table.kernel("NonMaxSuppression", dtypes=("float32",))(_suppress)


def _suppress(node: Node) -> Callable[..., Any]:
    centred = bool(node.attributes.get_int("center_point_box", 0))

    def run(
        boxes: Array,
        scores: Array,
        limit: Array | None = None,
        overlap: Array | None = None,
        threshold: Array | None = None,
    ) -> Array:
        most = 0 if limit is None else int(limit.item())
        allowed = np.float32(0 if overlap is None else overlap.item())
        selected: list[tuple[int, int, int]] = []
        for batch, corners in enumerate(_corners(boxes, centred)):
            for label, row in enumerate(scores[batch]):
                chosen = _candidates(row, threshold)
                kept = _greedy(corners, chosen, allowed, most)
                selected += [(batch, label, box) for box in kept]
        return np.array(selected, np.int64).reshape(-1, 3)

    return quiet(run)


def _corners(boxes: Array, centred: bool) -> Array:
    """Returns boxes as (least y, least x, greatest y, greatest x)."""
    if centred:
        x, y, width, height = (boxes[..., i] for i in range(4))
        first = np.stack([y - height / 2, x - width / 2], -1)
        last = np.stack([y + height / 2, x + width / 2], -1)
    else:
        first, last = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, last), np.maximum(first, last)], -1)


def _candidates(scores: Array, threshold: Array | None) -> Array:
    """Returns the boxes above the threshold, best first; equal ones in their own order."""
    order = np.argsort(-scores, kind="stable")
    return order if threshold is None else order[scores[order] > threshold.item()]


def _greedy(corners: Array, candidates: Array, allowed: np.float32, most: int) -> list[int]:
    kept: list[int] = []
    area = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    while candidates.size and len(kept) < most:
        best, rest = int(candidates[0]), candidates[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[rest, :2])
        high = np.minimum(corners[best, 2:], corners[rest, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[best] + area[rest] - shared
        overlaps = (area[best] > 0) & (area[rest] > 0) & (union > 0) & (shared / union > allowed)
        candidates = rest[~overlaps]
    return kept
