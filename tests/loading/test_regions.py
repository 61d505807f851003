from __future__ import annotations

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from partita.errors import InvalidModelError
from partita.loading.regions import REGIONS_KEY, describe
from partita.loading.stage import load

node = helper.make_node
value = helper.make_tensor_value_info
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("partita", 1)]


def region(name, inputs, outputs, nodes, **metadata):
    found = helper.make_function("partita", name, inputs, outputs, nodes, IMPORTS)
    entries = {"partita.backend": "mine", **metadata}
    for key, text in entries.items():
        found.metadata_props.add(key=key, value=text)
    return found


def model(nodes, functions, outputs=("y",), weights=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [2])],
        [value(name, 1, [2]) for name in outputs],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=IMPORTS, ir_version=10, functions=functions)


def constant(name, *numbers):
    return node("Constant", [], [name], value=helper.make_tensor("", 1, [len(numbers)], numbers))


def test_regions_come_back_in_place_with_their_names():
    first = region(
        "mine_0",
        ["x"],
        ["b"],
        [node("Relu", ["x"], ["a"], name="n0"), node("Neg", ["a"], ["b"], name="n1")],
        **{
            "partita.strategy": "fast",
            "partita.attributes": '{"tile": "4"}',
            "partita.precision": "bfloat16",
        },
    )
    second = region("mine_1", ["c"], ["y"], [node("Abs", ["c"], ["y"], name="n3")])
    proto = model(
        [
            node("mine_0", ["x"], ["b"], domain="partita", name="mine_0"),
            node("Exp", ["b"], ["c"], name="n2"),
            node("mine_1", ["c"], ["y"], domain="partita", name="mine_1"),
        ],
        [first, second],
    )
    loaded = load(proto)
    assert [(n.name, n.op_type) for n in loaded.graph] == [
        ("n0", "Relu"),
        ("n1", "Neg"),
        ("n2", "Exp"),
        ("n3", "Abs"),
    ]
    assert [n.metadata_props.get("partita.region") for n in loaded.graph] == [
        "mine_0",
        "mine_0",
        None,
        "mine_1",
    ]
    assert [n.outputs[0].name for n in loaded.graph] == ["a", "b", "c", "y"]
    assert "partita" not in loaded.ir.opset_imports
    assert not loaded.ir.functions
    assert describe(loaded.ir)["mine_0"] == {
        "backend": "mine",
        "strategy": "fast",
        "attributes": {"tile": "4"},
        "precision": "bfloat16",
    }
    assert describe(loaded.ir)["mine_1"]["precision"] == "float32"
    assert json.loads(loaded.ir.metadata_props[REGIONS_KEY]).keys() == {"mine_0", "mine_1"}


def test_edited_formal_names_are_mapped_to_the_actual_ones():
    edited = region(
        "mine_0",
        ["anything", "unused"],
        ["result"],
        [node("Relu", ["anything"], ["result"], name="r")],
    )
    proto = model(
        [
            node("Neg", ["x"], ["result"], name="n"),
            node("mine_0", ["result", ""], ["y"], domain="partita", name="mine_0"),
        ],
        [edited],
    )
    loaded = load(proto)
    assert [v.name for v in loaded.outputs] == ["y"]
    relu = loaded.outputs[0].producer()
    assert relu.inputs[0].producer().op_type == "Neg"


def test_weights_in_several_regions_are_one_weight_again():
    weight = helper.make_tensor("w", 1, [2], [1.0, 2.0])
    add = lambda i, o, n: node("Add", [i, "w"], [o], name=n)  # noqa: E731
    functions = [
        region("mine_0", ["x"], ["a"], [constant("w", 1.0, 2.0), add("x", "a", "n0")]),
        region("mine_1", ["b"], ["y"], [constant("w", 1.0, 2.0), add("b", "y", "n2")]),
    ]
    proto = model(
        [
            node("mine_0", ["x"], ["a"], domain="partita", name="mine_0"),
            add("a", "b", "n1"),
            node("mine_1", ["b"], ["y"], domain="partita", name="mine_1"),
        ],
        functions,
        weights=[weight],
    )
    loaded = load(proto)
    assert list(loaded.parameters) == ["w"]
    assert len({n.inputs[1] for n in loaded.graph}) == 1
    other = load(proto)
    assert other.hash == loaded.hash


def test_equal_names_of_different_weights_stay_apart():
    functions = [
        region("mine_0", ["x"], ["a"], [constant("w", 1.0, 2.0), node("Add", ["x", "w"], ["a"])]),
        region("mine_1", ["a"], ["y"], [constant("w", 3.0, 4.0), node("Add", ["a", "w"], ["y"])]),
    ]
    proto = model(
        [
            node("mine_0", ["x"], ["a"], domain="partita", name="mine_0"),
            node("mine_1", ["a"], ["y"], domain="partita", name="mine_1"),
        ],
        functions,
    )
    loaded = load(proto)
    read = [n.inputs[1].const_value.numpy().tolist() for n in loaded.graph]
    assert read == [[1, 2], [3, 4]]


