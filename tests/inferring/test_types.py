from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from partita.inferring.stage import infer
from partita.inferring.types import parse_type
from partita.loading.stage import load

T = ir.DataType


def types_after(op, dtypes, opset=17, outputs=1, domain="", **attributes):
    names = [f"x{i}" if d else "" for i, d in enumerate(dtypes)]
    inputs = [
        helper.make_tensor_value_info(n, int(d), [2, 2])
        for n, d in zip(names, dtypes, strict=True)
        if d
    ]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=n) for n in made])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    imports.append(helper.make_opsetid("com.x", 1))
    model = infer(load(helper.make_model(graph, opset_imports=imports, ir_version=10)))
    return [v.dtype for v in model.outputs]


CASES = [
    ("Relu", [T.FLOAT16], {}, [T.FLOAT16]),
    ("Add", [T.BFLOAT16, T.BFLOAT16], {}, [T.BFLOAT16]),
    ("Equal", [T.INT64, T.INT64], {}, [T.BOOL]),
    ("Where", [T.BOOL, T.DOUBLE, T.DOUBLE], {}, [T.DOUBLE]),
    ("Cast", [T.FLOAT], {"to": int(T.INT4), "opset": 21}, [T.INT4]),
    ("Cast", [T.FLOAT], {"to": 99}, [None]),
    ("CastLike", [T.FLOAT, T.UINT8], {}, [T.UINT8]),
    ("Shape", [T.STRING], {}, [T.INT64]),
    ("ArgMax", [T.INT8], {}, [T.INT64]),
    ("TopK", [T.FLOAT16, T.INT64], {"outputs": 2}, [T.FLOAT16, T.INT64]),
    ("Dropout", [T.DOUBLE], {"outputs": 2}, [T.DOUBLE, T.BOOL]),
    ("LayerNormalization", [T.FLOAT16, T.FLOAT16], {"outputs": 3}, [T.FLOAT16, T.FLOAT, T.FLOAT]),
    ("QuantizeLinear", [T.FLOAT, T.FLOAT], {}, [T.UINT8]),
    ("QuantizeLinear", [T.FLOAT, T.FLOAT, T.INT8], {}, [T.INT8]),
    ("QuantizeLinear", [T.FLOAT, T.FLOAT], {"opset": 21, "output_dtype": int(T.INT4)}, [T.INT4]),
    ("DequantizeLinear", [T.INT8, T.FLOAT], {}, [T.FLOAT]),
    ("DynamicQuantizeLinear", [T.FLOAT], {"outputs": 3}, [T.UINT8, T.FLOAT, T.UINT8]),
    ("ConstantOfShape", [T.INT64], {}, [T.FLOAT]),
    ("EyeLike", [T.INT32], {}, [T.INT32]),
    ("EyeLike", [T.INT32], {"dtype": int(T.BOOL)}, [T.BOOL]),
    ("RandomNormal", [], {"shape": [2]}, [T.FLOAT]),
    ("Multinomial", [T.FLOAT], {"dtype": int(T.INT64)}, [T.INT64]),
    ("HannWindow", [T.INT64], {"output_datatype": int(T.DOUBLE)}, [T.DOUBLE]),
    ("Scaler", [T.INT64], {"domain": "ai.onnx.ml", "offset": [0.0], "scale": [1.0]}, [T.FLOAT]),
    (
        "LabelEncoder",
        [T.STRING],
        {"domain": "ai.onnx.ml", "keys_strings": ["a"], "values_int64s": [1]},
        [T.INT64],
    ),
    (
        "TreeEnsembleClassifier",
        [T.FLOAT],
        {"domain": "ai.onnx.ml", "outputs": 2, "classlabels_strings": ["a", "b"]},
        [T.STRING, T.FLOAT],
    ),
    ("Foo", [T.FLOAT], {"domain": "com.x"}, [None]),
]


@pytest.mark.parametrize(("op", "dtypes", "attributes", "wanted"), CASES)
def test_types_follow_from_schema_and_attributes(op, dtypes, attributes, wanted):
    assert types_after(op, dtypes, **attributes) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tensor(float)", ir.TensorType(T.FLOAT)),
        ("tensor(float8e4m3fn)", ir.TensorType(T.FLOAT8E4M3FN)),
        ("seq(tensor(int64))", ir.SequenceType(ir.TensorType(T.INT64))),
        (
            "optional(seq(tensor(bool)))",
            ir.OptionalType(ir.SequenceType(ir.TensorType(T.BOOL))),
        ),
        ("map(int64, tensor(float))", None),
        ("seq(map(int64, float))", None),
        ("T", None),
    ],
)
def test_types_are_read_as_schemas_write_them(text, wanted):
    assert parse_type(text) == wanted


def test_every_type_that_any_schema_writes_is_known():
    unknown = {
        text
        for schema in onnx.defs.get_all_schemas_with_history()
        for constraint in schema.type_constraints
        for text in constraint.allowed_type_strs
        if parse_type(text) is None and "map(" not in text
    }
    assert not unknown
