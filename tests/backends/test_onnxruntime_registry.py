from __future__ import annotations

import pytest

from partita.backends.onnxruntime_registry import Kernel, engine_registry

pytestmark = pytest.mark.engine("onnxruntime")


def test_ceilings_are_read_from_the_engine() -> None:
    found = engine_registry()
    assert found.opsets[""] >= 18
    assert found.opsets["ai.onnx.ml"] >= 3
    assert found.ir_version >= 9


def test_signatures_are_those_in_force() -> None:
    found = engine_registry()
    softmax = ("", "Softmax")
    assert [found.signature(softmax, v).since for v in (1, 11, 12, 13, 20)] == [1, 11, 11, 13, 13]  # type: ignore[union-attr]
    assert found.signature(softmax, 0) is None
    assert found.signature(("", "NoSuchOp"), 20) is None


def test_the_cpu_has_kernels_with_versions() -> None:
    kernels = engine_registry().kernels["CPUExecutionProvider"][("", "Relu")]
    floats = [k for k in kernels if "tensor(float)" in k.types["T"]]
    assert any(k.covers(14) for k in floats)
    assert any(k.covers(6) for k in floats)
    assert not any(k.covers(99) for k in kernels)


@pytest.mark.parametrize(
    ("kernel", "since", "covered"),
    [
        (Kernel(7, 12, {}), 11, True),
        (Kernel(7, 12, {}), 13, False),
        (Kernel(13, None, {}), 13, True),
        (Kernel(13, None, {}), 14, False),
    ],
)
def test_an_open_kernel_covers_its_own_version_alone(
    kernel: Kernel, since: int, covered: bool
) -> None:
    assert kernel.covers(since) is covered
