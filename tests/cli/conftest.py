from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from typer.testing import CliRunner, Result

from partita.cli import digits
from partita.cli.app import app

BACKENDS = """
import numpy as np
from partita import Backend


class Exact(Backend):
    name = "exact"
    options = {"scale": 1.0}

    def why_not(self, node):
        return None if node.op_type in ("Relu", "Neg") else f"{node.op_type} has no kernel"

    def compile(self, region):
        scale = self.options["scale"]
        operations = [node.op_type for node in region.ir_nodes]

        def run(x):
            for operation in operations:
                x = np.maximum(x, 0) if operation == "Relu" else -x
            return (x * np.float32(scale),)

        return run


class Failing(Backend):
    name = "failing"

    def why_not(self, node):
        return None if node.op_type == "Relu" else f"{node.op_type} is not Relu"

    def compile(self, region):
        print("an engine that prints")
        raise RuntimeError("the engine cannot\\nmake it")
"""


class Command:
    """Runs the command line in this process."""

    def __call__(self, *words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(w) for w in words])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        if code:
            assert "partita: error: " in result.stderr
        return result

    def json(self, *words: object, code: int = 0) -> dict[str, Any]:
        """Returns the document; standard output must hold nothing else."""
        document = json.loads(self(*words, "--json", code=code).stdout)
        assert document["schema"] == f"partita.{words[0]}"
        assert document["version"] == 1
        return document


@pytest.fixture(scope="session")
def partita() -> Command:
    return Command()


@pytest.fixture(scope="session")
def digits_model() -> Path:
    return digits.model_path()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python file with two backends: one that may be made to compute wrongly, one that fails."""
    path = tmp_path_factory.mktemp("library") / "backends.py"
    path.write_text(BACKENDS)
    return path


ChainWriter = Callable[..., Path]


@pytest.fixture
def chain(tmp_path: Path) -> ChainWriter:
    """Writes a model that applies ops of one input in a row."""

    def write(*ops: str, names: tuple[str, ...] = (), file: str = "chain.onnx") -> Path:
        kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(("batch", 3))
        value = first = ir.Value(name="x", type=kind, shape=shape)
        nodes: list[ir.Node] = []
        for i, op in enumerate(ops):
            name = names[i] if i < len(names) else f"{op.lower()}_{i}"
            nodes.append(ir.Node("", op, [value], name=name))
            value = nodes[-1].outputs[0]
            value.name, value.type, value.shape = f"v{i}", kind, shape
        graph = ir.Graph([first], [value], nodes=nodes, opset_imports={"": 20}, name="chain")
        ir.save(ir.Model(graph, ir_version=10), tmp_path / file)
        return tmp_path / file

    return write