def test_a_region_in_a_body_and_a_body_in_a_region():
    inner = helper.make_graph(
        [node("Relu", ["x"], ["p"], name="deep")], "t", [], [value("p", 1, [2])]
    )
    holder = region(
        "mine_0",
        ["c", "x"],
        ["y"],
        [node("If", ["c"], ["y"], name="if", then_branch=inner, else_branch=inner)],
    )
    proto = model([node("mine_0", ["c", "x"], ["y"], domain="partita", name="mine_0")], [holder])
    proto.graph.input.append(value("c", 9, []))
    loaded = load(proto)
    marks = {n.name: n.metadata_props.get("partita.region") for _, g in loaded.graphs() for n in g}
    assert marks.pop("if") == "mine_0"
    assert set(marks.values()) == {None}

    call = node("mine_0", ["x"], ["p"], domain="partita", name="mine_0")
    outside = helper.make_graph([call], "t", [], [value("p", 1, [2])])
    plain = helper.make_graph([node("Neg", ["x"], ["q"])], "e", [], [value("q", 1, [2])])
    proto = model(
        [node("If", ["c"], ["y"], name="if", then_branch=outside, else_branch=plain)],
        [region("mine_0", ["x"], ["p"], [node("Relu", ["x"], ["p"], name="deep")])],
    )
    proto.graph.input.append(value("c", 9, []))
    loaded = load(proto)
    body = loaded.graph[0].attributes["then_branch"].as_graph()
    assert body[0].metadata_props["partita.region"] == "mine_0"


def test_functions_called_inside_a_region_keep_its_mark():
    helper_function = helper.make_function(
        "f", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], IMPORTS[:1]
    )
    imports = [*IMPORTS, helper.make_opsetid("f", 1)]
    outer = region("mine_0", ["x"], ["y"], [node("Twice", ["x"], ["y"], domain="f", name="t")])
    outer.opset_import.append(helper.make_opsetid("f", 1))
    proto = model(
        [node("mine_0", ["x"], ["y"], domain="partita", name="mine_0")], [outer, helper_function]
    )
    del proto.opset_import[:]
    proto.opset_import.extend(imports)
    (add,) = load(proto).graph
    assert add.metadata_props["partita.region"] == "mine_0"


FAULTS = [
    ({"partita.backend": ""}, "function 'partita::mine_0' does not name its backend"),
    ({"partita.attributes": "[1"}, r"metadata 'partita.attributes' is no JSON object: \[1"),
    ({"partita.attributes": "[1]"}, "metadata 'partita.attributes' is no JSON object"),
    ({"partita.attributes": "[" * 100_000}, "metadata 'partita.attributes' is no JSON object"),
]


@pytest.mark.parametrize(("metadata", "words"), FAULTS)
def test_damaged_descriptions_are_refused(metadata, words):
    broken = region("mine_0", ["x"], ["y"], [node("Relu", ["x"], ["y"])], **metadata)
    proto = model([node("mine_0", ["x"], ["y"], domain="partita", name="mine_0")], [broken])
    with pytest.raises(InvalidModelError, match=words):
        load(proto)


def test_a_region_called_twice_is_refused():
    once = region("mine_0", ["a"], ["b"], [node("Relu", ["a"], ["b"])])
    proto = model(
        [
            node("mine_0", ["x"], ["m"], domain="partita", name="one"),
            node("mine_0", ["m"], ["y"], domain="partita", name="two"),
        ],
        [once],
    )
    with pytest.raises(InvalidModelError, match="node 'two': region 'mine_0' is called a second"):
        load(proto)


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"r": 1}'])
def test_a_damaged_description_of_a_flat_model_is_refused(text):
    loaded = load(model([node("Relu", ["x"], ["y"])], []))
    loaded.ir.metadata_props[REGIONS_KEY] = text
    with pytest.raises(InvalidModelError, match=r"partita\.regions"):
        describe(loaded.ir)


def test_a_model_without_regions_has_none():
    assert describe(load(model([node("Relu", ["x"], ["y"])], [])).ir) == {}


CUTS = st.lists(
    st.tuples(st.sampled_from(["Relu", "Neg", "Abs", "Add"]), st.booleans()),
    min_size=1,
    max_size=10,
)


@given(CUTS)
def test_flattening_undoes_outlining(steps):
    """A chain in which every node marked so stands in a region of its own."""
    flat, outlined, functions = [], [], []
    for index, (op_type, in_region) in enumerate(steps):
        last = index == len(steps) - 1
        source, target = f"v{index}" if index else "x", "y" if last else f"v{index + 1}"
        inputs = [source, "w"] if op_type == "Add" else [source]
        own = node(op_type, inputs, [target], name=f"n{index}")
        flat.append(own)
        if not in_region:
            outlined.append(own)
            continue
        name = f"mine_{index}"
        held = [constant("w", 1.0, 2.0)] if op_type == "Add" else []
        functions.append(region(name, [source], [target], [*held, own]))
        outlined.append(node(name, [source], [target], domain="partita", name=name))
    weights = (
        [helper.make_tensor("w", 1, [2], [1.0, 2.0])] if any(op == "Add" for op, _ in steps) else []
    )
    original, restored = (
        load(model(flat, [], weights=weights)),
        load(model(outlined, functions, weights=weights)),
    )
    for loaded in (original, restored):
        loaded.ir.opset_imports.pop("partita", None)
    assert restored.hash == original.hash
    onnx.checker.check_model(ir.to_proto(restored.ir))
    np.testing.assert_equal(
        [n.metadata_props.get("partita.region") is not None for n in restored.graph],
        [in_region for _, in_region in steps],
    )
