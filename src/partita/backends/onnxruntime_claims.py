"""Which nodes ONNX Runtime can run, decided from its own registry.

The answer is static: no session is made, so that asking about a hostile node cannot hurt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import onnx_ir as ir

from partita.backends import conversion, onnxruntime_limits
from partita.backends.function_bodies import function_body
from partita.backends.onnxruntime_registry import (
    EngineRegistry,
    Formal,
    Kernel,
    Op,
    Signature,
)
from partita.backends.value_types import listed, spelled, type_string
from partita.errors import UnknownNameError
from partita.model import bodies
from partita.ops import schemas

_FUNCTION_DEPTH = 4


@final
class Claims:
    """Answers "why can't you run this node?" for a set of execution providers.

    Answers are remembered by what they depend on, so that a large model costs one look-up a node.
    """

    def __init__(self, registry: EngineRegistry, providers: Sequence[str]) -> None:
        self._registry = registry
        self._tables = [registry.kernels[p] for p in providers if p in registry.kernels]
        self._known: dict[object, str | None] = {}

    def why_not(self, node: ir.Node) -> str | None:
        """Returns ``None``, or the sentence that says why ``node`` cannot be run."""
        if node.op_type == "Constant" and not node.domain:
            return (
                "Constant computes nothing; ONNX Runtime refuses a region that holds nothing else"
            )
        return self._answer(node, 0)

    def stamp(self, domain: str, version: int) -> int:
        """Returns the version under which nodes of ``domain`` at ``version`` are compiled."""
        return min(version, self._registry.opsets.get(domain, version))

    def engine_version(self, node: ir.Node, opset: int) -> int | None:
        """Returns the opset that introduced the op as ONNX Runtime knows it at ``opset``."""
        op = (schemas.canonical_domain(node.domain), node.op_type)
        signature = self._registry.signature(op, opset)
        return None if signature is None else signature.since

    def _answer(self, node: ir.Node, depth: int) -> str | None:
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.name and type_string(value) is None:
                side = "output" if value.producer() is node else "input"
                return f"{side} '{value.name}' has no known dtype; ONNX Runtime needs one"
        domain = schemas.canonical_domain(node.domain)
        op: Op = (domain, node.op_type)
        signature = self._registry.signature(op, self.stamp(domain, node.version or 1))
        if signature is None or signature.deprecated:
            return self._absent(op, node)
        change = conversion.adaptation(node, signature.since)
        if isinstance(change, str):
            return f"{change}, and ONNX Runtime ends at opset {self._registry.opsets.get(domain)}"
        if op == ("", "Constant"):  # inside a body it becomes a weight
            return None
        return (
            self._kernel(node, op, signature, depth)
            or onnxruntime_limits.why_not(node)
            or self._bodies(node, depth)
        )

    def _absent(self, op: Op, node: ir.Node) -> str:
        domain, op_type = op
        where = f" of domain '{domain}'" if domain else ""
        newer = schemas.since_version(op_type, domain, node.version or 1)
        if newer is not None:
            ceiling = self._registry.opsets.get(domain, 0)
            return (
                f"ONNX Runtime has no {op_type}{where} as of opset {min(newer, ceiling) or newer}"
            )
        known = [name for d, name in self._registry.signatures if d == domain]
        hint = str(UnknownNameError("op", op_type, known)) if known else ""
        return f"ONNX Runtime has no {op_type}{where}" + (f" ({hint})" if "did you" in hint else "")

    def _kernel(self, node: ir.Node, op: Op, signature: Signature, depth: int) -> str | None:
        inputs, outputs = _kinds(node.inputs), _kinds(node.outputs)
        key = (op, signature.since, inputs, outputs)
        if key not in self._known:
            self._known[key] = self._kernel_refusal(op, signature, node)
        refusal = self._known[key]
        if refusal is None or depth >= _FUNCTION_DEPTH:
            return refusal
        return None if self._runs_as_function(node, signature, depth) else refusal

    def _kernel_refusal(self, op: Op, signature: Signature, node: ir.Node) -> str | None:
        kernels = [k for table in self._tables for k in table.get(op, ())]
        fitting = [k for k in kernels if k.covers(signature.since)]
        if not fitting:
            return _no_kernel(op, signature, kernels)
        bound = _bound_types(signature, node)
        if _matches(fitting, bound) or _matches(fitting, _widened(bound)):
            return None
        return _unlisted(op, fitting, bound, signature, node)

    def _runs_as_function(self, node: ir.Node, signature: Signature, depth: int) -> bool:
        """Tells whether ONNX Runtime can inline the op's definition and run the parts."""
        graph = function_body(node, self.stamp("", node.version or 1))
        return graph is not None and all(self._answer(n, depth + 1) is None for n in graph)

    def _bodies(self, node: ir.Node, depth: int) -> str | None:
        for path, graph in bodies(node):
            for inner in graph:
                refusal = self._answer(inner, depth)
                if refusal is not None:
                    return f"its body '{path}' holds {inner.op_type} '{inner.name}': {refusal}"
        return None


