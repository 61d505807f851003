from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from partita.errors import InvalidModelError, LimitError, ModelError, UnsupportedModelError
from partita.loading.external import ExternalData
from partita.loading.limits import Limits
from partita.loading.tensors import TensorReader

STORED = [d for d in ir.DataType if d not in (ir.DataType.UNDEFINED, ir.DataType.STRING)]


def read(proto: TensorProto, **limits: int) -> ir.TensorProtocol:
    return TensorReader(ExternalData(None), Limits(**limits)).read(proto)


def sample(dtype: ir.DataType, count: int) -> ir.Tensor:
    """A tensor of every representable kind, made from small numbers."""
    numbers = np.arange(count) % 2
    if dtype == ir.DataType.FLOAT8E8M0:
        numbers = numbers + 1
    return ir.Tensor(numbers.astype(dtype.numpy()), dtype=dtype)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_raw_data_of_every_type_survive(dtype, count):
    tensor = sample(dtype, count)
    proto = TensorProto(data_type=int(dtype), dims=[count], raw_data=tensor.tobytes(), name="t")
    found = read(proto)
    assert (found.dtype, found.name) == (dtype, "t")
    np.testing.assert_array_equal(found.numpy(), tensor.numpy())
    assert found.tobytes() == tensor.tobytes()


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("count", [1, 7, 8])
def test_typed_fields_of_every_type_survive(dtype, count):
    tensor = sample(dtype, count)
    proto = helper.make_tensor("t", int(dtype), [count], tensor.numpy().tolist())
    assert not proto.HasField("raw_data")
    np.testing.assert_array_equal(read(proto).numpy(), tensor.numpy())


@pytest.mark.parametrize("dtype", STORED)
def test_one_byte_more_or_less_is_refused(dtype):
    data = sample(dtype, 8).tobytes()
    for wrong in (data[:-1], data + b"\0"):
        proto = TensorProto(data_type=int(dtype), dims=[8], raw_data=wrong)
        words = rf"its data are {len(wrong)} bytes; {dtype} of shape \[8\] needs {len(data)}"
        with pytest.raises(InvalidModelError, match=words):
            read(proto)


