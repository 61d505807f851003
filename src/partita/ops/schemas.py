"""Cached look-ups in the operator schemas that ship with ``onnx``.

Source: https://onnx.ai/onnx/operators/ as registered in ``onnx.defs``.
"""

from __future__ import annotations

from functools import cache, lru_cache

import onnx
import onnx_ir as ir

from partita.model import bodies

_REMEMBERED = 8192
"""Look-ups kept; names come from files, so there may be any number of them."""
_DRAWS_NUMBERS = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


@lru_cache(_REMEMBERED)
def schema(op_type: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """Returns the schema of an op at version ``opset`` of its domain, or ``None`` if it has none.

    ``domain`` may be written ``""`` or ``"ai.onnx"``. An op that was deprecated by then still has a
    schema (its ``deprecated`` is true).
    """
    domain = canonical_domain(domain)
    if opset < 1 or not onnx.defs.has(op_type, domain=domain):
        return None
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(_REMEMBERED)
def since_version(op_type: str, domain: str, opset: int) -> int | None:
    """Returns the opset in which the op got the meaning it has at ``opset``, or ``None``.

    Two opsets with the same answer give the op the same meaning.
    """
    found = schema(op_type, domain, opset)
    return None if found is None else found.since_version


@lru_cache(_REMEMBERED)
def versions(op_type: str, domain: str = "") -> tuple[int, ...]:
    """Returns every opset in which the op was introduced or changed, ascending."""
    return _history().get((canonical_domain(domain), op_type), ())


@lru_cache(256)
def known_ops(domain: str = "") -> frozenset[str]:
    """Returns the names of all ops that any version of a domain has, for near-match hints."""
    domain = canonical_domain(domain)
    return frozenset(name for d, name in _history() if d == domain)


@cache
def known_domains() -> frozenset[str]:
    """Returns the domains for which ``onnx`` holds schemas, ``""`` among them."""
    return frozenset(domain for domain, _ in _history())


@lru_cache(256)
def latest_opset(domain: str = "") -> int:
    """Returns the newest version of a domain that the installed ``onnx`` knows (0: none)."""
    domain = canonical_domain(domain)
    if domain == "":
        return onnx.defs.onnx_opset_version()
    if domain == "ai.onnx.ml":
        return onnx.defs.onnx_ml_opset_version()
    return max((v[-1] for (d, _), v in _history().items() if d == domain), default=0)


def canonical_domain(domain: str) -> str:
    """Returns ``""`` for both spellings of the default domain."""
    return "" if domain == "ai.onnx" else domain


def is_deterministic(node: ir.Node) -> bool:
    """Tells whether running ``node`` twice on the same inputs gives the same outputs.

    Ops that draw random numbers do not, nor does ``Dropout`` in training mode, nor a node whose
    bodies hold one of them. An op without a schema (a custom domain) is not trusted to be.
    """
    stack = [node]
    while stack:
        current = stack.pop()
        if canonical_domain(current.domain) not in known_domains():
            return False
        if current.op_type in _DRAWS_NUMBERS or _drops_out(current):
            return False
        for _, graph in bodies(current):
            stack.extend(graph)
    return True


def _drops_out(node: ir.Node) -> bool:
    if node.op_type != "Dropout" or len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    mode = node.inputs[2].const_value
    return mode is None or bool(mode.numpy().any())


@cache
def _history() -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], set[int]] = {}
    for entry in onnx.defs.get_all_schemas_with_history():
        found.setdefault((entry.domain, entry.name), set()).add(entry.since_version)
    return {key: tuple(sorted(since)) for key, since in found.items()}
