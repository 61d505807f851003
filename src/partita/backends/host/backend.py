"""The host as a backend."""

from __future__ import annotations

from typing import final

from partita.backends.contract import Backend, Executable, FunctionExecutable, Node, Region
from partita.backends.host import interpreter, numpy_kernels, reference
from partita.backends.host.control_flow import OPS
from partita.backends.kernels import weight
from partita.backends.straight_line import straight_line
from partita.model import bodies


@final
class HostBackend(Backend):
    """Runs what no other backend takes: every op of ONNX, op by op."""

    name = "host"
    aliases = ("reference", "numpy")

    def why_not(self, node: Node) -> str | None:
        """Refuses only what neither numpy kernels nor ONNX's reference evaluator know."""
        inner = [graph for _, graph in bodies(node)]
        if inner and node.op_type not in OPS:
            return f"the host cannot run the bodies of {node.op_type}"
        if not inner:
            if numpy_kernels.table.why_not(node) is None:
                return None
            return reference.why_not(node)
        for graph in inner:
            for part in graph:
                refusal = self.why_not(part)
                if refusal is not None:
                    return f"its body holds {part.op_type} '{part.name}': {refusal}"
        return None

    def compile(self, region: Region) -> Executable:
        """Builds every node's call; nothing else happens ahead of time."""
        weights = {v: weight(v) for v in region.cut.parameters}
        run = straight_line(
            interpreter.steps(region.ir_nodes), region.cut.inputs, region.cut.outputs, weights
        )
        return FunctionExecutable(run)
