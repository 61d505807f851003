from __future__ import annotations

import json
import unittest
import zlib

import numpy as np
import onnx
import onnx.backend.test
import onnx.helper
import pytest

from partita.testing.onnx_backend import backend, reference_backend, run_suite, suite_of

SLICE = 40
"""One in so many of ONNX's tests runs here; bench/onnx_suite.py runs all."""


def chosen(name: str) -> bool:
    return zlib.crc32(name.encode()) % SLICE == 0 and "bernoulli" not in name


@pytest.mark.parametrize(
    ("backends", "assign", "save_and_load"),
    [
        (("onnxruntime",), None, False),
        (("onnxruntime",), 1, True),
        pytest.param(("onnxruntime", "openvino"), 2, False, marks=pytest.mark.engine("openvino")),
        pytest.param(("openvino",), None, True, marks=pytest.mark.engine("openvino")),
        (("host",), None, False),
    ],
)
@pytest.mark.engine("onnxruntime")
def test_what_the_reference_passes_partita_passes(
    backends: tuple[str, ...], assign: int | None, save_and_load: bool
) -> None:
    report = run_suite(backend(backends, assign, save_and_load), keep=chosen)
    assert len(report.passed) > 30
    failed = {failure.test for failure in report.failures}
    reference = run_suite(reference_backend(), keep=failed.__contains__)
    assert not reference.passed, [f for f in report.failures if f.test in reference.passed]


def test_the_suite_is_complete_and_in_a_fixed_order() -> None:
    names = [name for name, _ in suite_of(reference_backend())]
    assert len(names) > 1800
    assert len(set(names)) == len(names)
    assert names == [name for name, _ in suite_of(reference_backend())]
    kinds = [name for name, _ in suite_of(reference_backend(), ["Simple"])]
    assert 0 < len(kinds) < 100


def test_a_report_counts_and_is_plain_data() -> None:
    report = run_suite(reference_backend(), ["Node"], keep=lambda n: n.startswith("test_relu"))
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["passed"] >= 1
    assert plain["failed"] == 0 == len(plain["failures"])


def test_a_failure_is_counted_with_its_reason() -> None:
    class Refuses(reference_backend()):  # type: ignore[misc]
        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: object) -> None:
            raise RuntimeError("not today")

    report = run_suite(Refuses, ["Node"], keep=lambda n: n.startswith("test_relu"))
    assert {f.error for f in report.failures} == {"RuntimeError: not today"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_onnx_runs_its_tests_through_it() -> None:
    runner = onnx.backend.test.BackendTest(backend(["host"], assign=0), __name__)
    cases = runner.include(r"^test_(relu|gemm_all_attributes|if)_cpu").test_cases
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(cases["OnnxBackendNodeModelTest"])
    result = unittest.TestResult()
    suite.run(result)
    assert not result.errors
    assert not result.failures
    assert result.testsRun - len(result.skipped) == 3


def test_a_single_node_runs() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    arrays = [np.float32([1, 2]), np.float32([[3], [4]])]
    (found,) = backend(["host"]).run_node(node, arrays)
    assert found.tolist() == [[4, 5], [5, 6]]
    (again,) = backend(["host"]).run_node(
        node, arrays, outputs_info=[(np.float32, (2, 2))], opset_version=14
    )
    assert again.tolist() == found.tolist()


def test_a_model_runs_by_position_and_by_name() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])],
        "negate",
        [onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("y", 1, [2])],
    )
    imports = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    prepared = backend(["host"]).prepare(model)
    x = np.float32([1, -2])
    for inputs in ([x], {"x": x}, x):
        assert prepared.run(inputs)[0].tolist() == [-1, 2]
    assert prepared.plan.placement == {prepared.program.steps[0].name: "host"}


def test_there_is_no_device_but_the_cpu() -> None:
    adapter = backend(["host"])
    assert adapter.supports_device("CPU")
    assert adapter.supports_device("CPU:0")
    assert not adapter.supports_device("CUDA")
    assert not adapter.is_compatible(onnx.ModelProto(), "CUDA")
    with pytest.raises(ValueError, match="device is 'CUDA'; there is 'CPU' only"):
        adapter.prepare(onnx.ModelProto(), "CUDA")
