from __future__ import annotations

import pytest

from partita.backends.openvino import OpenVinoBackend
from partita.testing import BackendConformance


@pytest.mark.engine("openvino")
class TestOpenVino(BackendConformance):
    backend = OpenVinoBackend
    random_models = 8  # each is compiled five times over
