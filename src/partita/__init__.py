"""partita cuts a neural network into subgraphs and gives each to the backend that runs it best.

import partita as pt

model = pt.load("model.onnx")
plan = pt.partition(model, backends=["onnxruntime"], excluded_ops=["Softmax"])
print(plan)
program = pt.compile(plan)
(result,) = program(x)
"""

from __future__ import annotations

__version__ = "0.1.0"

from partita.backends.contract import (
    Backend,
    Executable,
    Pattern,
    Region,
    Selector,
    Strategy,
)
from partita.backends.kernels import KernelTable
from partita.backends.registry import backends, load_library
from partita.model import Model
from partita.partitioning.plan import Plan
from partita.running.program import Program
from partita.verbs import compare, compile, load, optimize_for, partition

__all__ = [
    "Backend",
    "Executable",
    "KernelTable",
    "Model",
    "Pattern",
    "Plan",
    "Program",
    "Region",
    "Selector",
    "Strategy",
    "__version__",
    "backends",
    "compare",
    "compile",
    "load",
    "load_library",
    "optimize_for",
    "partition",
]
