"""A complete backend: a tiny accelerator, pretended in numpy, with its weights on the chip."""

import numpy as np
import onnx_ir as ir

from partita import Backend

CIRCUITS = {"Add": np.add, "MatMul": np.matmul, "Mul": np.multiply, "Relu": lambda x: x.clip(0)}


class TinyBackend(Backend):
    """Runs sums, products and rectifiers in float32, whole regions at a time."""

    name = "tiny"
    options = {"memory": 1_000_000}  # noqa: RUF012

    def why_not(self, node):
        """Answers None for what there is a circuit for, otherwise why not."""
        if node.domain or node.op_type not in CIRCUITS or node.version < 7:
            return f"no circuit for {node.op_type} {node.version}; there are {', '.join(CIRCUITS)}"
        for value in node.inputs:
            if value.dtype != ir.DataType.FLOAT:
                return f"input '{value.name}' is {value.dtype}; the circuits compute float32"
        return None

    def why_not_region(self, region):
        """Reviews a region with its weights in sight: they have to fit on the chip."""
        used = sum(region.parameter(name).nbytes for name in region.parameters)
        memory = self.options["memory"]
        return f"{used} bytes of weights; the chip holds {memory}" if used > memory else None

    def compile(self, region):
        """Loads the weights and wires the circuits up."""
        weights = {name: region.parameter(name).copy() for name in region.parameters}
        wiring = [(CIRCUITS[n.op_type], n.inputs, n.outputs[0].name) for n in region.ir_nodes]

        def run(*arrays):
            values = weights | dict(zip(region.inputs, arrays, strict=True))
            for circuit, inputs, output in wiring:
                values[output] = np.asarray(circuit(*(values[v.name] for v in inputs)))
            return [values[name] for name in region.outputs]

        return run
