"""Every rule that a hostile or careless file may break, and the words of its error."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from partita.errors import InvalidModelError, LimitError, ModelError, UnsupportedModelError
from partita.loading.limits import Limits
from partita.loading.stage import load
from partita.loading.validate import validate

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'
FLOATS = "float[2, 3]"


def model(body: str, inputs: str = f"{FLOATS} x", outputs: str = f"{FLOATS} y") -> onnx.ModelProto:
    return parse_model(f"{HEAD} g ({inputs}) => ({outputs}) {{ {body} }}")


def built(*nodes: onnx.NodeProto, **changes) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "g",
        changes.pop("inputs", [value("x", 1, [2, 3])]),
        changes.pop("outputs", [value("y", 1, [2, 3])]),
        changes.pop("weights", []),
    )
    imports = changes.pop("imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=imports, **{"ir_version": 9, **changes})


node = helper.make_node
relu = node("Relu", ["x"], ["y"], name="r")

STRUCTURE = {
    "no graph": (onnx.ModelProto(ir_version=9), "holds no graph"),
    "no ir_version": (built(relu, ir_version=0), "has no ir_version"),
    "no outputs": (built(relu, outputs=[]), "its graph has no outputs"),
    "self-loop": (
        built(node("Add", ["x", "y"], ["y"], name="A")),
        r"the graph has a cycle: 'A' -> 'A'",
    ),
    "two nodes make one value": (
        built(relu, node("Neg", ["x"], ["y"], name="n")),
        r"node 'n': value 'y': is made a second time; node 'r' has this name already",
    ),
    "a node makes an input": (
        built(node("Relu", ["x"], ["x"]), relu),
        r"node 'Relu_0': value 'x': is made a second time; a graph input or weight",
    ),
    "two inputs of one name": (
        built(relu, inputs=[helper.make_tensor_value_info("x", 1, [2])] * 2),
        r"value 'x': two graph inputs have this name",
    ),
    "two weights of one name": (
        built(
            node("Add", ["x", "w"], ["y"]),
            weights=[helper.make_tensor("w", 1, [3], [1.0, 2.0, 3.0])] * 2,
        ),
        r"value 'w': two weights have this name",
    ),
    "dangling input": (
        built(
            node("Relu", ["xx_long_name"], ["y"]),
            weights=[helper.make_tensor("xx_long_nam", 1, [1], [1.0])],
        ),
        r"node 'Relu_0': value 'xx_long_name': is read, but no node, input or weight has this "
        r"name; near: xx_long_nam",
    ),
    "missing output": (
        built(node("Relu", ["x"], ["z"])),
        r"value 'y': is an output of the graph, but nothing there makes it",
    ),
    "no op type": (built(node("", ["x"], ["y"])), "node '_0': has no op_type"),
    "unknown op": (
        built(node("Sofmax", ["x"], ["y"])),
        r"node 'Sofmax_0': the default domain has no op Sofmax in any version; did you mean "
        r"Softmax or LogSoftmax\?",
    ),
    "op of a later opset": (
        built(node("Gelu", ["x"], ["y"])),
        "Gelu came with opset 20 of the default domain; the model imports opset 17",
    ),
    "withdrawn op": (
        built(node("Upsample", ["x", "x"], ["y"])),
        "Upsample was withdrawn in opset 10 of the default domain",
    ),
    "too few inputs": (built(node("Add", ["x"], ["y"])), "has 1 input; its op takes 2"),
    "too many outputs": (
        built(node("Relu", ["x"], ["y", "z"])),
        "has 2 outputs; its op takes 1",
    ),
    "required attribute": (built(node("Cast", ["x"], ["y"])), "lacks attribute 'to'"),
    "attribute of another type": (
        built(node("Softmax", ["x"], ["y"], axis="last")),
        "has attribute 'axis' of type STRING; its op wants INT",
    ),
    "domain not imported": (
        built(node("Foo", ["x"], ["y"], domain="com.x")),
        "is of domain 'com.x', which the model does not import",
    ),
    "opset 0": (
        built(relu, imports=[helper.make_opsetid("", 0)]),
        "imports opset 0 of domain ''; versions start at 1",
    ),
    "two versions of one domain": (
        built(relu, imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx", 18)]),
        "imports domain '' in versions 17 and 18",
    ),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_broken_structure_is_refused_in_words(case):
    proto, words = STRUCTURE[case]
    with pytest.raises(InvalidModelError, match=words) as caught:
        load(proto)
    assert caught.value.file == "<ModelProto>"


def test_a_cycle_is_named_node_by_node():
    proto = model(
        """[up] a = Add (x, c)
           [mid] b = Relu (a)
           [down] c = Relu (b)
           y = Relu (c)"""
    )
    with pytest.raises(InvalidModelError, match="the graph has a cycle: ") as caught:
        load(proto)
    assert all(name in str(caught.value) for name in ("'up'", "'mid'", "'down'"))


def test_a_cycle_through_a_body_is_found():
    proto = model(
        """[branch] a = If (c) <
             then_branch = t () => (float[2, 3] p) { p = Relu (b) },
             else_branch = e () => (float[2, 3] q) { q = Relu (x) }>
           [back] b = Neg (a)
           y = Relu (b)""",
        inputs=f"{FLOATS} x, bool c",
    )
    with pytest.raises(InvalidModelError, match=r"'branch' -> 'back'|'back' -> 'branch'"):
        load(proto)


def test_unsorted_nodes_are_sorted_and_the_rest_keeps_its_order():
    proto = model("y = Add (a, b) b = Neg (x) a = Relu (x)")
    assert not validate(proto, "f", Limits()).in_order
    assert [n.op_type for n in load(proto).graph] == ["Neg", "Relu", "Add"]


def test_unsorted_nodes_around_a_body_are_sorted():
    proto = model(
        """y = If (c) <
             then_branch = t () => (float[2, 3] p) { p = Relu (late) },
             else_branch = e () => (float[2, 3] q) { q = Relu (r) r = Neg (x) }>
           late = Neg (x)""",
        inputs=f"{FLOATS} x, bool c",
    )
    loaded = load(proto)
    assert [n.op_type for n in loaded.graph] == ["Neg", "If"]
    branch = loaded.graph[1].attributes["else_branch"].as_graph()
    assert [n.op_type for n in branch] == ["Neg", "Relu"]


def test_a_body_may_not_return_an_outer_value():
    proto = model(
        """y = If (c) <
             then_branch = t () => (float[2, 3] x) { },
             else_branch = e () => (float[2, 3] q) { q = Relu (x) }>""",
        inputs=f"{FLOATS} x, bool c",
    )
    with pytest.raises(InvalidModelError, match="returns an outer value through an Identity"):
        load(proto)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ir_version": 99}, "is written in ONNX IR version 99; the installed onnx"),
        (
            {"imports": [helper.make_opsetid("", 99)]},
            "imports opset 99 of domain ''; the installed",
        ),
    ],
)
def test_newer_than_the_installed_onnx_is_unsupported(change, words):
    with pytest.raises(UnsupportedModelError, match=words):
        load(built(relu, **change))


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_since_seven_loads(opset):
    loaded = load(built(relu, imports=[helper.make_opsetid("", opset)]))
    assert loaded.opset == opset
    assert loaded.graph[0].version == opset


def test_both_spellings_of_the_default_domain_mean_the_same():
    proto = built(
        node("Relu", ["x"], ["y"], domain="ai.onnx"), imports=[helper.make_opsetid("ai.onnx", 17)]
    )
    loaded = load(proto)
    assert loaded.opset == 17
    assert loaded.graph[0].domain == ""


def test_a_custom_domain_is_legal():
    proto = built(
        node("Foo", ["x"], ["y"], domain="com.x", anything=[1, 2]),
        imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.x", 3)],
    )
    assert load(proto).graph[0].version == 3


def test_a_model_before_opsets_means_opset_one():
    proto = built(node("Relu", ["x"], ["y"]), ir_version=1, imports=[])
    assert load(proto).opset == 1


TYPES = {
    "unknown dtype": (99, [2], InvalidModelError, "its element type is number 99; ONNX has 1 to"),
    "negative": (1, [2, -3], InvalidModelError, r"its shape is \[2, -3\]; a dimension cannot be"),
    "huge": (1, [2**62, 2**62], LimitError, r"its shape .* means 85,070,.* bytes; at most"),
    "rank": (1, [1] * 33, LimitError, "it has 33 dimensions; at most 32 are taken"),
}


@pytest.mark.parametrize("place", ["input", "output", "value_info"])
@pytest.mark.parametrize("case", TYPES)
def test_impossible_types_are_refused(case, place):
    dtype, shape, error, words = TYPES[case]
    proto = built(node("Relu", ["x"], ["m"]), node("Relu", ["m"], ["y"]))
    name = {"input": "x", "output": "y", "value_info": "m"}[place]
    info = helper.make_tensor_value_info(name, 1, shape)
    info.type.tensor_type.elem_type = dtype
    fields = {
        "input": proto.graph.input,
        "output": proto.graph.output,
        "value_info": proto.graph.value_info,
    }
    del fields[place][:]
    fields[place].append(info)
    with pytest.raises(error, match=words) as caught:
        load(proto)
    assert caught.value.value == name


def test_a_map_is_refused_with_advice():
    proto = built(relu)
    proto.graph.input[0].type.map_type.key_type = TensorProto.INT64
    with pytest.raises(UnsupportedModelError, match=r"its type is a map; .* zipmap=False"):
        load(proto)


@pytest.mark.parametrize("field", ["name", "op_type", "input", "output", "dim", "attribute"])
def test_names_that_are_not_utf8_are_refused(field):
    marker = "Relux" if field == "op_type" else "MARK"
    proto = built(
        node("Softmax", ["x"], ["y"], name=marker if field == "name" else "n", axis=1),
    )
    if field == "op_type":
        proto.graph.node[0].op_type = marker
    elif field == "input":
        proto.graph.node[0].input[0] = marker
        proto.graph.input[0].name = marker
    elif field == "output":
        proto.graph.node[0].output[0] = marker
        proto.graph.output[0].name = marker
    elif field == "dim":
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = marker
    elif field == "attribute":
        proto.graph.node[0].attribute[0].name = marker
    data = proto.SerializeToString().replace(marker.encode(), b"\xff" * len(marker))
    with pytest.raises(InvalidModelError, match=r"not UTF-8|without a legal name"):
        load(data)


def test_long_names_are_refused():
    with pytest.raises(LimitError, match="has 20,000 characters; at most 10,000 are taken"):
        load(built(node("Relu", ["x"], ["y" * 20_000]), relu))


def test_two_attributes_of_one_name_are_refused():
    proto = built(node("Softmax", ["x"], ["y"], axis=1))
    proto.graph.node[0].attribute.append(proto.graph.node[0].attribute[0])
    with pytest.raises(InvalidModelError, match="has two attributes named 'axis'"):
        load(proto)


def test_a_reference_to_an_attribute_needs_a_function():
    proto = built(node("Softmax", ["x"], ["y"]))
    proto.graph.node[0].attribute.append(
        onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="a")
    )
    with pytest.raises(InvalidModelError, match="refers to 'a', which no function declares here"):
        load(proto)


def nested(depth: int) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    inner = helper.make_graph([node("Relu", ["x"], ["o"])], "b", [], [value("o", 1, [2, 3])])
    for level in range(depth):
        name = f"o{level}"
        branch = node("If", ["c"], [name], then_branch=inner, else_branch=inner)
        del branch.attribute[1].g.node[:]
        branch.attribute[1].g.node.append(
            node("Neg", ["x"], [branch.attribute[1].g.output[0].name])
        )
        inner = helper.make_graph([branch], "b", [], [value(name, 1, [2, 3])])
    inputs = [value("x", 1, [2, 3]), value("c", TensorProto.BOOL, [])]
    return built(*inner.node, inputs=inputs, outputs=list(inner.output))


def test_thirty_bodies_inside_each_other_load():
    assert len(list(load(nested(30).SerializeToString()).graphs())) == 61


def test_bodies_nested_deeper_than_allowed_are_refused():
    with pytest.raises(LimitError, match="bodies are nested deeper than 4"):
        load(nested(5), limits=Limits(body_depth=4))


def test_bodies_nested_deeper_than_protobuf_allows_are_refused():
    def field(number: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    graph = b""
    for _ in range(300):
        attribute = field(1, b"then_branch") + field(6, graph)
        graph = field(1, field(4, b"If") + field(5, attribute))
    with pytest.raises(LimitError, match="nested deeper than 100, which is about 32 bodies"):
        load(b"\x08\x09" + field(7, graph))


def test_too_many_nodes_are_refused():
    with pytest.raises(LimitError, match="2 nodes; at most 1 are taken"):
        load(model("a = Relu (x) y = Neg (a)"), limits=Limits(nodes=1))


def test_nodes_in_bodies_count():
    with pytest.raises(LimitError, match=r"nodes; at most 3 are taken \(Limits.nodes\)"):
        load(nested(3), limits=Limits(nodes=3))


def test_every_error_names_the_file(tmp_path):
    path = tmp_path / "broken.onnx"
    onnx.save(built(node("Relu", ["nothing"], ["y"])), path)
    with pytest.raises(ModelError, match=r"broken\.onnx: node 'Relu_0': value 'nothing'"):
        load(path)
