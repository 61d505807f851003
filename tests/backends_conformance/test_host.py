from __future__ import annotations

from partita.backends.host import HostBackend
from partita.testing import BackendConformance


class TestHost(BackendConformance):
    backend = HostBackend
