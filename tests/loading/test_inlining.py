from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from partita.errors import InvalidModelError, UnsupportedModelError
from partita.loading.stage import load

HEAD = '<ir_version: 9, opset_import: ["" : 17, "f" : 1]>'
FUNCTION_HEAD = '<opset_import: ["" : 17, "f" : 1], domain: "f">'


def model(body, functions, outputs="float[2, 3] y"):
    text = f"{HEAD} g (float[2, 3] x, float[2, 3] z) => ({outputs}) {{ {body} }}"
    for function in functions:
        text += f"{FUNCTION_HEAD} {function}"
    return parse_model(text)


def assert_same_results(proto):
    """The flat model computes what onnx's own evaluator makes of the functions."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(2, 3)), "z": rng.normal(size=(2, 3))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    loaded = load(proto)
    assert not loaded.ir.functions
    flat = ir.to_proto(loaded.ir)
    onnx.checker.check_model(flat)
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    found = ReferenceEvaluator(flat).run(None, feeds)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(one, other)
    return loaded


def test_names_show_the_calls_and_metadata_the_functions():
    proto = model(
        "[first] m = f.Twice (x) [second] y = f.Twice (m)",
        ["Twice (a) => (b) { [inner] c = Add (a, a) [out] b = Neg (c) }"],
    )
    loaded = assert_same_results(proto)
    assert [n.name for n in loaded.graph] == [
        "first/inner",
        "first/out",
        "second/inner",
        "second/out",
    ]
    assert {n.metadata_props["partita.function"] for n in loaded.graph} == {"f::Twice"}
    assert loaded.graph[1].outputs[0].name == "m"
    assert loaded.ir.opset_imports == {"": 17}


def test_nested_calls_chain_their_names():
    proto = model(
        "[outer] y = f.Four (x)",
        [
            "Twice (a) => (b) { b = Add (a, a) }",
            "Four (a) => (b) { [lower] c = f.Twice (a) [upper] b = f.Twice (c) }",
        ],
    )
    loaded = assert_same_results(proto)
    assert {n.metadata_props["partita.function"] for n in loaded.graph} == {"f::Four/Twice"}


def test_attribute_references_defaults_and_omissions():
    proto = model(
        "m = f.Act <alpha = 0.5> (x) n = f.Act (m) y = Add (n, z)",
        ["Act <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }"],
    )
    # onnx's evaluator knows no attributes that a call leaves out, so it is no judge here.
    loaded = load(proto)
    leaky = [n for n in loaded.graph if n.op_type == "LeakyRelu"]
    assert [n.attributes.get_float("alpha", None) for n in leaky] == [0.5, None]


def test_bodies_inside_functions_read_the_arguments():
    proto = model(
        "c = ReduceSum <keepdims = 0> (x) p = Greater (c, c) [k] y = f.Pick (p, x, z)",
        [
            """Pick (cond, a, b) => (r) {
              r = If (cond) <
                then_branch = t () => (float[2, 3] o) { o = Add (a, b) },
                else_branch = e () => (float[2, 3] o) { u = Mul (a, b) o = Neg (u) }>
            }"""
        ],
    )
    loaded = assert_same_results(proto)
    names = [v.name for _, g in loaded.graphs() for n in g for v in n.outputs]
    assert len(names) == len(set(names))


def test_calls_inside_bodies_are_expanded():
    proto = model(
        """c = ReduceSum <keepdims = 0> (x) p = Greater (c, c)
           y = If (p) <
             then_branch = t () => (float[2, 3] o) { o = f.Twice (x) },
             else_branch = e () => (float[2, 3] o) { o = f.Twice (z) }>""",
        ["Twice (a) => (b) { b = Add (a, a) }"],
    )
    loaded = assert_same_results(proto)
    assert {n.op_type for _, g in loaded.graphs() for n in g} >= {"Add", "If"}


def test_an_input_handed_through_gets_an_identity():
    proto = model(
        "m, y = f.Both (x)",
        ["Both (a) => (a, b) { b = Neg (a) }"],
        outputs="float[2, 3] m, float[2, 3] y",
    )
    loaded = assert_same_results(proto)
    assert [v.name for v in loaded.outputs] == ["m", "y"]
    assert loaded.outputs[0].producer().op_type == "Identity"


def test_one_value_for_two_outputs_gets_an_identity():
    proto = model(
        "m, y = f.Both (x)",
        ["Both (a) => (b, b) { b = Neg (a) }"],
        outputs="float[2, 3] m, float[2, 3] y",
    )
    assert [v.name for v in assert_same_results(proto).outputs] == ["m", "y"]


def test_inputs_left_out_stay_left_out():
    proto = model(
        "y = f.Limit (x)",
        ["Limit (a, low, high) => (b) { b = Clip (a, low, high) }"],
    )
    (clip,) = load(proto).graph
    assert list(clip.inputs[1:]) == [None, None]


def test_a_function_may_stand_for_an_op_of_the_default_domain():
    proto = parse_model(
        f"""{HEAD} g (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) {{ y = Relu (x) }}
        <opset_import: ["" : 17], domain: ""> Relu (a) => (b) {{ b = Neg (a) }}"""
    )
    (negated,) = load(proto).graph
    assert negated.op_type == "Neg"


def test_too_many_inputs_are_refused():
    proto = model("[k] y = f.F (x, z)", ["F (a) => (b) { b = Neg (a) }"])
    with pytest.raises(InvalidModelError, match="function 'F' is called with 2 inputs; it takes 1"):
        load(proto)


def test_too_many_outputs_are_refused():
    proto = model("[k] y, w = f.F (x)", ["F (a) => (b) { b = Neg (a) }"])
    with pytest.raises(InvalidModelError, match="takes 2 outputs of function 'F', which has 1"):
        load(proto)


@pytest.mark.parametrize(
    ("op", "fits"), [("b = Relu (a)", True), ("b = ReduceMax <keepdims = 1> (a)", False)]
)
def test_another_opset_fits_if_it_means_the_same(op, fits):
    text = f"""<ir_version: 9, opset_import: ["" : 18, "f" : 1]>
      g (float[2, 3] x) => (float y) {{ y = f.F (x) }}
      <opset_import: ["" : 17], domain: "f"> F (a) => (b) {{ {op} }}"""
    if fits:
        assert load(parse_model(text)).graph[0].version == 18
        return
    with pytest.raises(
        UnsupportedModelError,
        match="imports opset 17 of domain '', the model opset 18, and ReduceMax differs",
    ):
        load(parse_model(text))


def test_ten_thousand_calls_of_one_function():
    body = helper.make_node
    nodes = [body("F", [f"v{i}"], [f"v{i + 1}"], domain="f") for i in range(10_000)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("v0", 1, [2])], [value("v10000", 1, [2])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    function = helper.make_function("f", "F", ["a"], ["b"], [body("Relu", ["a"], ["b"])], imports)
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=[function])
    loaded = load(proto)
    assert len({n.name for n in loaded.graph}) == 10_000


def test_constants_of_functions_become_weights_of_each_call():
    constant = numpy_helper.from_array(np.full(3, 2, np.float32))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    function = helper.make_function(
        "f",
        "Double",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["two"], value=constant),
            helper.make_node("Mul", ["a", "two"], ["b"]),
        ],
        imports,
    )
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Double", ["x"], ["m"], domain="f", name="one"),
        helper.make_node("Double", ["m"], ["y"], domain="f", name="other"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [2, 3]), value("z", 1, [2, 3])], [value("y", 1, [2, 3])]
    )
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=[function])
    loaded = assert_same_results(proto)
    assert set(loaded.parameters) == {"one/two", "other/two"}
