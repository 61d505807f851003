"""Ops whose output has the shape of an input, or the shape that inputs broadcast to."""

from __future__ import annotations

from partita.inferring.dims import Dims, broadcast_shapes
from partita.inferring.site import Answer, NotInferableError, Rule, Site, axis_of

_FIRST_BROADCASTING_OPSET = 7
# fmt: off
_SAME = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Bernoulli", "BitCast",
    "BitwiseNot", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "CumProd",
    "CumSum", "DequantizeLinear", "Elu", "Erf", "Exp", "EyeLike", "Floor", "Gelu",
    "GroupNormalization", "HardSigmoid", "HardSwish", "Hardmax", "InstanceNormalization",
    "IsInf", "IsNaN", "LRN", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization",
    "MeanVarianceNormalization", "Mish", "Neg", "Not", "PRelu", "QuantizeLinear",
    "RMSNormalization", "RandomNormalLike", "RandomUniformLike", "Reciprocal", "RegexFullMatch",
    "Relu", "ReverseSequence", "RotaryEmbedding", "Round", "Scatter", "ScatterElements",
    "ScatterND", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus",
    "Softsign", "Sqrt", "SwiGLU", "Swish", "Tan", "Tanh", "TensorScatter", "ThresholdedRelu",
    "Trilu",
)
_BROADCAST = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul",
    "Or", "Pow", "StringConcat", "Sub", "Sum", "Where", "Xor",
)
# fmt: on


def _same(site: Site) -> Answer:
    return [site.dims(0)]


def _same_known(site: Site) -> Answer:
    return [site.known(0)]


def _broadcast(site: Site) -> Answer:
    if site.opset < _FIRST_BROADCASTING_OPSET and len(site.node.inputs) == 2:
        return [site.dims(0)]
    return [broadcast_shapes(site.dims(i) for i in range(len(site.node.inputs)))]


def _same_twice(site: Site) -> Answer:
    return [site.dims(0)] * 2


def _batch_normalization(site: Site) -> Answer:
    per_channel = site.dims_if_known(1)
    return [site.dims(0), *[per_channel] * 4]


def _layer_normalization(site: Site) -> Answer:
    dims = site.dims(0)
    axis = axis_of(site.number("axis", -1), len(dims))
    statistics: Dims = dims[:axis] + (1,) * (len(dims) - axis)
    return [dims, statistics, statistics]


def _dynamic_quantize(site: Site) -> Answer:
    return [site.dims_if_known(0), (), ()]


def _causal_conv(site: Site) -> Answer:
    dims, kernel = site.dims(0), site.dims(1)[-1]
    if len(dims) != 3 or not isinstance(kernel, int):
        raise NotInferableError
    return [dims, (dims[0], dims[1], kernel - 1)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_BROADCAST, _broadcast),
    "BatchNormalization": _batch_normalization,
    "CausalConvWithState": _causal_conv,
    "Dropout": _same_twice,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "Identity": _same_known,
    "LayerNormalization": _layer_normalization,
}