FAULTS = {
    "open type": (TensorProto(dims=[1]), "the element type of a stored tensor is left open"),
    "unknown type": (TensorProto(dims=[1], data_type=99), "its element type is number 99"),
    "negative": (TensorProto(dims=[-1], data_type=1), r"its shape is \[-1\]; a dimension cannot"),
    "no data": (
        TensorProto(dims=[2], data_type=1),
        r"its data are 0 numbers in float_data; FLOAT of shape \[2\] needs 2",
    ),
    "wrong field": (
        TensorProto(dims=[2], data_type=TensorProto.INT8, float_data=[1, 2]),
        "its data stand in float_data; INT8 is stored in int32_data",
    ),
    "two fields": (
        TensorProto(dims=[1], data_type=1, float_data=[1], int64_data=[1]),
        "its data stand in float_data; FLOAT is stored in float_data|its data stand in",
    ),
    "stored twice": (
        TensorProto(dims=[1], data_type=1, float_data=[1], raw_data=b"\0\0\0\0"),
        "its data stand in raw_data and again in float_data",
    ),
    "bool 2": (
        TensorProto(dims=[2], data_type=TensorProto.BOOL, raw_data=b"\1\2"),
        "a bool is stored as 2; only 0 and 1 are legal",
    ),
    "raw strings": (
        TensorProto(dims=[1], data_type=TensorProto.STRING, raw_data=b"a"),
        "strings cannot be stored in raw_data",
    ),
    "external strings": (
        TensorProto(dims=[1], data_type=TensorProto.STRING, data_location=TensorProto.EXTERNAL),
        "strings cannot be stored outside the model",
    ),
    "missing strings": (
        TensorProto(dims=[2], data_type=TensorProto.STRING, string_data=[b"a"]),
        "its data are 1 strings",
    ),
    "six bits": (
        TensorProto(dims=[1], data_type=TensorProto.FLOAT6E2M3, int32_data=[64]),
        "holds a number that FLOAT6E2M3 has no room for",
    ),
    "half complex": (
        TensorProto(dims=[1], data_type=TensorProto.COMPLEX64, float_data=[1]),
        "its data are 1 numbers in float_data; COMPLEX64 of shape",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_data_that_do_not_fit_are_refused_in_words(case):
    proto, words = FAULTS[case]
    with pytest.raises(InvalidModelError, match=words):
        read(proto)


def test_huge_tensors_are_refused_before_anything_is_allocated():
    proto = TensorProto(dims=[2**40, 2**40], data_type=1, raw_data=b"1234")
    with pytest.raises(LimitError, match=r"means 4,835,703,278,458,516,698,824,704 bytes"):
        read(proto)
    with pytest.raises(LimitError, match="33 dimensions"):
        read(TensorProto(dims=[1] * 33, data_type=1, raw_data=b"1234"))


def test_segments_are_refused():
    proto = TensorProto(dims=[1], data_type=1, raw_data=b"1234")
    proto.segment.begin = 0
    with pytest.raises(UnsupportedModelError, match="stored in segments"):
        read(proto)


def test_strings_are_bytes():
    proto = helper.make_tensor("s", TensorProto.STRING, [2], [b"caf\xc3\xa9", b"\xff"])
    assert read(proto).numpy().tolist() == [b"caf\xc3\xa9", b"\xff"]


def test_a_tensor_outlives_its_message():
    proto = TensorProto(dims=[2], data_type=1, raw_data=np.float32([1, 2]).tobytes())
    found = read(proto)
    proto.raw_data = b"\0" * 8
    np.testing.assert_array_equal(found.numpy(), np.float32([1, 2]))


def sparse(values, indices, dims):
    proto = onnx.SparseTensorProto(dims=dims)
    proto.values.CopyFrom(helper.make_tensor("w", 1, [len(values)], values))
    array = np.array(indices, np.int64)
    proto.indices.CopyFrom(onnx.numpy_helper.from_array(array))
    return proto


def read_sparse(proto, **limits):
    return TensorReader(ExternalData(None), Limits(**limits)).read_sparse(proto)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
        lambda dims: st.tuples(
            st.just(dims), st.sets(st.integers(0, int(np.prod(dims)) - 1), max_size=5)
        )
    ),
    st.booleans(),
)
def test_sparse_tensors_become_dense(shape_and_places, by_coordinates):
    dims, places = shape_and_places
    flat = sorted(places)
    dense = np.zeros(dims, np.float32)
    dense.reshape(-1)[flat] = np.arange(1, len(flat) + 1)
    indices = np.array(flat, np.int64)
    if by_coordinates:
        indices = np.stack(np.unravel_index(indices, dims), axis=1).reshape(len(flat), len(dims))
    found = read_sparse(sparse(list(range(1, len(flat) + 1)), indices, dims))
    np.testing.assert_array_equal(found.numpy(), dense)
    assert found.name == "w"


@pytest.mark.parametrize(
    ("values", "indices", "words"),
    [
        ([1.0], [6], "do not fit its shape"),
        ([1.0], [-1], "do not fit its shape"),
        ([1.0], [[0, 3]], "lies outside its shape"),
        ([1.0], [[-1, 0]], "lies outside its shape"),
        ([1.0, 2.0], [3, 1], "not in ascending order"),
        ([1.0, 2.0], [1, 1], "not in ascending order"),
        ([1.0, 2.0], [1], "2 values and 1 indices"),
    ],
)
def test_sparse_faults_are_refused(values, indices, words):
    with pytest.raises(InvalidModelError, match=words):
        read_sparse(sparse(values, indices, [2, 3]))


def test_sparse_bombs_are_refused():
    with pytest.raises(LimitError, match="1,200,000,000 bytes once they are dense"):
        read_sparse(sparse([1.0], [0], [300_000_000]))


@given(st.binary(max_size=200))
def test_any_bytes_as_a_tensor_give_a_tensor_or_a_typed_error(data):
    try:
        proto = TensorProto.FromString(data)
    except DecodeError:
        return
    with contextlib.suppress(ModelError):
        read(proto).numpy()


def test_numpy_sees_the_types_of_ml_dtypes():
    data = np.array([1.5, -2], ml_dtypes.bfloat16)
    proto = TensorProto(data_type=TensorProto.BFLOAT16, dims=[2], raw_data=data.tobytes())
    assert read(proto).numpy().dtype == ml_dtypes.bfloat16
