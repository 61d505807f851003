"""A kernel table: one look-up answers "can you?" and "how?".

A backend that is made of kernels claims a node exactly if a row of its table takes it, so it cannot
claim what it cannot compile::

    table = KernelTable("mine")

    @table.kernel("Relu", dtypes=("float32",))
    def relu(node):
        return lambda x: np.maximum(x, 0)

    class MyBackend(Backend):
        name = "mine"
        why_not = staticmethod(table.why_not)
        compile = staticmethod(table.compile)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.backends.contract import Array, Executable, FunctionExecutable, Node, Region
from partita.backends.conversion import signature_since
from partita.backends.straight_line import Step, straight_line
from partita.backends.value_types import dtype_name
from partita.errors import CompileError, ContractError, UnknownNameError
from partita.ops import schemas

Emit = Callable[[Node], Callable[..., Any]]
"""Takes a node; returns what computes it: arrays in, an array (or a tuple of several) out."""
Predicate = Callable[[Node], str | None]
"""Takes a node; returns ``None`` or the sentence that says why the row does not take it."""
Dtypes = Sequence[str] | Mapping[str, Sequence[str]]


@final
@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        op_type: The op.
        domain: Its domain.
        since: First opset version of a node that it takes.
        until: Last one, or ``None``.
        dtypes: Allowed dtypes by input name or type variable of the op's schema; ``""`` stands for
            the op's first input and all that share its type.
        where: Further conditions.
        emit: Makes the function that computes a node.
    """

    op_type: str
    domain: str
    since: int
    until: int | None
    dtypes: Mapping[str, tuple[str, ...]]
    where: tuple[Predicate, ...]
    emit: Emit

    def why_not(self, node: Node) -> tuple[int, str] | None:
        """Returns ``None`` if the row takes ``node``, otherwise how far it got and a sentence."""
        version = node.version or 1
        if version < self.since or (self.until is not None and version > self.until):
            until = f" to {self.until}" if self.until is not None else " and later"
            return 0, (
                f"the {self.op_type} kernel takes opset {self.since}{until}; "
                f"the node is at {version}"
            )
        for index, value in enumerate(node.inputs):
            allowed = None if value is None else self._allowed(node, index)
            if value is None or not allowed:
                continue
            if not isinstance(value.type, ir.TensorType):
                found = "of unknown dtype" if value.type is None else "no tensor"
            else:
                found = dtype_name(value.dtype)
            if found not in allowed:
                return 1, (
                    f"input '{value.name}' is {found}; the {self.op_type} kernel takes "
                    f"{_listed(allowed)}"
                )
        for predicate in self.where:
            sentence = predicate(node)
            if sentence is not None:
                return 2, sentence
        return None

    def _allowed(self, node: Node, index: int) -> tuple[str, ...] | None:
        if not self.dtypes:
            return None
        name, variable, first = _formal(self.op_type, self.domain, node.version or 1, index)
        for key in (name, variable, "" if variable == first else name):
            if key in self.dtypes:
                return self.dtypes[key]
        return None


@final
class KernelTable:
    """Rows of kernels, and the two answers a backend gives from them.

    Args:
        name: The backend's name, for messages.
    """

    def __init__(self, name: str = "table") -> None:
        self._name = name
        self._rows: dict[tuple[str, str], list[Row]] = {}

    def kernel(
        self,
        *op_types: str,
        domain: str = "",
        since: int | None = None,
        until: int | None = None,
        dtypes: Dtypes = (),
        where: Iterable[Predicate] = (),
    ) -> Callable[[Emit], Emit]:
        """Registers the decorated function as the kernel of one or several ops.

        The function takes a node and returns what computes it: a function from the node's inputs
        (``None`` for left-out ones) to its output, or to a tuple if it has several. Weights are
        passed like other inputs; what is in ``node.inputs[i].const_value`` may also be read early.

        Args:
            *op_types: Names of the ops.
            domain: Domain of the ops.
            since: First opset version taken. Left out: the first one in which the op had the
                attributes, inputs and outputs that it has today.
            until: Last opset version taken. Left out: no end.
            dtypes: Either the dtypes of the first input and all that share its type, or a mapping
                from input names or type variables of the op's schema to dtypes. Empty: any.
            where: Predicates; each returns ``None`` or a sentence that refuses the node.

        Raises:
            ContractError: No op is named.
        """
        if not op_types:
            raise ContractError(f"kernel table '{self._name}': name at least one op")
        limits = dtypes if isinstance(dtypes, Mapping) else {"": dtypes} if dtypes else {}
        limits = MappingProxyType({key: tuple(names) for key, names in limits.items()})

        def register(emit: Emit) -> Emit:
            for op_type in op_types:
                first = signature_since(op_type, domain) if since is None else since
                row = Row(op_type, domain, first, until, limits, tuple(where), emit)
                self._rows.setdefault((domain, op_type), []).append(row)
            return emit

        return register

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in order of registration within an op."""
        return tuple(row for rows in self._rows.values() for row in rows)

    def why_not(self, node: Node) -> str | None:
        """Returns ``None`` if a row takes ``node``, otherwise the sentence that says why not."""
        found = self._look_up(node)
        return found if isinstance(found, str) else None

    def emit(self, node: Node) -> Callable[..., Any]:
        """Returns what computes ``node``.

        Raises:
            CompileError: No row takes it.
        """
        found = self._look_up(node)
        if isinstance(found, str):
            raise CompileError(f"node '{node.name}': {found}")
        return found.emit(node)

    def compile(self, region: Region) -> Executable:
        """Compiles a region: every node's kernel, one after the other, weights bound.

        Values are freed after their last use. The result may be called from several threads.
        """
        steps = [Step(self.emit(n), n.inputs, n.outputs) for n in region.ir_nodes]
        weights = {v: weight(v) for v in region.cut.parameters}
        return FunctionExecutable(
            straight_line(steps, region.cut.inputs, region.cut.outputs, weights)
        )

    def _look_up(self, node: Node) -> Row | str:
        domain = schemas.canonical_domain(node.domain)
        rows = self._rows.get((domain, node.op_type), ())
        best: tuple[int, str] = (-1, "")
        for row in rows:
            refusal = row.why_not(node)
            if refusal is None:
                return row
            best = max(best, refusal, key=lambda r: r[0])
        return best[1] if rows else self._unknown(node, domain)

    def _unknown(self, node: Node, domain: str) -> str:
        where = f" of domain '{domain}'" if domain else ""
        known = schemas.known_ops(domain)
        if known and node.op_type not in known:
            hint = str(UnknownNameError("op of ONNX", node.op_type, known))
            return f"no kernel for {node.op_type}{where}; {hint}"
        return f"no kernel for {node.op_type}{where}"


def weight(value: ir.Value) -> Array:
    """Returns the array of a weight."""
    if value.const_value is None:
        raise CompileError(f"weight '{value.name}' has no data")
    return np.asarray(value.const_value.numpy())


def _formal(op_type: str, domain: str, version: int, index: int) -> tuple[str, str, str]:
    """Returns the name and type variable of a formal input, and the first input's type variable."""
    schema = schemas.schema(op_type, domain, version)
    if schema is None or not schema.inputs:
        return str(index), "", ""
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    return formal.name, formal.type_str, schema.inputs[0].type_str


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
