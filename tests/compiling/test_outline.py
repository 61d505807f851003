from __future__ import annotations

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.compiling.outline import outline

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_checker_accepts_and_the_reference_computes_the_same(kit, seed: int) -> None:
    proto = kit.proto(seed)
    model = kit.as_model(proto)
    before = model.hash
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing()), seed)
    outlined = ir.to_proto(outline(plan).ir)
    onnx.checker.check_model(outlined, full_check=True)
    assert len(outlined.functions) == len(plan.regions)
    assert kit.as_model(proto).hash == before == model.hash


@pytest.mark.engine("onnxruntime")
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_onnxruntime_runs_it_alone_with_the_same_numbers(kit, seed: int) -> None:
    import onnxruntime

    proto = kit.proto(seed)
    model = kit.as_model(proto)
    plan = kit.random_plan(model, (kit.Numpy(), kit.Passing()), seed)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    feeds = kit.feeds_for(model, seed)
    text = ir.to_proto(outline(plan).ir).SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {v.name: x for v, x in zip(model.inputs, feeds, strict=True)})
    for a, b in zip(found, kit.expected(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
