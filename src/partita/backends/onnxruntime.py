# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""ONNX Runtime as a backend: claims from its own registry, one session a region."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import onnx_ir as ir

from partita.backends import conversion, onnxruntime_values
from partita.backends.contract import Backend, Executable, Node, Region
from partita.backends.onnxruntime_claims import Claims
from partita.backends.onnxruntime_registry import EngineRegistry, engine_registry
from partita.errors import BackendUnavailableError, CompileError, OptionError, printable
from partita.model import Model
from partita.ops import schemas

SHARED_WEIGHT_BYTES = 1024
"""Weights of this size and more are handed over as memory, not written into the model."""

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


@final
class OnnxRuntimeBackend(Backend):
    """Runs regions in ONNX Runtime.

    Options: ``provider`` (``cpu``, ``cuda``, or ``auto``: cuda where it is there), ``threads`` (0:
    the engine decides), ``optimization`` (``disable``, ``basic``, ``extended``, ``all``),
    ``spinning`` (false: idle threads sleep; wise when regions alternate with another engine),
    ``deterministic``, and ``config``: session settings as ``key=value``.
    """

    name = "onnxruntime"
    aliases = ("ort", "CPUExecutionProvider", "CUDAExecutionProvider")
    options: Mapping[str, Any] = MappingProxyType(
        {
            "provider": "cpu",
            "threads": 0,
            "optimization": "all",
            "spinning": True,
            "deterministic": False,
            "config": (),
        }
    )

    def __init__(self, **options: Any) -> None:
        """Sets options.

        Raises:
            BackendUnavailableError: ONNX Runtime, or the provider, is not there.
            OptionError: An option has a value that it cannot take.
        """
        Backend.__init__(self, **options)
        if importlib.util.find_spec("onnxruntime") is None:
            raise BackendUnavailableError(
                "backend 'onnxruntime' needs ONNX Runtime; pip install \"partita[onnxruntime]\""
            )
        _one_of("optimization", self.options["optimization"], _LEVELS)
        _one_of("provider", self.options["provider"], (*_PROVIDERS, "auto"))
        for entry in self.options["config"]:
            if "=" not in entry:
                raise OptionError(
                    f"option 'config' of backend 'onnxruntime' holds '{printable(entry)}'; "
                    "write session settings as key=value"
                )

    def why_not(self, node: Node) -> str | None:
        """Answers from ONNX Runtime's kernel registry."""
        return self._claims.why_not(node)

    def compile(self, region: Region) -> Executable:
        """Makes one session; large weights stay where they are.

        Raises:
            CompileError: ONNX Runtime refuses the region.
        """
        import onnxruntime

        model = self._restamped(region.to_model())
        options = self._session_options(onnxruntime)
        shared = _share_weights(model, onnxruntime, options)
        try:
            content = ir.to_proto(model.ir).SerializeToString()
            session = onnxruntime.InferenceSession(content, options, providers=self._providers)
        except Exception as error:  # the engine's exception types have no common base of their own
            raise CompileError(f"ONNX Runtime: {shortened(str(error))}") from error
        return onnxruntime_values.executable(region, session, shared)

    @cached_property
    def _registry(self) -> EngineRegistry:
        return engine_registry()

    @cached_property
    def _providers(self) -> tuple[str, ...]:
        import onnxruntime

        wanted = self.options["provider"]
        there = onnxruntime.get_available_providers()
        if wanted == "cpu" or (wanted == "auto" and _PROVIDERS["cuda"] not in there):
            return (_PROVIDERS["cpu"],)
        if _PROVIDERS["cuda"] not in there:
            raise BackendUnavailableError(
                f"the installed ONNX Runtime has no CUDA provider (it has {', '.join(there)}); "
                "pip install onnxruntime-gpu, or leave option 'provider' at 'cpu'"
            )
        return (_PROVIDERS["cuda"], _PROVIDERS["cpu"])

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._registry, self._providers)

    def _restamped(self, model: Model) -> Model:
        opsets = {
            schemas.canonical_domain(domain): self._claims.stamp(domain, version)
            for domain, version in model.ir.opset_imports.items()
        }
        return conversion.restamp(
            model, opsets, self._registry.ir_version, self._claims.engine_version
        )

    def _session_options(self, onnxruntime: Any) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what goes wrong arrives as an exception
        options.intra_op_num_threads = self.options["threads"]
        level = _LEVELS[self.options["optimization"]]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.use_deterministic_compute = self.options["deterministic"]
        if not self.options["spinning"]:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        for entry in self.options["config"]:
            key, _, value = entry.partition("=")
            options.add_session_config_entry(key.strip(), value.strip())
        return options


def _one_of(key: str, value: str, allowed: Any) -> None:
    if value not in allowed:
        raise OptionError(
            f"option '{key}' of backend 'onnxruntime' is {value!r}; it takes {', '.join(allowed)}"
        )


def _share_weights(model: Model, onnxruntime: Any, options: Any) -> list[Any]:
    """Hands large weights over by address; returns what has to stay alive with the session.

    The model itself then holds a reference only, so that neither memory doubles nor protobuf's
    2 GiB limit is met.
    """
    names: list[str] = []
    values: list[Any] = []
    for name, value in model.ir.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.nbytes < SHARED_WEIGHT_BYTES or tensor.dtype.bitwidth < 8:
            continue
        if tensor.dtype == ir.DataType.STRING:
            continue
        values.append(onnxruntime_values.engine_value(tensor.numpy(), tensor.dtype))
        names.append(name)
        value.const_value = ir.ExternalTensor(
            "weights",
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape([int(str(d)) for d in tensor.shape]),
            name=name,
        )
    if names:
        options.add_external_initializers(names, values)
    return values


_PLACE_IN_SOURCE = r"/onnxruntime_src/\S+:\d+ .*?\)(?: const)?(?: \[with [^\]]*\])? (?=\w|')"


def shortened(message: str) -> str:
    """Returns the engine's message without its error code, source path and C++ signature."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", message.strip())
    text = re.sub(_PLACE_IN_SOURCE, "", text, count=1)
    return printable(text.splitlines()[0] if text else "unknown error", 300)
