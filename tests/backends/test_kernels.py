from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made import model_of
from partita.backends.contract import Backend, Node, Region
from partita.backends.kernels import KernelTable
from partita.errors import CompileError, ContractError
from single import floats, one_node, only_node, region_of


def table() -> KernelTable:
    made = KernelTable("mine")

    @made.kernel("Relu", "Exp", dtypes=("float32", "float64"))
    def elementwise(node: Node) -> Any:
        return (lambda x: np.maximum(x, 0)) if node.op_type == "Relu" else np.exp

    @made.kernel("Softmax", dtypes=("float32",))
    def softmax(node: Node) -> Any:
        axis = node.attributes.get_int("axis", -1)

        def run(x: Any) -> Any:
            raised = np.exp(x - x.max(axis=axis, keepdims=True))
            return raised / raised.sum(axis=axis, keepdims=True)

        return run

    @made.kernel("Gather", dtypes={"data": ("float32",), "Tind": ("int64",)})
    def gather(node: Node) -> Any:
        return lambda x, i: np.take(x, i, axis=node.attributes.get_int("axis", 0))

    @made.kernel("Add", where=(_scalar_second,))
    def add(node: Node) -> Any:
        return np.add

    return made


def _scalar_second(node: Node) -> str | None:
    second = node.inputs[1]
    assert second is not None
    if second.shape is not None and len(second.shape) == 0:
        return None
    return f"input '{second.name}' is no scalar; the Add kernel adds scalars"


@pytest.mark.parametrize(
    ("op", "opset", "arrays", "sentence"),
    [
        ("Relu", 14, [floats(2)], None),
        ("Gelu", 20, [floats(2)], "no kernel for Gelu"),
        (
            "Softmax",
            13,
            [floats(2).astype(np.float64)],
            "input 'i0' is float64; the Softmax kernel takes float32",
        ),
        (
            "Softmax",
            11,
            [floats(2, 2)],
            "the Softmax kernel takes opset 13 and later; the node is at 11",
        ),
        (
            "Gather",
            13,
            [floats(2), np.array([1], np.int32)],
            "input 'i1' is int32; the Gather kernel takes int64",
        ),
        ("Gather", 13, [floats(2), np.array([1])], None),
        ("Add", 14, [floats(2), floats()], None),
        ("Add", 14, [floats(2), floats(2)], "input 'i1' is no scalar; the Add kernel adds scalars"),
    ],
)
def test_table_answers_with_sentences(
    op: str, opset: int, arrays: list[Any], sentence: str | None
) -> None:
    assert table().why_not(only_node(one_node(op, opset, arrays))) == sentence


def test_unknown_op_gets_near_matches() -> None:
    node = only_node(one_node("Relu", 14, [floats(2)]))
    node.op_type = "Sotfmax"
    refusal = table().why_not(node) or ""
    assert refusal.startswith("no kernel for Sotfmax; no op of ONNX is named 'Sotfmax'")
    assert "did you mean 'Softmax'" in refusal


def test_unknown_dtype_is_refused() -> None:
    node = only_node(one_node("Relu", 14, [floats(2)]))
    value = node.inputs[0]
    assert value is not None
    value.type = None
    assert table().why_not(node) == (
        "input 'i0' is of unknown dtype; the Relu kernel takes float32 or float64"
    )


def test_emit_refuses_what_why_not_refuses() -> None:
    node = only_node(one_node("Gelu", 20, [floats(2)]))
    with pytest.raises(CompileError, match="node 'node': no kernel for Gelu"):
        table().emit(node)


def test_a_row_needs_an_op() -> None:
    with pytest.raises(ContractError, match="kernel table 'mine': name at least one op"):
        KernelTable("mine").kernel()


@settings(max_examples=20)
@given(chain=st.lists(st.sampled_from(["Relu", "Exp", "Softmax"]), min_size=1, max_size=12))
def test_compiled_region_equals_its_nodes_one_by_one(chain: list[str]) -> None:
    names = ["x", *(f"v{i}" for i in range(len(chain) - 1)), "y"]
    links = zip(chain, names, names[1:], strict=False)
    text = "\n".join(f"{b} = {op}({a})" for op, a, b in links)
    model, x = model_of(text), floats(2, 3)
    made = table()
    wanted = x
    for node in model.graph:
        wanted = made.emit(node)(wanted)
    (got,) = made.compile(region_of(model))(x)
    np.testing.assert_array_equal(got, wanted)


def test_weights_are_bound_and_threads_do_not_disturb() -> None:
    model = one_node("Gather", 13, [floats(50, 4), np.zeros(3, np.int64)], weights=(0,))
    call = table().compile(region_of(model))
    rows = [np.array([i, i + 1, i + 2]) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, rows))
    for row, (result,) in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result, floats(50, 4)[row])


def test_a_backend_of_one_table_is_complete() -> None:
    made = table()

    class Mine(Backend):
        name = "mine"

        def why_not(self, node: Node) -> str | None:
            return made.why_not(node)

        def compile(self, region: Region) -> Any:
            return made.compile(region)

    model = one_node("Relu", 14, [floats(3)])
    backend = Mine()
    assert backend.why_not(only_node(model)) is None
    (got,) = backend.compile(region_of(model))(floats(3))
    np.testing.assert_array_equal(got, np.maximum(floats(3), 0))
