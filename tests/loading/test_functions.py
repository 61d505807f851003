from __future__ import annotations

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from partita.errors import InvalidModelError, LimitError
from partita.loading.functions import Calls, check_expansion
from partita.loading.limits import Limits
from partita.loading.stage import load

node = helper.make_node
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]


def function(name, nodes, inputs=("a",), outputs=("b",), **more):
    return helper.make_function("f", name, list(inputs), list(outputs), nodes, IMPORTS, **more)


def calling(name, functions, **attributes):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node(name, ["x"], ["y"], domain="f", name="call", **attributes)],
        "g",
        [value("x", 1, [2, 3])],
        [value("y", 1, [2, 3])],
    )
    return helper.make_model(graph, opset_imports=IMPORTS, ir_version=9, functions=functions)


def laughs(levels):
    """Each function calls the one before it twice."""
    found = [function("L0", [node("Relu", ["a"], ["b"])])]
    for level in range(1, levels + 1):
        below = f"L{level - 1}"
        calls = [node(below, ["a"], ["c"], domain="f"), node(below, ["c"], ["b"], domain="f")]
        found.append(function(f"L{level}", calls))
    return calling(f"L{levels}", found)


def chain(length):
    found = [function("L0", [node("Relu", ["a"], ["b"])])]
    for level in range(1, length):
        calls = [node(f"L{level - 1}", ["a"], ["b"], domain="f")]
        found.append(function(f"L{level}", calls))
    return calling(f"L{length - 1}", found)


def test_exponential_expansion_is_refused_before_expanding():
    with pytest.raises(LimitError, match=r"expand 50 nodes to 16,777,216; at most 100,000"):
        load(laughs(24))


def test_expansion_beyond_any_number_is_refused():
    with pytest.raises(LimitError, match=r"nodes to about 10\^18"):
        load(laughs(60))


def test_moderate_expansion_is_expanded():
    assert len(load(laughs(10)).graph) == 1024


def test_the_limits_may_be_changed():
    with pytest.raises(LimitError, match="expand 22 nodes to 1,024; at most 1,000 are taken"):
        load(laughs(10), limits=Limits(expanded_nodes=1000))


def test_large_files_may_expand_by_a_factor():
    with pytest.raises(LimitError, match="to 400,001; at most 400,000"):
        Limits().check_expansion(20_000, 400_001)
    Limits().check_expansion(20_000, 400_000)
    with pytest.raises(LimitError, match="to 1,000,001; at most 1,000,000"):
        Limits().check_expansion(900_000, 1_000_001)


def test_deep_chains_of_calls_are_refused():
    with pytest.raises(LimitError, match="nested 3,000 deep; at most 64 are taken"):
        load(chain(3000))
    assert len(load(chain(64)).graph) == 1


def test_recursion_is_refused_and_named():
    there = function("There", [node("Back", ["a"], ["b"], domain="f")])
    back = function("Back", [node("There", ["a"], ["b"], domain="f")])
    with pytest.raises(InvalidModelError, match="in a circle: f::There -> f::Back -> f::There"):
        load(calling("There", [there, back]))


def test_recursion_through_a_body_is_refused():
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Deep", ["a"], ["o"], domain="f")], "b", [], [value("o", 1, None)]
    )
    deep = function("Deep", [node("If", ["a"], ["b"], then_branch=body, else_branch=body)])
    with pytest.raises(InvalidModelError, match="in a circle: f::Deep -> f::Deep"):
        load(calling("Deep", [deep]))


def test_two_functions_of_one_name_are_refused():
    one = function("F", [node("Relu", ["a"], ["b"])])
    with pytest.raises(InvalidModelError, match="two functions are named 'f::F'"):
        load(calling("F", [one, one]))


def test_a_function_without_a_name_is_refused():
    with pytest.raises(InvalidModelError, match="a function has no legal name"):
        load(calling("F", [onnx.FunctionProto(domain="f")]))


def test_faults_inside_functions_name_the_function():
    broken = function("F", [node("Relu", ["nothing"], ["b"], name="r")])
    with pytest.raises(InvalidModelError, match="function 'f::F': node 'r': value 'nothing'"):
        load(calling("F", [broken]))
    without_imports = function("G", [node("Relu", ["a"], ["b"])])
    del without_imports.opset_import[:]
    with pytest.raises(InvalidModelError, match="function 'f::G': node 'Relu_0': is of domain ''"):
        load(calling("G", [without_imports]))
    silent = function("H", [node("Relu", ["a"], ["c"])])
    with pytest.raises(InvalidModelError, match="function 'f::H': value 'b': is an output"):
        load(calling("H", [silent]))


CALLS = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(1, 5), st.lists(st.integers(0, n - 1), max_size=3)),
        min_size=n,
        max_size=n,
    )
)


@given(CALLS)
def test_expanded_size_is_what_expanding_would_give(levels):
    functions: dict[tuple[str, str, str], Calls] = {}
    expanded: list[int] = []
    for index, (own, callees) in enumerate(levels):
        below = [c for c in callees if c < index]
        calls = Calls(nodes=own + len(below))
        for callee in below:
            calls.add(("", f"F{callee}", ""))
        functions["", f"F{index}", ""] = calls
        expanded.append(own + sum(expanded[c] for c in below))
    main = Calls(nodes=1)
    main.add(("", f"F{len(levels) - 1}", ""))
    check_expansion(main, functions, Limits(expanded_nodes=expanded[-1]))
    with pytest.raises(LimitError, match=f"to {expanded[-1]:,}; at most {expanded[-1] - 1:,}"):
        check_expansion(main, functions, Limits(expanded_nodes=expanded[-1] - 1))
