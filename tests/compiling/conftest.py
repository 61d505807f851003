"""Random small models, random plans for them, and numpy backends to run the regions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from partita import subgraph
from partita.backends.contract import Backend, Executable, Region
from partita.model import Model, bodies, captures
from partita.partitioning.plan import Plan
from partita.running.ownership import owning

OPSET = 17
WIDTH = 18  # 18 x 18 floats are too many bytes to travel into a region as a constant
ODD = (
    '"); raise SystemExit("',
    "new\nline",
    "ünï/cödé",
    "{brace}",
    "a'b",
    "class",
    "#",
    "%s",
    "\\",
)


class Numpy(Backend):
    """Runs regions with ONNX's reference evaluator; every weight is inside."""

    name = "numpy"

    def why_not(self, node: ir.Node) -> str | None:
        return None

    def compile(self, region: Region) -> Any:
        return evaluator(region, ())


class Passing(Numpy):
    """Holds no weights: they are passed at every run."""

    name = "passing"

    def compile(self, region: Region) -> Any:
        return evaluator(region, region.parameters)

    def owns(self, region: Region) -> tuple[str, ...]:
        return ()


class Binding(Numpy):
    """Writes into buffers; holds every second weight."""

    name = "binding"

    def compile(self, region: Region) -> Any:
        return Bindable(owning(evaluator(region, region.parameters[::2])))

    def owns(self, region: Region) -> tuple[str, ...]:
        return region.parameters[1::2]


class Broken(Numpy):
    """Cannot compile anything."""

    name = "broken"

    def compile(self, region: Region) -> Any:
        raise MemoryError("no room\nfor this region")


class Bindable(Executable):
    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.bound_calls = 0

    def __call__(self, *inputs: Any) -> Any:
        return self.call(*inputs)

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        def bound(*rest: Any) -> list[Any]:
            self.bound_calls += 1
            left = iter(rest)
            results = self.call(*[next(left) if i is None else i for i in inputs])
            for buffer, result in zip(outputs, results, strict=True):
                if buffer is not None:
                    np.copyto(buffer, result, casting="no")
            return [r for r, buffer in zip(results, outputs, strict=True) if buffer is None]

        return bound


