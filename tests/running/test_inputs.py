from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import UnknownNameError, UsageError
from partita.model import Model
from partita.running.inputs import random_inputs


def model_of(*inputs: ir.Value, nodes: tuple[ir.Node, ...] = ()) -> Model:
    outputs = [v for n in nodes for v in n.outputs]
    return Model(ir.Model(ir.Graph(inputs, outputs, nodes=nodes), ir_version=10))


def value(name: str, dtype: ir.DataType, shape: list | None) -> ir.Value:
    dims = None if shape is None else ir.Shape(shape)
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=dims)


PLAIN = [d for d in ir.DataType if d not in (ir.DataType.UNDEFINED,)]


@given(st.sampled_from(PLAIN), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 9))
def test_every_dtype_gets_its_shape_and_dtype_and_a_seed_decides(dtype, shape, seed) -> None:
    model = model_of(value("x", dtype, shape))
    first, again = random_inputs(model, seed), random_inputs(model, seed)
    assert first["x"].shape == tuple(shape)
    assert first["x"].dtype == dtype.numpy()
    assert repr(first["x"].tolist()) == repr(again["x"].tolist())


def test_dimensions_are_given_by_name_and_one_otherwise() -> None:
    model = model_of(value("x", ir.DataType.FLOAT, ["batch", None, 3]))
    assert random_inputs(model)["x"].shape == (1, 1, 3)
    assert random_inputs(model, dims={"batch": 5})["x"].shape == (5, 1, 3)
    with pytest.raises(
        UnknownNameError, match="no dimension is named 'bacth'; did you mean 'batch'"
    ):
        random_inputs(model, dims={"bacth": 5})
    with pytest.raises(UsageError, match="dimension 'batch' is -1; it needs a size of 0"):
        random_inputs(model, dims={"batch": -1})


def test_indices_stay_inside_the_table_they_reach() -> None:
    ids = value("ids", ir.DataType.INT64, [200])
    flags = value("flags", ir.DataType.INT64, [200])
    table = value("table", ir.DataType.FLOAT, [7, 2])
    cast = ir.Node("", "Cast", [ids], [ir.AttrInt64("to", 6)])
    gather = ir.Node("", "Gather", [table, cast.outputs[0]])
    found = random_inputs(model_of(ids, flags, table, nodes=(cast, gather)))
    assert set(found["ids"].tolist()) == set(range(7))
    assert set(found["flags"].tolist()) == {0, 1}


def test_sequences_and_optionals_have_values_of_their_kind() -> None:
    inner = ir.TensorType(ir.DataType.FLOAT)
    sequence = ir.Value(name="s", type=ir.SequenceType(inner), shape=ir.Shape([2]))
    optional = ir.Value(name="o", type=ir.OptionalType(inner))
    found = random_inputs(model_of(sequence, optional))
    assert [a.shape for a in found["s"]] == [(2,)]
    assert found["o"] is None


def test_an_unknown_rank_asks_for_an_array() -> None:
    with pytest.raises(UsageError, match="type or rank of input 'x' is unknown; give it an array"):
        random_inputs(model_of(value("x", ir.DataType.FLOAT, None)))


def test_bytes_span_their_type() -> None:
    found = random_inputs(model_of(value("x", ir.DataType.UINT8, [5000])))["x"]
    assert (found.min(), found.max()) == (0, 255)
    assert found.dtype == np.uint8
