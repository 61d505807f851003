"""The conformance kit of partita, asked of the example backend."""

from partita_example_backend import TinyBackend

from partita.testing import BackendConformance


class TestTinyBackend(BackendConformance):
    """Some hundreds of tests: ops of ONNX, hazards, random models, promises of the contract."""

    backend = TinyBackend