def _kinds(values: Sequence[ir.Value | None]) -> tuple[str | None, ...]:
    return tuple(None if v is None or not v.name else type_string(v) for v in values)


def _actual(
    formals: tuple[Formal, ...], values: Sequence[ir.Value | None]
) -> list[tuple[Formal, ir.Value, str]]:
    """Pairs what a node gives with the formal parameters of its op."""
    pairs: list[tuple[Formal, ir.Value, str]] = []
    for i, value in enumerate(values):
        kind = None if value is None or not value.name else type_string(value)
        if value is None or kind is None or not formals:
            continue
        pairs.append((formals[min(i, len(formals) - 1)], value, kind))
    return pairs


def _bound_types(signature: Signature, node: ir.Node) -> Mapping[str, str]:
    """Returns the actual type by type variable and by parameter name."""
    bound: dict[str, str] = {}
    for formal, _, kind in (
        *_actual(signature.inputs, node.inputs),
        *_actual(signature.outputs, node.outputs),
    ):
        bound.setdefault(formal.type_variable, kind)
        bound.setdefault(formal.name, kind)
    return bound


def _matches(kernels: Sequence[Kernel], bound: Mapping[str, str]) -> bool:
    return any(
        all(bound.get(name, next(iter(types), "")) in types for name, types in k.types.items())
        for k in kernels
    )


def _widened(bound: Mapping[str, str]) -> Mapping[str, str]:
    """ONNX Runtime computes float16 in float32 on a CPU where it has no kernel of its own."""
    return {k: "tensor(float)" if v == "tensor(float16)" else v for k, v in bound.items()}


def _no_kernel(op: Op, signature: Signature, kernels: Sequence[Kernel]) -> str:
    if not kernels:
        return f"ONNX Runtime has no kernel for {op[1]}"
    return f"ONNX Runtime has no kernel for {op[1]} as of opset {signature.since}"


def _unlisted(
    op: Op,
    kernels: Sequence[Kernel],
    bound: Mapping[str, str],
    signature: Signature,
    node: ir.Node,
) -> str:
    """Names the first input or output that no kernel takes."""
    for side, pairs in (
        ("input", _actual(signature.inputs, node.inputs)),
        ("output", _actual(signature.outputs, node.outputs)),
    ):
        for formal, value, kind in pairs:
            for name in (formal.type_variable, formal.name):
                sets = [k.types[name] for k in kernels if name in k.types]
                if len(sets) == len(kernels) and not any(kind in s for s in sets):
                    return (
                        f"{side} '{value.name}' is {spelled(kind)}; ONNX Runtime's {op[1]} kernel "
                        f"takes {listed(t for s in sets for t in s)}"
                    )
    kinds = ", ".join(sorted({spelled(kind) for kind in bound.values()}))
    return f"ONNX Runtime has no kernel for {op[1]} with {kinds} together"
