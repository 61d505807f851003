"""What a model holds: inputs, outputs, ops, weights and work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, final

import onnx_ir as ir

from partita.inferring.costs import node_cost
from partita.model import Model
from partita.reporting.quantities import byte_text, count_text, plural, share_text
from partita.reporting.tables import Column, Table, clipped, omission
from partita.running.specs import Spec, dtype_name, spec_of

OP_ROWS = 40
VALUE_ROWS = 40


@final
@dataclass(frozen=True)
class OpCount:
    """Nodes of one op.

    Attributes:
        op_type: The op.
        domain: Its domain, ``""`` for ONNX's own.
        nodes: How many nodes.
        flops: Floating-point operations of one run of those whose cost is known.
        unknown: How many nodes have no known cost.
    """

    op_type: str
    domain: str
    nodes: int
    flops: int
    unknown: int


@final
@dataclass(frozen=True)
class Inventory:
    """What a model holds. Nodes of bodies are counted once each.

    Attributes:
        source: Where the model came from.
        hash: SHA-256 of its structure and weights.
        opsets: Version of every operator set it imports.
        ir_version: Version of its ONNX format.
        producer: Who wrote it.
        inputs: What a caller feeds.
        outputs: What a run returns.
        ops: Nodes by op, the most frequent first.
        bodies: How many bodies (of ``If``, ``Loop``, ``Scan`` …) it has.
        parameters: How many weights.
        parameter_elements: Elements of all weights.
        parameter_bytes: Bytes of all weights.
        unknown_shapes: Values made by nodes whose shape is not wholly known.
    """

    source: str
    hash: str
    opsets: dict[str, int]
    ir_version: int
    producer: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    ops: tuple[OpCount, ...]
    bodies: int
    parameters: int
    parameter_elements: int
    parameter_bytes: int
    unknown_shapes: int

    @property
    def nodes(self) -> int:
        """Number of nodes, bodies included."""
        return sum(op.nodes for op in self.ops)

    @property
    def open_dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions of inputs that a run decides."""
        sizes = (d for spec in self.inputs for d in spec.shape or ())
        return tuple(dict.fromkeys(d for d in sizes if isinstance(d, str)))

    @property
    def flops(self) -> int:
        """Floating-point operations of one run, as far as they are known."""
        return sum(op.flops for op in self.ops)

    @property
    def unknown_costs(self) -> int:
        """Nodes whose cost is not known."""
        return sum(op.unknown for op in self.ops)

    def to_dict(self) -> dict[str, Any]:
        """Returns the inventory as plain data for JSON."""
        return {
            "source": self.source,
            "hash": self.hash,
            "opsets": self.opsets,
            "ir_version": self.ir_version,
            "producer": self.producer,
            "inputs": [_spec_to_dict(spec) for spec in self.inputs],
            "outputs": [_spec_to_dict(spec) for spec in self.outputs],
            "nodes": self.nodes,
            "bodies": self.bodies,
            "open_dimensions": list(self.open_dimensions),
            "ops": [asdict(op) for op in self.ops],
            "flops": self.flops,
            "unknown_costs": self.unknown_costs,
            "unknown_shapes": self.unknown_shapes,
            "parameters": {
                "count": self.parameters,
                "elements": self.parameter_elements,
                "bytes": self.parameter_bytes,
            },
        }


def inventory(model: Model) -> Inventory:
    """Counts what a loaded model holds; no engine is asked."""
    graphs = [graph for _, graph in model.graphs()]
    weights = [v.const_value for g in graphs for v in g.initializers.values() if v.const_value]
    return Inventory(
        source=model.source,
        hash=model.hash,
        opsets=dict(model.ir.opset_imports),
        ir_version=model.ir.ir_version,
        producer=f"{model.ir.producer_name or ''} {model.ir.producer_version or ''}".strip(),
        inputs=tuple(map(spec_of, model.inputs)),
        outputs=tuple(map(spec_of, model.outputs)),
        ops=_ops(node for graph in graphs for node in graph),
        bodies=len(graphs) - 1,
        parameters=len(weights),
        parameter_elements=sum(w.size for w in weights),
        parameter_bytes=sum(w.nbytes for w in weights),
        unknown_shapes=sum(
            value.shape is None or not value.shape.is_static()
            for graph in graphs
            for node in graph
            for value in node.outputs
            if value.name
        ),
    )


