# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""OpenVINO as a backend: claims asked of the engine, float32 pinned, one model a region."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import onnx_ir as ir

from partita.backends import conversion, openvino_requests
from partita.backends.contract import Backend, Executable, Judge, Node, Region
from partita.backends.openvino_claims import SMALL_WEIGHT_ELEMENTS, Claims, shortened
from partita.backends.openvino_integers import Smallness
from partita.backends.openvino_limits import OPSET_CEILING
from partita.errors import BackendUnavailableError, CompileError, OptionError, printable
from partita.model import Model

_PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
_HINTS = {"latency": "LATENCY", "throughput": "THROUGHPUT"}


@final
class OpenVinoBackend(Backend):
    """Runs regions in OpenVINO.

    OpenVINO computes float32 in bfloat16 where the processor can; here it does so only when asked.

    Options: ``device`` (``CPU``), ``precision`` in which float32 is computed (``f32``, ``bf16``,
    ``f16``), ``threads`` (0: the engine decides), ``hint`` (``latency``, ``throughput``), and
    ``config``: engine settings as ``KEY=value``.
    """

    name = "openvino"
    aliases = ("ov", "OpenVINOExecutionProvider")
    options: Mapping[str, Any] = MappingProxyType(
        {"device": "CPU", "precision": "f32", "threads": 0, "hint": "latency", "config": ()}
    )

    def __init__(self, **options: Any) -> None:
        """Sets options.

        Raises:
            BackendUnavailableError: OpenVINO is not installed.
            OptionError: An option has a value that it cannot take.
        """
        Backend.__init__(self, **options)
        if importlib.util.find_spec("openvino") is None:
            raise BackendUnavailableError(
                "backend 'openvino' needs OpenVINO; pip install \"partita[openvino]\""
            )
        for key, allowed in (("precision", _PRECISIONS), ("hint", _HINTS)):
            if self.options[key] not in allowed:
                raise OptionError(
                    f"option '{key}' of backend 'openvino' is {self.options[key]!r}; it takes "
                    f"{', '.join(allowed)}"
                )
        for entry in self.options["config"]:
            if "=" not in entry:
                raise OptionError(
                    f"option 'config' of backend 'openvino' holds '{printable(entry)}'; "
                    "write engine settings as KEY=value"
                )

    def why_not(self, node: Node) -> str | None:
        """Asks OpenVINO about one node; the answer is remembered."""
        return self._claims.why_not(node, Smallness())

    def judge(self, model: Model) -> Judge:
        """Asks OpenVINO about all nodes of ``model`` at once."""
        smallness = Smallness()
        self._claims.ask((node for _, graph in model.graphs() for node in graph), smallness)
        return lambda node: self._claims.why_not(node, smallness)

    def compile(self, region: Region) -> Executable:
        """Compiles the region; large weights are handed over as memory, not copied.

        Raises:
            CompileError: OpenVINO refuses the region.
        """
        large = [
            v
            for v in region.cut.parameters
            if v.const_value and v.const_value.size > SMALL_WEIGHT_ELEMENTS
        ]
        model = region.to_model([v.name for v in large if v.name])
        opsets = {d: min(v, OPSET_CEILING) for d, v in model.ir.opset_imports.items() if d == ""}
        model = conversion.restamp(model, opsets, model.ir.ir_version)
        openvino_requests.shield_inputs(model.ir.graph)
        try:
            content = ir.to_proto(model.ir).SerializeToString()
            whole = self._core.read_model(content)
            keep = openvino_requests.insert_weights(whole, large)
            compiled = self._core.compile_model(whole, self.options["device"], self._config)
        except Exception as error:  # the engine's exceptions derive from RuntimeError or Exception
            raise CompileError(f"OpenVINO: {shortened(str(error))}") from error
        return openvino_requests.OpenVinoExecutable(region, compiled, keep)

    def precision(self) -> str:
        """Returns the element type that option ``precision`` pins."""
        return _PRECISIONS[self.options["precision"]]

    @cached_property
    def _core(self) -> Any:
        import openvino

        core = openvino.Core()
        device = self.options["device"]
        if device.partition(":")[0] not in {d.partition(".")[0] for d in core.available_devices} | {
            "AUTO",
            "HETERO",
            "MULTI",
        }:
            raise OptionError(
                f"option 'device' of backend 'openvino' is {device!r}; this machine has "
                f"{', '.join(core.available_devices)}"
            )
        return core

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._core, self.options["device"], self._config)

    @cached_property
    def _config(self) -> dict[str, str]:
        config = {
            "INFERENCE_PRECISION_HINT": self.options["precision"],
            "PERFORMANCE_HINT": _HINTS[self.options["hint"]],
        }
        if self.options["precision"] == "f32" and self.options["device"] == "CPU":
            # Otherwise compressed weights would be multiplied in 8 bits.
            config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        if self.options["threads"]:
            config["INFERENCE_NUM_THREADS"] = str(self.options["threads"])
        for entry in self.options["config"]:
            key, _, value = entry.partition("=")
            config[key.strip()] = value.strip()
        return config
