from __future__ import annotations

from partita.backends.null import NullBackend
from partita.testing import BackendConformance


class TestNull(BackendConformance):
    backend = NullBackend
    numbers = False
