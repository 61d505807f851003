"""All node tests of onnx: the operators' own examples, with inputs and outputs."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(scope="session")
def node_cases():
    import onnx.backend.test.loader as loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind="node")
