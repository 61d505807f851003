from __future__ import annotations

import pytest

from partita.backends.onnxruntime import OnnxRuntimeBackend
from partita.testing import BackendConformance


@pytest.mark.engine("onnxruntime")
class TestOnnxRuntime(BackendConformance):
    backend = OnnxRuntimeBackend
    options = {"threads": 1}  # noqa: RUF012
