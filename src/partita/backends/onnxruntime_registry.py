# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""What ONNX Runtime says about itself: its kernels, its operator schemas and its ceilings.

All of it is read from the installed engine, so that a claim can be no older than the engine is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, final

import onnx_ir as ir

# What ONNX Runtime 1.31 answers; used where a version words its error differently.
_FALLBACK_OPSETS = {"": 26, "ai.onnx.ml": 5, "com.microsoft": 1}
_FALLBACK_IR_VERSION = 13
_TOO_NEW = 9999
Op = tuple[str, str]
"""Domain and op type."""


@final
@dataclass(frozen=True)
class Kernel:
    """One compiled kernel.

    Attributes:
        start: First version of the op that it implements.
        end: Last one, or ``None`` if it implements ``start`` alone until that version is replaced.
        types: Allowed types by type variable or by the name of an input.
    """

    start: int
    end: int | None
    types: Mapping[str, frozenset[str]]

    def covers(self, since: int) -> bool:
        """Tells whether it implements the version of its op introduced in opset ``since``."""
        return self.start == since or (self.end is not None and self.start <= since <= self.end)


@final
@dataclass(frozen=True)
class Formal:
    """A formal input or output: its name, its type variable, and whether it repeats."""

    name: str
    type_variable: str
    variadic: bool


@final
@dataclass(frozen=True)
class Signature:
    """One version of an operator.

    Attributes:
        since: The opset that introduced this version.
        deprecated: Whether it was withdrawn.
        inputs: Formal inputs.
        outputs: Formal outputs.
        attributes: Names of its attributes.
        allowed: Allowed types by type variable.
    """

    since: int
    deprecated: bool
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: frozenset[str]
    allowed: Mapping[str, frozenset[str]]


@final
@dataclass(frozen=True)
class EngineRegistry:
    """Everything that claims are decided from.

    Attributes:
        kernels: By execution provider, then by op.
        signatures: By op, oldest first.
        opsets: The newest version of each domain that a model may import.
        ir_version: The newest file format version.
    """

    kernels: Mapping[str, Mapping[Op, tuple[Kernel, ...]]]
    signatures: Mapping[Op, tuple[Signature, ...]]
    opsets: Mapping[str, int]
    ir_version: int

    def signature(self, op: Op, opset: int) -> Signature | None:
        """Returns the version of an op that is in force at ``opset``."""
        found = None
        for signature in self.signatures.get(op, ()):
            if signature.since <= opset:
                found = signature
        return found


@cache
def engine_registry() -> EngineRegistry:
    """Reads the registry of the installed ONNX Runtime (about 10 ms, once a process)."""
    import onnxruntime.capi.onnxruntime_pybind11_state as state  # pyright: ignore

    signatures: dict[Op, list[Signature]] = {}
    for schema in state.get_all_operator_schema():
        signatures.setdefault((schema.domain, schema.name), []).append(_signature(schema))
    return EngineRegistry(
        kernels=MappingProxyType(_kernels(state.get_all_opkernel_def())),
        signatures=MappingProxyType(
            {op: tuple(sorted(found, key=lambda s: s.since)) for op, found in signatures.items()}
        ),
        opsets=MappingProxyType({domain: _ceiling(domain) for domain in _FALLBACK_OPSETS}),
        ir_version=_ir_ceiling(),
    )


def _kernels(definitions: Iterable[Any]) -> dict[str, Mapping[Op, tuple[Kernel, ...]]]:
    found: dict[str, dict[Op, list[Kernel]]] = {}
    for definition in definitions:
        start, end = definition.version_range
        kernel = Kernel(
            start,
            None if end >= 2**31 - 1 else end,
            MappingProxyType({k: frozenset(v) for k, v in definition.type_constraints.items()}),
        )
        of_provider = found.setdefault(definition.provider, {})
        of_provider.setdefault((definition.domain, definition.op_name), []).append(kernel)
    return {
        provider: MappingProxyType({op: tuple(rows) for op, rows in table.items()})
        for provider, table in found.items()
    }


def _signature(schema: Any) -> Signature:
    return Signature(
        since=schema.since_version,
        deprecated=schema.deprecated,
        inputs=tuple(_formal(f) for f in schema.inputs),
        outputs=tuple(_formal(f) for f in schema.outputs),
        attributes=frozenset(schema.attributes),
        allowed=MappingProxyType(
            {t.type_param_str: frozenset(t.allowed_type_strs) for t in schema.type_constraints}
        ),
    )


def _formal(formal: Any) -> Formal:
    return Formal(formal.name, formal.typeStr, "Variadic" in str(formal.option))


def _ceiling(domain: str) -> int:
    """Offers a model with an absurd version and reads the highest one from the complaint."""
    found = re.search(r"is till opset (\d+)", _complaint(10, domain, _TOO_NEW))
    return int(found[1]) if found else _FALLBACK_OPSETS[domain]


def _ir_ceiling() -> int:
    found = re.search(r"max supported IR version: (\d+)", _complaint(_TOO_NEW, "", 13))
    return int(found[1]) if found else _FALLBACK_IR_VERSION


def _complaint(ir_version: int, domain: str, opset: int) -> str:
    import onnxruntime

    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    node = ir.Node("", "Identity", [value])
    node.outputs[0].name = "y"
    graph = ir.Graph([value], node.outputs, nodes=[node], opset_imports={"": 13, domain: opset})
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    quiet.intra_op_num_threads = 1
    try:
        content = ir.to_proto(ir.Model(graph, ir_version=ir_version)).SerializeToString()
        onnxruntime.InferenceSession(content, quiet, providers=["CPUExecutionProvider"])
    except Exception as complaint:  # the engine's own exception types all derive from Exception
        return str(complaint)
    return ""