def reference(proto: onnx.ModelProto) -> ReferenceEvaluator:
    """Returns ONNX's evaluator; it takes an output named "" for the value of left-out inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    graphs = [copy.graph]
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            names = [name or f"unread of {node.name}" for name in node.output]
            node.output[:] = names
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return ReferenceEvaluator(copy)


def evaluator(region: Region, fed: Sequence[str]) -> Callable[..., Any]:
    run = reference(ir.to_proto(region.to_model(fed).ir))
    names = [*region.inputs, *(p for p in region.parameters if p in fed)]
    return lambda *arrays: run.run(None, dict(zip(names, arrays, strict=True)))


class Graphs:
    """Makes one random model from a seed."""

    def __init__(self, seed: int, odd_names: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.odd = odd_names
        self.count = 0

    def name(self, hint: str) -> str:
        self.count += 1
        tail = ODD[self.count % len(ODD)] if self.odd else ""
        return f"{hint}{self.count}{tail}"

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def model(self) -> onnx.ModelProto:
        rows = self.pick([2, 2, 0, "N"])
        inputs = [self.name("x") for _ in range(self.pick([1, 2, 3]))]
        self.weights: dict[str, np.ndarray] = {
            self.name("w"): self.random.standard_normal((WIDTH, WIDTH)).astype("f4") / 4,
            self.name("bias"): self.random.standard_normal(WIDTH).astype("f4"),
            self.name("low"): np.float32(-0.5).reshape(()),
        }
        pool = list(inputs)
        nodes = self.nodes(pool, int(self.random.integers(2, 14)), depth=0)
        made = [n for n in pool if n not in inputs]
        outputs = list(dict.fromkeys(self.pick(made) for _ in range(3)))
        if self.random.random() < 0.3:
            outputs.append(inputs[0])
        if self.random.random() < 0.3:
            outputs.append(outputs[0])
        info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, WIDTH])  # noqa: E731
        graph = helper.make_graph(
            nodes,
            "random",
            [info(n) for n in inputs],
            [info(n) for n in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def nodes(self, pool: list[str], count: int, depth: int) -> list[onnx.NodeProto]:
        makers = [self.unary, self.unary, self.binary, self.binary, self.matmul, self.clip]
        makers += [self.split, self.reshape, self.dropout, self.top]
        makers += [self.branch, self.loop] if depth < 2 else []
        found: list[onnx.NodeProto] = []
        for _ in range(count):
            maker = self.pick(makers)
            found += maker(pool, depth) if maker in (self.branch, self.loop) else maker(pool)
        return found

    def node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> Any:
        return helper.make_node(op, inputs, outputs, name=self.name(op), **attributes)

    def unary(self, pool: list[str]) -> list[onnx.NodeProto]:
        source, out = self.pick(pool), self.name("v")
        pool.append(out)
        return [self.node(self.pick(["Relu", "Neg", "Tanh", "Identity"]), [source], [out])]

    def binary(self, pool: list[str]) -> list[onnx.NodeProto]:
        bias = [n for n in self.weights if n.startswith("bias")]
        out = self.name("v")
        sources = [self.pick(pool), self.pick(pool + bias)]
        pool.append(out)
        return [self.node(self.pick(["Add", "Mul", "Sub", "Max"]), sources, [out])]

    def matmul(self, pool: list[str]) -> list[onnx.NodeProto]:
        weight = next(n for n in self.weights if n.startswith("w"))
        source, out = self.pick(pool), self.name("v")
        pool.append(out)
        return [self.node("MatMul", [source, weight], [out])]

    def clip(self, pool: list[str]) -> list[onnx.NodeProto]:
        low = next(n for n in self.weights if n.startswith("low"))
        source, out = self.pick(pool), self.name("v")
        pool.append(out)
        bounds = self.pick([[low], ["", low], [low, ""], []])
        return [self.node("Clip", [source, *bounds], [out])]

    def split(self, pool: list[str]) -> list[onnx.NodeProto]:
        sizes = self.name("sizes")
        self.weights[sizes] = np.array([WIDTH // 3, WIDTH - WIDTH // 3], dtype=np.int64)
        parts, out = [self.name("part"), self.name("part")], self.name("v")
        source = self.pick(pool)
        pool.append(out)
        return [
            self.node("Split", [source, sizes], parts, axis=1),
            self.node("Concat", [parts[1], parts[0]], [out], axis=1),
        ]

    def reshape(self, pool: list[str]) -> list[onnx.NodeProto]:
        wide, back = self.name("shape"), self.name("shape")
        self.weights[wide] = np.array([-1, 2, WIDTH // 2], dtype=np.int64)
        self.weights[back] = np.array([-1, WIDTH], dtype=np.int64)
        inner, out, source = self.name("v"), self.name("v"), self.pick(pool)
        # With no rows -1 cannot be inferred, so zero rows are spelled out by copying (0).
        self.weights[wide][0] = 0
        self.weights[back][0] = 0
        pool.append(out)
        return [
            self.node("Reshape", [source, wide], [inner]),
            self.node("Reshape", [inner, back], [out]),
        ]

    def dropout(self, pool: list[str]) -> list[onnx.NodeProto]:
        source, out = self.pick(pool), self.name("v")
        pool.append(out)
        return [self.node("Dropout", [source], [out] if self.random.random() < 0.5 else [out, ""])]

    def top(self, pool: list[str]) -> list[onnx.NodeProto]:
        k = self.name("k")
        self.weights[k] = np.array([WIDTH], dtype=np.int64)
        values, places = self.name("v"), self.name("places")
        source = self.pick(pool)
        pool.append(values)
        return [self.node("TopK", [source, k], [values, places], axis=1)]  # ties: places may differ

    def branch(self, pool: list[str], depth: int) -> list[onnx.NodeProto]:
        condition, out = self.name("cond"), self.name("v")
        self.weights[condition] = np.array(self.random.random() < 0.5)
        branches = {}
        for key in ("then_branch", "else_branch"):
            inner = list(pool)
            nodes = self.nodes(inner, self.pick([0, 1, 3]), depth + 1)
            own = {self.name("own"): self.random.standard_normal(WIDTH).astype("f4")}
            inner_out = self.pick(inner[len(pool) :] or inner)
            result = self.name("r")
            nodes.append(self.node("Add", [inner_out, next(iter(own))], [result]))
            branches[key] = helper.make_graph(
                nodes,
                self.name("body"),
                [],
                [helper.make_tensor_value_info(result, TensorProto.FLOAT, [None, WIDTH])],
                [numpy_helper.from_array(a, n) for n, a in own.items()],
            )
        pool.append(out)
        return [self.node("If", [condition], [out], **branches)]

    def loop(self, pool: list[str], depth: int) -> list[onnx.NodeProto]:
        trips, out = self.name("trips"), self.name("v")
        self.weights[trips] = np.array(self.pick([0, 1, 3]), dtype=np.int64)
        turn, going, state = self.name("turn"), self.name("going"), self.name("state")
        inner = [state, *pool]
        nodes = self.nodes(inner, self.pick([1, 2, 4]), depth + 1)
        still, result = self.name("still"), self.name("r")
        nodes.append(self.node("Identity", [going], [still]))
        nodes.append(self.node("Tanh", [inner[-1]], [result]))
        body = helper.make_graph(
            nodes,
            self.name("body"),
            [
                helper.make_tensor_value_info(turn, TensorProto.INT64, []),
                helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                helper.make_tensor_value_info(state, TensorProto.FLOAT, [None, WIDTH]),
            ],
            [
                helper.make_tensor_value_info(still, TensorProto.BOOL, []),
                helper.make_tensor_value_info(result, TensorProto.FLOAT, [None, WIDTH]),
            ],
        )
        # onnx.reference takes a left-out condition for the next input, so there is always one.
        start = self.name("start")
        self.weights[start] = np.array(True)
        source = self.pick(pool)
        pool.append(out)
        return [self.node("Loop", [trips, start, source], [out], body=body)]


def as_model(proto: onnx.ModelProto) -> Model:
    """Returns the model as loading would give it, for models that need nothing of loading."""
    inferred = onnx.shape_inference.infer_shapes(proto)
    live = ir.from_proto(inferred)
    for _, graph in Model(live).graphs():
        for node in graph:
            node.version = OPSET
    return Model(live, "<test>")


def region_of(model: Model, nodes: Sequence[ir.Node], backend: str, name: str, path: str) -> Region:
    live = subgraph.cut(model, nodes)
    names = lambda values: tuple(str(v.name) for v in values)  # noqa: E731
    return Region(
        name=name,
        backend=backend,
        nodes=names(live.nodes),
        inputs=names(live.inputs),
        outputs=names(live.outputs),
        parameters=names(live.parameters),
        graph=path,
        subgraph=live,
    )


def random_order(graph: ir.Graph, random: np.random.Generator) -> list[ir.Node]:
    """Returns a random topological order: a chunk of it is convex, and chunks form no cycle."""
    nodes = list(graph)
    number = {node: i for i, node in enumerate(nodes)}
    before = [
        {
            number[v.producer()]
            for v in (*captures(node), *node.inputs)
            if v is not None and v.producer() in number
        }
        for node in nodes
    ]
    order: list[int] = []
    left = set(range(len(nodes)))
    while left:
        ready = sorted(i for i in left if not before[i] & left)
        chosen = ready[int(random.integers(len(ready)))]
        order.append(chosen)
        left.remove(chosen)
    return [nodes[i] for i in order]


def random_plan(model: Model, backends: Sequence[Backend], seed: int, host: float = 0.3) -> Plan:
    random = np.random.default_rng(seed)
    regions: list[Region] = []
    left: dict[str, str] = {}
    pending = [("", model.graph)]
    while pending:
        path, graph = pending.pop(0)
        order = random_order(graph, random)
        while order:
            size = int(random.integers(1, 5))
            chunk, order = order[:size], order[size:]
            if random.random() < host:
                left.update((str(node.name), node.op_type) for node in chunk)
                pending += [body for node in chunk for body in bodies(node)]
                continue
            backend = backends[int(random.integers(len(backends)))]
            position = {node: i for i, node in enumerate(graph)}
            chunk.sort(key=position.__getitem__)
            name = f"{backend.name}_{len(regions)}"
            regions.append(region_of(model, chunk, backend.name, name, path))
    return Plan(tuple(regions), left, backends=tuple(backends), model=model)


def feeds_for(model: Model, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    sizes = [[d if isinstance(d, int) else 3 for d in v.shape or ()] for v in model.inputs]
    return [random.standard_normal(size).astype("f4") for size in sizes]


class Kit:
    """What the tests of this folder share."""

    Numpy, Passing, Binding, Broken = Numpy, Passing, Binding, Broken
    as_model = staticmethod(as_model)
    random_plan = staticmethod(random_plan)
    region_of = staticmethod(region_of)
    feeds_for = staticmethod(feeds_for)

    def plan(self, regions: Any, host: Any, backends: Any, model: Model) -> Plan:
        return Plan(tuple(regions), host, backends=tuple(backends), model=model)

    def run_model(self, model: Any, inputs: Sequence[str]) -> Callable[..., Any]:
        run = reference(ir.to_proto(model.ir))
        return lambda *arrays: run.run(None, dict(zip(inputs, arrays, strict=True)))

    def proto(self, seed: int) -> onnx.ModelProto:
        return Graphs(seed, odd_names=zlib.crc32(str(seed).encode()) % 3 == 0).model()

    def expected(self, proto: onnx.ModelProto, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        names = [i.name for i in proto.graph.input]
        return reference(proto).run(None, dict(zip(names, feeds, strict=True)))


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
