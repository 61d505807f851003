"""Ops that make tensors out of attributes, sizes or text."""

from __future__ import annotations

import math

from partita.inferring.dims import Dim, ceil_divide, subtract, unknown
from partita.inferring.rules.movement import dims_from
from partita.inferring.site import Answer, Element, Known, NotInferableError, Rule, Site


def _constant(site: Site) -> Answer:
    tensor = site.node.outputs[0].const_value
    if tensor is None:
        raise NotInferableError
    return [Known(site.node.outputs[0].type, tuple(tensor.shape.numpy()))]


def _constant_of_shape(site: Site) -> Answer:
    try:
        return [dims_from(site.elements(0))]
    except NotInferableError:
        (length,) = site.dims(0)
        if not isinstance(length, int) or length > 32:
            raise
        return [dims_from([None] * length)]


def _from_shape_attribute(site: Site) -> Answer:
    return [site.numbers("shape")]


def _range(site: Site) -> Answer:
    try:
        (start,), (limit,), (delta,) = (site.elements(i) for i in range(3))
    except NotInferableError:
        return [(unknown(),)]
    return [(range_length(start, limit, delta),)]


def range_length(start: Element, limit: Element, delta: Element) -> Dim:
    """Returns how many numbers lie in ``range(start, limit, delta)``; none counts as 0."""
    if start is None or limit is None or delta is None or delta == 0:
        return unknown()
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return max(-((start - limit) // delta), 0)
    if isinstance(start, (int, float)) and isinstance(limit, (int, float)):
        return _float_length(start, limit, delta) if isinstance(delta, (int, float)) else unknown()
    if isinstance(start, float) or isinstance(limit, float) or isinstance(delta, float):
        return unknown()
    return ceil_divide(subtract(limit, start), delta)


def _float_length(start: float, limit: float, delta: float) -> Dim:
    steps = (limit - start) / delta
    if not math.isfinite(steps):
        return unknown()
    # Engines divide in different precisions; close to a whole number they may disagree.
    if steps != round(steps) and abs(steps - round(steps)) < 1e-5 * max(abs(steps), 1):
        return unknown()
    return max(math.ceil(steps), 0)


def _shape(site: Site) -> Answer:
    dims = site.dims_if_known(0)
    if dims is None:
        return [(unknown(),)]
    start, end = site.number("start", 0), site.number("end", len(dims))
    return [(len(dims[start:end]),)]


def _scalar(site: Site) -> Answer:
    return [()]


def _image_decoder(site: Site) -> Answer:
    channels = 1 if site.text("pixel_format", "RGB") == "Grayscale" else 3
    return [(unknown(), unknown(), channels)]


def _string_normalizer(site: Site) -> Answer:
    return [(*site.dims(0)[:-1], unknown())]


def _string_split(site: Site) -> Answer:
    dims = site.dims(0)
    return [(*dims, unknown()), dims]


def _term_frequencies(site: Site) -> Answer:
    indexes = site.numbers("ngram_indexes") or (-1,)
    return [(*site.dims(0)[:-1], max(indexes) + 1)]


RULES: dict[str, Rule] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "ImageDecoder": _image_decoder,
    "RandomNormal": _from_shape_attribute,
    "RandomUniform": _from_shape_attribute,
    "Range": _range,
    "Shape": _shape,
    "Size": _scalar,
    "StringNormalizer": _string_normalizer,
    "StringSplit": _string_split,
    "TfIdfVectorizer": _term_frequencies,
}
