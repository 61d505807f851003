"""The host against the engines: independent implementations of the same ops at every opset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from operator_cases import OperatorCase, all_cases
from partita.backends.contract import Backend
from partita.backends.host import HostBackend
from partita.backends.onnxruntime import OnnxRuntimeBackend
from partita.backends.openvino import OpenVinoBackend
from single import one_node, only_node, region_of

CASES = all_cases()


@pytest.fixture(scope="module", params=["onnxruntime", "openvino"])
def engine(request: pytest.FixtureRequest) -> Backend:
    pytest.importorskip(request.param)
    made = {"onnxruntime": OnnxRuntimeBackend, "openvino": OpenVinoBackend}
    return made[request.param](threads=1)


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c}" for i, c in enumerate(CASES)])
def test_host_and_engine_agree(case: OperatorCase, engine: Backend) -> None:
    model = one_node(case.op, case.opset, case.inputs, case.outputs, **case.attributes)
    node, region = only_node(model), region_of(model)
    arrays = [x for x in case.inputs if x is not None]
    assert HostBackend().why_not(node) is None
    mine = HostBackend().compile(region)(*arrays)
    for value, result in zip(region.cut.outputs, mine, strict=True):
        assert value.dtype is None or result.dtype == value.dtype.numpy()
    if engine.why_not(node) is not None:
        return
    for a, b in zip(mine, engine.compile(region)(*arrays), strict=True):
        close(a, b)


def close(a: Any, b: Any) -> None:
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    as_floats = [x.astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(*as_floats, rtol=2e-4, atol=2e-5, equal_nan=True)


def test_engines_take_most_of_the_cases(engine: Backend) -> None:
    """Otherwise the comparison above would compare little."""
    nodes = [
        only_node(one_node(c.op, c.opset, c.inputs, c.outputs, **c.attributes)) for c in CASES[::5]
    ]
    assert sum(engine.why_not(node) is None for node in nodes) > 0.6 * len(nodes)
