"""Ops that reduce, count or select along axes."""

from __future__ import annotations

from collections.abc import Iterable

from partita.inferring.dims import Dim, Dims, unknown
from partita.inferring.site import Answer, NotInferableError, Rule, Site, axis_of

# fmt: off
_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)
# fmt: on


def without(dims: Dims, axes: Iterable[int], keep: bool) -> Dims:
    """Returns ``dims`` with the given axes at 1, or left out."""
    gone = {axis_of(axis, len(dims)) for axis in axes}
    if keep:
        return tuple(1 if i in gone else dim for i, dim in enumerate(dims))
    return tuple(dim for i, dim in enumerate(dims) if i not in gone)


def _reduce(site: Site) -> Answer:
    keep = site.number("keepdims", 1) == 1
    axes = site.numbers("axes")
    dims = site.dims_if_known(0)
    if axes is None and site.has(1):
        try:
            axes = site.integers(1)
        except NotInferableError:
            return [_some_reduced(site, keep)]
    if not axes:
        if site.number("noop_with_empty_axes", 0) == 1:
            return [dims]
        if dims is None and not keep:
            return [()]
        return [() if not keep else (1,) * len(site.dims(0))]
    return [without(site.dims(0), axes, keep)]


def _some_reduced(site: Site, keep: bool) -> Dims:
    """Returns the rank that is left when it is not known which axes go."""
    dims, count = site.dims(0), site.dims(1)
    if keep:
        return tuple(unknown() for _ in dims)
    # No axes would mean all axes, or none.
    if len(count) != 1 or not isinstance(count[0], int) or count[0] < 1:
        raise NotInferableError
    return tuple(unknown() for _ in range(len(dims) - count[0]))


def _arg(site: Site) -> Answer:
    return [without(site.dims(0), [site.number("axis", 0)], site.number("keepdims", 1) == 1)]


def _top_k(site: Site) -> Answer:
    dims = list(site.dims(0))
    axis = axis_of(site.number("axis", -1), len(dims))
    count: Dim | float | None = site.number("k", 0)
    if site.has(1):
        try:
            (count,) = site.elements(1)
        except NotInferableError:
            count = None
    dims[axis] = unknown() if count is None or isinstance(count, float) else count
    return [tuple(dims)] * 2


def _non_zero(site: Site) -> Answer:
    # A scalar counts as a vector of one element.
    return [(max(len(site.dims(0)), 1), unknown())]


def _unique(site: Site) -> Answer:
    count = unknown()
    if "axis" not in site.node.attributes:
        return [(count,)] * 4
    dims = list(site.dims(0))
    dims[axis_of(site.number("axis", 0), len(dims))] = count
    return [tuple(dims), (count,), (count,), (count,)]


def _compress(site: Site) -> Answer:
    if "axis" not in site.node.attributes:
        return [(unknown(),)]
    dims = list(site.dims(0))
    dims[axis_of(site.number("axis", 0), len(dims))] = unknown()
    return [tuple(dims)]


def _non_max_suppression(site: Site) -> Answer:
    return [(unknown(), 3)]


def _loss(site: Site) -> Answer:
    reduced = site.text("reduction", "mean") != "none"
    probabilities = site.dims_if_known(0)
    if reduced:
        return [(), probabilities]
    return [site.dims(1), probabilities]


def _one_hot(site: Site) -> Answer:
    dims = site.dims(0)
    axis = axis_of(site.number("axis", -1), len(dims) + 1)
    try:
        (depth,) = site.elements(1)
    except NotInferableError:
        depth = None
    size: Dim = int(depth) if isinstance(depth, (int, float)) else depth or unknown()
    return [(*dims[:axis], size, *dims[axis:])]


def _multinomial(site: Site) -> Answer:
    return [(site.dims(0)[0], site.number("sample_size", 1))]


def _determinant(site: Site) -> Answer:
    dims = site.dims(0)
    if len(dims) < 2:
        raise NotInferableError
    return [dims[:-2]]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Compress": _compress,
    "Det": _determinant,
    "Multinomial": _multinomial,
    "NegativeLogLikelihoodLoss": _loss,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "SoftmaxCrossEntropyLoss": _loss,
    "TopK": _top_k,
    "Unique": _unique,
}
