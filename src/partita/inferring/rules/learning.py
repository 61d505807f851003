"""Classical machine learning (domain ``ai.onnx.ml``): trees, linear models, encoders."""

from __future__ import annotations

import onnx_ir as ir

from partita.inferring.dims import Dim, unknown
from partita.inferring.site import Answer, Known, NotInferableError, Rule, Site

_TEXT, _WHOLE = ir.TensorType(ir.DataType.STRING), ir.TensorType(ir.DataType.INT64)
_VALUES = {
    "values_strings": ir.DataType.STRING,
    "values_int64s": ir.DataType.INT64,
    "values_floats": ir.DataType.FLOAT,
}


def _same(site: Site) -> Answer:
    return [site.dims(0)]


def _rows(site: Site) -> Dim:
    dims = site.dims(0)
    return dims[0] if len(dims) > 1 else 1


def _extracted(site: Site) -> Answer:
    dims, chosen = site.dims(0), site.dims(1)
    if not dims or not chosen:
        raise NotInferableError
    return [(*(dims[:-1] or (1,)), chosen[-1])]


def _classified(site: Site) -> Answer:
    names = ("classlabels_strings", "classlabels_ints", "classlabels_int64s")
    text = bool(site.node.attributes.get(names[0]) and site.node.attributes[names[0]].value)
    return [Known(_TEXT if text else _WHOLE, (_rows(site),)), (_rows(site), unknown())]


def _regressed(name: str) -> Rule:
    def rule(site: Site) -> Answer:
        return [(_rows(site), site.number(name, 1))]

    return rule


def _vectorized(site: Site) -> Answer:
    return [(_rows(site), sum(site.numbers("inputdimensions") or ()))]


def _one_hot(site: Site) -> Answer:
    for name in ("cats_int64s", "cats_strings"):
        attribute = site.node.attributes.get(name)
        if attribute is not None and attribute.value:
            return [(*site.dims(0), len(attribute.value))]
    raise NotInferableError


def _mapped(site: Site) -> Answer:
    """Category ids become names and names become ids."""
    known = site.known(0)
    return [Known(_WHOLE if known.type == _TEXT else _TEXT, known.dims)]


def _labelled(site: Site) -> Answer:
    if "classes_strings" in site.node.attributes:
        return _mapped(site)
    dims = site.dims_if_known(0)
    for name, dtype in _VALUES.items():
        if name in site.node.attributes:
            return [Known(ir.TensorType(dtype), dims)]
    return [Known(ir.TensorType(site.node.attributes["values_tensor"].as_tensor().dtype), dims)]


def _updated(states: int) -> Rule:
    """Returns the rule of an optimiser: tensors, their gradients, then ``states`` of each."""

    def rule(site: Site) -> Answer:
        count = (len(site.node.inputs) - 2) // (2 + states)
        chosen = [*range(2, 2 + count), *range(2 + 2 * count, 2 + (2 + states) * count)]
        return [site.known(index) for index in chosen]

    return rule


TRAINING_RULES: dict[str, Rule] = {
    "Adagrad": _updated(1),
    "Adam": _updated(2),
    "Momentum": _updated(1),
}

RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": _extracted,
    "Binarizer": _same,
    "CategoryMapper": _mapped,
    "FeatureVectorizer": _vectorized,
    "Imputer": _same,
    "LabelEncoder": _labelled,
    "LinearClassifier": _classified,
    "LinearRegressor": _regressed("targets"),
    "Normalizer": _same,
    "OneHotEncoder": _one_hot,
    "SVMClassifier": _classified,
    "SVMRegressor": _regressed("n_targets"),
    "Scaler": _same,
    "TreeEnsemble": _regressed("n_targets"),
    "TreeEnsembleClassifier": _classified,
    "TreeEnsembleRegressor": _regressed("n_targets"),
}
