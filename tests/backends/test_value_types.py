from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.backends.value_types import dtype_name, listed, packed, spelled, type_string, unpacked

SMALL: list[tuple[ir.DataType, Any]] = [
    (ir.DataType.INT4, ml_dtypes.int4),
    (ir.DataType.UINT4, ml_dtypes.uint4),
    (ir.DataType.INT2, ml_dtypes.int2),
    (ir.DataType.UINT2, ml_dtypes.uint2),
    (ir.DataType.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
]


@given(
    kind=st.sampled_from(SMALL),
    shape=st.lists(st.integers(0, 5), max_size=3),
    seed=st.integers(0, 100),
)
def test_unpacking_undoes_packing(
    kind: tuple[ir.DataType, Any], shape: list[int], seed: int
) -> None:
    dtype, numpy_dtype = kind
    bits = np.random.default_rng(seed).integers(0, 2**dtype.bitwidth, shape).astype(np.uint8)
    low = {ir.DataType.INT4: 8, ir.DataType.INT2: 2}.get(dtype)
    raw = bits if low is None else ((bits.astype(np.int8) ^ low) - low).view(np.uint8)
    array = raw.astype(np.uint8).view(numpy_dtype)
    stored = packed(array, dtype.bitwidth)
    assert stored.size == -(-array.size * dtype.bitwidth // 8)
    again = unpacked(stored, dtype, tuple(shape))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


def test_packing_is_onnx_packing() -> None:
    tensor = ir.tensor(np.array([1, -2, 7, -8, 3], dtype=ml_dtypes.int4), name="t")
    assert packed(tensor.numpy(), 4).tobytes() == tensor.tobytes()


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (ir.TensorType(ir.DataType.FLOAT), "tensor(float)", "float32"),
        (ir.TensorType(ir.DataType.BFLOAT16), "tensor(bfloat16)", "bfloat16"),
        (
            ir.SequenceType(ir.TensorType(ir.DataType.DOUBLE)),
            "seq(tensor(double))",
            "a sequence of float64",
        ),
        (
            ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.INT8))),
            "optional(seq(tensor(int8)))",
            "an optional sequence of int8",
        ),
        (
            ir.SparseTensorType(ir.DataType.FLOAT),
            "sparse_tensor(float)",
            "a sparse tensor of float32",
        ),
    ],
)
def test_types_are_spelled(kind: Any, text: str, words: str) -> None:
    assert type_string(ir.Value(name="v", type=kind)) == text
    assert spelled(text) == words


def test_unknown_types_have_no_string() -> None:
    assert type_string(ir.Value(name="v")) is None
    assert dtype_name(None) == "of unknown dtype"


def test_lists_of_types_are_words() -> None:
    assert listed(["tensor(float)"]) == "float32"
    assert listed(["tensor(float)", "tensor(int8)", "tensor(bool)"]) == "bool, float32 or int8"
    assert listed([f"tensor(x{i})" for i in range(12)]).endswith("or 4 others")
