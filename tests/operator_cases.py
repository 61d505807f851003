"""Ops at older operator sets, with shapes and attributes that ONNX's own tests do not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from single import floats


@dataclass(frozen=True, eq=False)
class OperatorCase:
    """One node and what it is fed."""

    op: str
    opset: int
    inputs: list[Any]
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{shown}"


X = floats(2, 3, 8, 8)
BYTES = np.random.default_rng(1).integers(0, 255, (2, 3, 4)).astype(np.uint8)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def reals(*values: float) -> Any:
    return np.array(values, np.float32)


def case(op: str, opset: int, *inputs: Any, outputs: int = 1, **attributes: Any) -> OperatorCase:
    return OperatorCase(op, opset, list(inputs), outputs, attributes)


def all_cases() -> list[OperatorCase]:
    """Returns every case, in a fixed order."""
    return [
        *_elementwise(),
        *_movement(),
        *_windows(),
        *_sampling(),
        *_reductions(),
        *_normalisation(),
        *_recurrent(),
        *_quantised(),
        *_other(),
    ]


def _elementwise() -> Iterator[OperatorCase]:
    yield case("Clip", 6, X, min=-0.5, max=0.5)
    yield case("Clip", 6, X)
    yield case("Clip", 10, X, max=0.2)
    for op in ("Add", "Sub", "Mul", "Div"):
        yield case(op, 6, X, floats(8), broadcast=1)
        yield case(op, 6, X, floats(3), broadcast=1, axis=1)
        yield case(op, 6, X, floats(3, 8), broadcast=1, axis=1)
        yield case(op, 7, X, floats(3, 1, 8))
    for op in ("Mean", "Sum", "Max", "Min"):
        yield case(op, 6, X, X + 1, X * 2)
        yield case(op, 8, X, floats(8))
        yield case(op, 12, X)
    yield case("Div", 7, np.array([7, -7, 6], np.int32), np.array([2, 2, -4], np.int32))
    yield case("Mod", 13, np.array([7, -7, 6], np.int32), np.array([2, 2, -4], np.int32))
    yield case("Mod", 13, X, floats(8), fmod=1)
    yield case("Pow", 7, abs(X), np.array(2, np.float32))
    yield case("Pow", 12, X, np.array(2, np.int64))
    yield case("Pow", 13, ints(2, 3), reals(2, 2))
    yield case("PRelu", 6, X, floats(3))
    yield case("PRelu", 9, X, floats(3, 1, 1))
    yield case("Dropout", 6, X, is_test=1)
    yield case("Dropout", 7, X, outputs=2)
    yield case("Dropout", 10, X, outputs=2, ratio=0.3)
    for op, opset, attributes in (
        ("ThresholdedRelu", 10, {"alpha": 0.3}),
        ("Selu", 6, {}),
        ("Elu", 6, {"alpha": 0.7}),
        ("LeakyRelu", 6, {"alpha": 0.2}),
        ("HardSigmoid", 6, {"alpha": 0.1, "beta": 0.3}),
        ("Softsign", 1, {}),
        ("Erf", 9, {}),
        ("Sign", 9, {}),
        ("Celu", 12, {"alpha": 0.5}),
        ("HardSwish", 14, {}),
        ("Mish", 18, {}),
        ("Gelu", 20, {}),
        ("Gelu", 20, {"approximate": "tanh"}),
        ("Shrink", 9, {"bias": 0.1, "lambd": 0.3}),
        ("Round", 11, {}),
    ):
        yield case(op, opset, X, **attributes)
    for to in (6, 7, 10, 11, 9, 2):
        for opset in (6, 9, 13):
            yield case("Cast", opset, X * 5, to=to)
    yield case("Cast", 9, np.array(["1.5", "2"], object), to=1)
    yield case("IsInf", 10, reals(1, np.inf, -np.inf, np.nan), detect_negative=0)
    yield case("BitShift", 11, BYTES, BYTES % 5, direction="LEFT")


def _movement() -> Iterator[OperatorCase]:
    for mode in ("constant", "reflect", "edge"):
        yield case("Pad", 2, X, pads=[0, 0, 1, 2, 0, 0, 1, 0], mode=mode, value=1.5)
    yield case("Slice", 1, X, starts=[0, 1], ends=[1, 1000], axes=[0, 2])
    yield case("Slice", 9, X, starts=[0, -5], ends=[1, -1])
    yield case("Split", 2, X, outputs=2, axis=2, split=[3, 5])
    yield case("Split", 11, X, outputs=2, axis=-1)
    yield case("Squeeze", 1, floats(1, 3, 1, 2))
    yield case("Squeeze", 11, floats(1, 3, 1, 2), axes=[0, -2])
    yield case("Unsqueeze", 11, floats(3, 2), axes=[0, -1])
    yield case("Tile", 6, floats(2, 3), ints(2, 1))
    yield case("Expand", 8, floats(3, 1), ints(2, 1, 4))
    yield case("Gather", 1, X, ints(0, 2)[None], axis=1)
    yield case("Gather", 11, X, np.array(-1), axis=1)
    yield case("GatherElements", 11, floats(3, 4), np.array([[1, -1], [0, 2]]), axis=1)
    yield case("GatherND", 11, floats(3, 4, 2), np.array([[1, 2], [0, 3]]))
    yield case("GatherND", 12, floats(3, 4, 2), np.array([[1], [0], [1]]), batch_dims=1)
    yield case("Scatter", 9, floats(3, 3), np.array([[1, 0, 2]]), floats(1, 3))
    yield case("ScatterElements", 11, floats(3, 3), np.array([[1, -1]]), floats(1, 2), axis=1)
    yield case("Compress", 9, X, np.array([True, False, True]), axis=1)
    yield case("Compress", 9, X, np.array([True, False, True]))
    yield case("DepthToSpace", 1, floats(1, 8, 2, 3), blocksize=2)
    yield case("DepthToSpace", 11, floats(1, 8, 2, 3), blocksize=2, mode="CRD")
    yield case("SpaceToDepth", 1, floats(1, 2, 4, 6), blocksize=2)
    yield case("ReverseSequence", 10, floats(4, 3, 2), ints(2, 4, 1))
    yield case("Trilu", 14, X, np.array(1), upper=0)
    yield case("OneHot", 9, ints(0, 2, 1), np.array(4), reals(0, 1))
    yield case("OneHot", 11, ints(0, -2, 1), ints(4), reals(0, 5), axis=0)
    yield case("ConstantOfShape", 9, ints(2, 3))
    yield case("EyeLike", 9, floats(3, 4), k=1)
    yield case(
        "Range",
        11,
        np.float32(1)[None].reshape(()),
        np.array(7, np.float32),
        np.array(2, np.float32),
    )
    yield case("Shape", 15, X, start=1, end=-1)


def _windows() -> Iterator[OperatorCase]:
    kernel = {"kernel_shape": [3, 3]}
    for opset in (7, 10):
        yield case(
            "AveragePool", opset, X, strides=[2, 2], pads=[1] * 4, count_include_pad=1, **kernel
        )
        yield case("AveragePool", opset, X, strides=[2, 2], pads=[1] * 4, **kernel)
        yield case("AveragePool", opset, X, auto_pad="SAME_LOWER", strides=[2, 2], **kernel)
    for opset in (10, 11, 18):
        yield case("AveragePool", opset, X, strides=[2, 2], ceil_mode=1, **kernel)
        yield case("MaxPool", opset, X, strides=[2, 2], ceil_mode=1, **kernel)
    for opset in (1, 8, 12):
        yield case("MaxPool", opset, X, pads=[1] * 4, **kernel)
    pair = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield case("MaxPool", 8, X, outputs=2, **pair)
    yield case("MaxPool", 12, X, outputs=2, storage_order=1, **pair)
    yield case("MaxPool", 10, X, kernel_shape=[2, 2], dilations=[2, 2])
    yield case("GlobalLpPool", 2, X, p=3)
    yield case("LpPool", 2, X, p=3, **pair)
    yield case("LpPool", 11, X, pads=[1] * 4, **kernel)
    for opset in (1, 11, 22):
        yield case("Conv", opset, X, floats(4, 3, 3, 3), floats(4), pads=[1] * 4, strides=[2, 2])
        yield case("Conv", opset, X, floats(6, 1, 3, 3), group=3, dilations=[2, 2])
        yield case("Conv", opset, X, floats(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
        weight = floats(3, 4, 3, 3)
        yield case("ConvTranspose", opset, X, weight, strides=[2, 2], output_padding=[1, 1])
        yield case("ConvTranspose", opset, X, weight, strides=[2, 2], output_shape=[17, 17])
    boxes = reals(0, 0, 0, 5, 5, 1, 1, 1, 7, 6).reshape(2, 5)
    yield case("MaxRoiPool", 1, X, boxes, pooled_shape=[3, 2], spatial_scale=0.9)


def _sampling() -> Iterator[OperatorCase]:
    for mode in ("nearest", "linear"):
        yield case("Upsample", 7, X, scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
        yield case("Upsample", 9, X, reals(1, 1, 1.5, 2), mode=mode)
        for scale in (2.0, 0.6, 1.3):
            yield case("Resize", 10, X, reals(1, 1, scale, scale), mode=mode)
    yield case("Resize", 11, X, reals(), reals(1, 1, 2, 2), mode="linear")
    yield case("Resize", 13, X, None, reals(1, 1, 0.5, 2), mode="cubic")
    for mode, transform in (
        ("linear", "pytorch_half_pixel"),
        ("nearest", "asymmetric"),
        ("linear", "align_corners"),
    ):
        attributes = {"mode": mode, "coordinate_transformation_mode": transform}
        yield case("Resize", 13, X, None, None, ints(2, 3, 16, 11), **attributes)
    regions = reals(0, 0, 5, 5, 1, 1, 7, 6).reshape(2, 4)
    for opset in (10, 16):
        for mode, samples in (("avg", 2), ("max", 1)):
            shape = {"output_height": 3, "output_width": 2, "sampling_ratio": samples}
            yield case(
                "RoiAlign", opset, X, regions, ints(0, 1), mode=mode, spatial_scale=0.9, **shape
            )
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                yield case("GridSample", 16, X, floats(2, 4, 5, 2), **attributes)


def _reductions() -> Iterator[OperatorCase]:
    for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"):
        yield case(f"Reduce{kind}", 1, X, axes=[1, 2], keepdims=0)
        yield case(f"Reduce{kind}", 11, X, axes=[-1])
        yield case(f"Reduce{kind}", 12, X)
    for opset in (1, 11, 12):
        yield case("ArgMax", opset, X, axis=2, keepdims=0)
    yield case("TopK", 1, X, outputs=2, k=3, axis=1)
    yield case("TopK", 10, X, ints(2), outputs=2, axis=-1)
    yield case("CumSum", 11, X, np.array(2, np.int32), exclusive=1, reverse=1)
    yield case("Unique", 11, reals(3, 1, 2, 1, 3), outputs=4, sorted=0)
    yield case("Unique", 11, reals(3, 1, 2, 1, 3, 1).reshape(3, 2), outputs=4, axis=0)


def _normalisation() -> Iterator[OperatorCase]:
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (1, 11, 13):
            for axis in (1, 2):
                yield case(op, opset, X * 3, axis=axis)
    yield case("LogSoftmax", 13, X * 200)
    for opset in (7, 8, 9, 13):
        yield case("BatchNormalization", opset, X, floats(3), floats(3), floats(3), abs(floats(3)))
    yield case("BatchNormalization", 6, X, *([abs(floats(3))] * 4), is_test=1)
    yield case("BatchNormalization", 7, X, *([abs(floats(3, 8, 8))] * 4), spatial=0)
    for opset, count in ((18, 2), (21, 4)):
        if opset == 21:
            yield case(
                "GroupNormalization", opset, floats(2, 4, 5), *([floats(count)] * 2), num_groups=2
            )
    yield case("InstanceNormalization", 6, X, floats(3), floats(3))
    yield case("LayerNormalization", 17, X, floats(8, 8), outputs=3, axis=2)
    yield case("LpNormalization", 1, X, axis=1, p=1)
    yield case("LpNormalization", 1, X, axis=-1, p=2)
    yield case("MeanVarianceNormalization", 9, X)
    yield case("LRN", 1, X, size=3, alpha=0.5)
    yield case("LRN", 13, floats(5, 2, 4, 4), size=5, alpha=0.5, bias=2.0)


def _recurrent() -> Iterator[OperatorCase]:
    lengths = np.array([5, 3], np.int32)
    for way, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        lstm = [floats(5, 2, 3), floats(d, 16, 3), floats(d, 16, 4), floats(d, 32)]
        gru = [floats(5, 2, 3), floats(d, 12, 3), floats(d, 12, 4), floats(d, 24)]
        rnn = [floats(5, 2, 3), floats(d, 4, 3), floats(d, 4, 4), floats(d, 8)]
        attributes = {"hidden_size": 4, "direction": way}
        for opset in (7, 14):
            yield case("LSTM", opset, *lstm, outputs=3, **attributes)
            yield case("LSTM", opset, *lstm, lengths, outputs=3, **attributes)
            yield case("GRU", opset, *gru, outputs=2, **attributes)
            yield case("GRU", opset, *gru, lengths, outputs=2, **attributes)
            yield case("GRU", opset, *gru, outputs=2, linear_before_reset=1, **attributes)
            yield case("RNN", opset, *rnn, lengths, floats(d, 2, 4), outputs=2, **attributes)
    lstm = [floats(5, 2, 3), floats(1, 16, 3), floats(1, 16, 4), floats(1, 32)]
    states = [lengths, floats(1, 2, 4), floats(1, 2, 4, seed=1), floats(1, 12)]
    yield case("LSTM", 14, *lstm, *states, outputs=3, hidden_size=4)
    yield case("LSTM", 14, *lstm, outputs=3, hidden_size=4, clip=0.5)
    yield case("LSTM", 14, *lstm, outputs=3, hidden_size=4, input_forget=1)
    names = ["HardSigmoid", "Elu", "ScaledTanh"]
    scales = {"activation_alpha": [0.3, 0.5, 1.2], "activation_beta": [0.4, 0.7]}
    yield case("LSTM", 14, *lstm, outputs=3, hidden_size=4, activations=names, **scales)


def _quantised() -> Iterator[OperatorCase]:
    zero = np.array(3, np.uint8)
    for opset in (10, 13, 18):
        yield case("QuantizeLinear", opset, X, np.array(0.1, np.float32), zero)
        yield case("DequantizeLinear", opset, BYTES, np.array(0.1, np.float32), zero)
    for opset in (13, 18):
        zeros = np.array([3, 2, 1], np.uint8)
        yield case("DequantizeLinear", opset, BYTES, reals(0.1, 0.2, 0.3), zeros)
        yield case("DequantizeLinear", opset, BYTES, reals(0.1, 0.2, 0.3, 0.5), axis=-1)
    yield case("MatMulInteger", 10, BYTES, BYTES.transpose(0, 2, 1).copy())


def _other() -> Iterator[OperatorCase]:
    a, b = floats(3, 4), floats(5, 4)
    yield case("Gemm", 6, a, b, floats(3, 5), transB=1, alpha=0.5, beta=2.0)
    yield case("Gemm", 6, a, b, floats(5), transB=1, broadcast=1, beta=2.0)
    yield case("Gemm", 9, a, b, floats(5), transB=1, alpha=0.5, beta=2.0)
    yield case("MatMul", 9, floats(4), floats(4, 5))
    yield case("Einsum", 12, floats(2, 3, 4), floats(2, 4, 5), equation="bij,bjk->ik")
    yield case("Det", 11, floats(2, 3, 3))
    yield case("DFT", 17, floats(2, 8, 1), axis=1)
    boxes = reals(0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11).reshape(1, 3, 4)
    scores = reals(0.9, 0.75, 0.6, 0.2, 0.8, 0.8).reshape(1, 2, 3)
    for opset in (10, 11):
        yield case("NonMaxSuppression", opset, boxes, scores, ints(2), reals(0.5), reals(0.3))
        scalars = [np.array(2), np.array(0.5, np.float32), np.array(0.3, np.float32)]
        yield case("NonMaxSuppression", opset, boxes, scores, *scalars, center_point_box=1)