def _ops(nodes: Iterable[ir.Node]) -> tuple[OpCount, ...]:
    counts: dict[tuple[str, str], list[int]] = {}
    for node in nodes:
        row = counts.setdefault((node.op_type, node.domain), [0, 0, 0])
        flops = node_cost(node).flops
        row[0] += 1
        row[1] += flops or 0
        row[2] += flops is None
    found = [OpCount(op, domain, *row) for (op, domain), row in counts.items()]
    return tuple(sorted(found, key=lambda op: (-op.nodes, op.op_type, op.domain)))


def inventory_tables(found: Inventory, every_row: bool = False) -> list[Table]:
    """Returns an inventory as tables: what it is, what flows in and out, and its ops."""
    return [_facts(found), _values(found, every_row), _op_table(found, every_row)]


def _facts(found: Inventory) -> Table:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in found.opsets.items())
    work = f"{count_text(found.flops)}FLOP a run"
    if found.unknown_costs:
        work += f", {plural(found.unknown_costs, 'node')} of unknown cost"
    weights = f"{found.parameters:,}, {count_text(found.parameter_elements)} elements"
    rows = (
        ("source", found.source),
        ("hash", found.hash),
        ("format", f"IR {found.ir_version}, opset {opsets}"),
        ("made by", found.producer or "unknown"),
        ("nodes", f"{found.nodes:,}" + (f", in {found.bodies:,} bodies too" * bool(found.bodies))),
        ("weights", f"{weights}, {byte_text(found.parameter_bytes)}"),
        ("work", work),
        ("values of unknown size", f"{found.unknown_shapes:,}"),
    )
    return Table("", (Column("Model", whole=True), Column("")), rows)


def _values(found: Inventory, every_row: bool) -> Table:
    rows = [("input", *_cells(spec)) for spec in found.inputs]
    rows += [("output", *_cells(spec)) for spec in found.outputs]
    limit = None if every_row else VALUE_ROWS
    columns = (Column("", whole=True), Column("Name"), Column("Type", whole=True), Column("Shape"))
    note = omission(len(rows), limit, "values", "--verbose or --json")
    return Table("Inputs and outputs", columns, clipped(rows, limit), note)


def _op_table(found: Inventory, every_row: bool) -> Table:
    limit = None if every_row else OP_ROWS
    columns = (
        Column("Op"),
        Column("Nodes", right=True),
        Column("FLOP", right=True, whole=True),
        Column("Share", right=True),
        Column("Unknown cost", right=True),
    )
    rows = [
        (
            f"{op.domain}.{op.op_type}" if op.domain else op.op_type,
            f"{op.nodes:,}",
            count_text(op.flops),
            share_text(op.flops, found.flops),
            f"{op.unknown:,}" if op.unknown else "",
        )
        for op in found.ops
    ]
    note = omission(len(rows), limit, "ops", "--verbose or --json")
    if found.open_dimensions and found.unknown_costs:
        names = ", ".join(found.open_dimensions[:5])
        note = f"{note}\n" * bool(note) + f"sizes left open: {names}; --dim NAME=N settles them"
    return Table("Ops", columns, clipped(rows, limit), note)


def _cells(spec: Spec) -> tuple[str, str, str]:
    kind = dtype_name(spec.dtype) if spec.kind == "tensor" else spec.kind
    if spec.shape is None:
        return spec.name, kind, "?"
    return spec.name, kind, "[" + ", ".join("?" if d is None else str(d) for d in spec.shape) + "]"


def _spec_to_dict(spec: Spec) -> dict[str, Any]:
    shape = None if spec.shape is None else list(spec.shape)
    dtype = None if spec.dtype is None else dtype_name(spec.dtype)
    return {"name": spec.name, "kind": spec.kind, "dtype": dtype, "shape": shape}
