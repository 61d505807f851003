from __future__ import annotations

import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st
from onnx.parser import parse_model

from partita.loading.naming import graphs_outermost_first, make_names_unique
from partita.loading.stage import load

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def names(model):
    nodes, values = [], []
    for _, graph in model.graphs():
        values += [v.name for v in (*graph.inputs, *graph.initializers.values())]
        for node in graph:
            nodes.append(node.name)
            values += [v.name for v in node.outputs if v.name]
    return nodes, values


def test_unnamed_nodes_are_called_by_op_and_position():
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2] x) => (float[2] y) {{
              a = Relu (x) [mine] b = Neg (a) [mine] c = Relu (b) [Relu_3] y = Neg (c) }}"""
        )
    )
    assert [n.name for n in loaded.graph] == ["Relu_0", "mine", "Relu_2", "Relu_3"]


def test_a_given_name_is_not_taken_by_an_unnamed_node_before_it():
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2] x) => (float[2] y) {{ a = Relu (x) [Relu_0] y = Neg (a) }}"""
        )
    )
    assert [n.name for n in loaded.graph] == ["Relu_0_1", "Relu_0"]


def test_bodies_share_no_names_and_outer_ones_win():
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2] x, bool c) => (float[2] y) {{
              [n] y = If (c) <
                then_branch = t () => (float[2] o) {{ [n] x = Neg (k) [m] o = Relu (x) }},
                else_branch = e () => (float[2] o) {{ [n] o = Relu (x) }}>
              [k] k = Neg (x) }}"""
        )
    )
    nodes, values = names(loaded)
    assert len(set(nodes)) == len(nodes)
    assert len(set(values)) == len(values)
    assert [v.name for v in loaded.inputs] == ["x", "c"]
    then = loaded.graph[1].attributes["then_branch"].as_graph()
    relu = then[1]
    assert relu.inputs[0].producer().op_type == "Neg"  # the inner x, under another name now


NAMES = st.sampled_from(["", "a", "b", "a_1", "Relu_0", "Relu_1", "a_output_0"])


@given(st.lists(st.tuples(NAMES, NAMES, st.booleans()), min_size=1, max_size=8))
def test_all_names_become_unique_and_unique_ones_stay(rows):
    source = ir.Value(name="x")
    inner_nodes, outer_nodes = [], []
    for node_name, value_name, inside in rows:
        output = ir.Value(name=value_name)
        node = ir.Node("", "Relu", [source], outputs=[output], name=node_name)
        (inner_nodes if inside else outer_nodes).append(node)
    body = ir.Graph([], [n.outputs[0] for n in inner_nodes], nodes=inner_nodes)
    holder = ir.Node("", "If", [source], [ir.AttrGraph("then_branch", body)], name="holder")
    graph = ir.Graph([source], [n.outputs[0] for n in outer_nodes], nodes=[holder, *outer_nodes])
    given_nodes = [n.name for n in (*outer_nodes, *inner_nodes)]
    model = ir.Model(graph, ir_version=9)
    make_names_unique(model)
    found = [n.name for g in graphs_outermost_first(graph) for n in g]
    assert len(set(found)) == len(found)
    assert all(found)
    for node, given_name in zip((*outer_nodes, *inner_nodes), given_nodes, strict=True):
        if given_name and given_nodes.count(given_name) == 1:
            assert node.name == given_name
    values = [v.name for g in graphs_outermost_first(graph) for n in g for v in n.outputs if v.name]
    assert len({*values, "x"}) == len(values) + 1
    before = (found, values)
    make_names_unique(model)
    again = [n.name for g in graphs_outermost_first(graph) for n in g]
    assert (again, values) == before


def test_outputs_left_out_stay_without_a_name():
    loaded = load(
        parse_model(
            f"""{HEAD} g (float[2, 3] x) => (int64[2, 1] y) {{
              k = Constant <value_ints = [1]> () "", y = TopK (x, k) }}"""
        )
    )
    assert [v.name for v in loaded.graph[0].outputs] == ["", "y"]
