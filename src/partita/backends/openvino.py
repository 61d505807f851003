# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""OpenVINO as a backend: claims asked of the engine, float32 pinned, one compiled model a region."""

from __future__ import annotations

import importlib.util
import queue
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Backend, Call, Executable, Judge, Node, Region
from partita.backends.openvino_claims import Claims, shortened
from partita.backends.openvino_limits import Smallness
from partita.errors import BackendUnavailableError, CompileError, OptionError
from partita.model import Model

_PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


@final
class OpenVinoBackend(Backend):
    """Runs regions in OpenVINO."""

    name = "openvino"
    aliases = ("ov", "OpenVINOExecutionProvider")
    options: Mapping[str, Any] = MappingProxyType(
        {"device": "CPU", "precision": "f32", "threads": 0, "hint": "latency", "config": ()}
    )

    def __init__(self, **options: Any) -> None:
        Backend.__init__(self, **options)

    def why_not(self, node: Node) -> str | None:
        return self._claims.why_not(node)

    def judge(self, model: Model) -> Judge:
        self._claims.ask(node for _, graph in model.graphs() for node in graph)
        smallness = Smallness()
        return lambda node: self._claims.why_not(node, smallness)

    def compile(self, region: Region) -> Executable:
        model = region.to_model()
        content = ir.to_proto(model.ir).SerializeToString()
        m = self._core.read_model(content)
        c = self._core.compile_model(m, self.options["device"], self._config)
        req=c.create_infer_request()
        names=list(region.inputs); outs=list(region.outputs)
        def call(*a):
            r=req.infer(dict(zip(names,a)))
            return [r[o] for o in outs]
        return call

    @cached_property
    def _core(self) -> Any:
        import openvino

        return openvino.Core()

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._core, self.options["device"], self._config)

    @cached_property
    def _config(self) -> dict[str, str]:
        return {"INFERENCE_PRECISION_HINT": self.options["precision"], "INFERENCE_NUM_THREADS":1, "PERFORMANCE_HINT": "LATENCY"}
