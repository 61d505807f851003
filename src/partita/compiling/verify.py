"""Finds the first region that computes something else than the reference, and cuts it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import onnx_ir as ir

from partita.backends.contract import Backend, Call, Region
from partita.compiling.lowering import Lowering
from partita.compiling.regions import Compiled, RegionCompiler
from partita.compiling.reproduction import write_reproduction
from partita.compiling.stage import regions_by_graph
from partita.errors import RunError, printable
from partita.partitioning.plan import Plan
from partita.running.compare import ATOL, RTOL, Comparison, compare_outputs
from partita.running.program import Program
from partita.running.specs import spec_of
from partita.running.straight_line import straight_line
from partita.subgraph import cut


@final
@dataclass(frozen=True)
class Culprit:
    """The first region, in order of execution, that differs from the reference.

    Attributes:
        region: Its name in the plan.
        backend: Who ran it.
        nodes: The fewest of its nodes that were found to show the difference.
        comparison: Outputs of those nodes against the reference, on the same inputs.
        folder: Where the minimal model and its data were written, if that was asked for.
    """

    region: str
    backend: str
    nodes: tuple[str, ...]
    comparison: Comparison
    folder: Path | None = None

    def __str__(self) -> str:
        shown = ", ".join(f"'{printable(n)}'" for n in self.nodes[:5])
        more = f" and {len(self.nodes) - 5} more" if len(self.nodes) > 5 else ""
        lines = [
            f"region '{printable(self.region)}' of {self.backend} is the first to differ; "
            f"nodes {shown}{more} show it",
            str(self.comparison),
        ]
        return "\n".join(lines + ([f"minimal model: {self.folder}"] if self.folder else []))


def bisect(
    plan: Plan,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    reference: Backend | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    folder: str | Path | None = None,
) -> Culprit | None:
    """Runs a plan beside a reference, region by region, each on the reference's own values.

    A region is judged on inputs that are right, so a difference is its own and not inherited.
    Regions in bodies are judged at every turn of a loop. What is found is then made smaller: the
    shortest run of the region's nodes that still differs when compiled alone.

    Args:
        plan: A plan with its model.
        inputs: Arrays in graph order, or by name.
        reference: Computes what is right; ``None``: the host, operator by operator.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        folder: Where to write the minimal model, its inputs and both outputs; it is written
            whole or not at all.

    Returns:
        The culprit, or ``None`` if every region agrees.

    Raises:
        InputError: The inputs do not fit.
        RunError: A step failed; the regions before it agree.
    """
    bench = _Bench(plan, reference, rtol, atol)
    lowering = Lowering(bench.watched, regions_by_graph(plan.regions))
    model = plan.bound_model
    schedule = lowering.main(model.graph, model.inputs)
    program = Program(
        schedule, tuple(map(spec_of, model.inputs)), tuple(map(spec_of, model.outputs))
    )
    try:
        program.run(inputs) if isinstance(inputs, Mapping) else program(*inputs)
    except RunError as error:
        found = _difference_in(error)
        if found is None:
            raise
    else:
        return None
    smallest = bench.shrunk(found)
    written = None
    if folder is not None:
        written = write_reproduction(
            Path(folder), smallest.region, smallest.inputs, smallest.wanted, smallest.found
        )
    region = smallest.region
    return Culprit(region.name, region.backend, region.nodes, smallest.comparison, written)


@final
@dataclass(frozen=True, eq=False)
class _Difference:
    """A region, or a part of one, that differs."""

    region: Region
    inputs: tuple[Any, ...]
    found: tuple[Any, ...]
    wanted: tuple[Any, ...]
    comparison: Comparison


@final
class _FoundError(Exception):
    """Stops the run at the first difference."""

    def __init__(self, difference: _Difference) -> None:
        super().__init__("found")
        self.difference = difference


def _difference_in(error: BaseException | None) -> _Difference | None:
    while error is not None:
        if isinstance(error, _FoundError):
            return error.difference
        error = error.__cause__
    return None


@final
@dataclass(eq=False)
class _Bench:
    """Compiles regions twice: as planned, and for the reference."""

    plan: Plan
    reference: Backend | None
    rtol: float
    atol: float
    arrays: dict[ir.Value, Any] = field(default_factory=dict[ir.Value, Any])

    def watched(self, region: Region) -> Compiled | None:
        """Returns a region that runs both ways and goes on with the reference's values."""
        compiled = RegionCompiler(self.plan)(region)
        if compiled is None:
            return None
        examined = _whole(compiled, self.arrays)
        right = self.right(region)

        def both(*inputs: Any) -> Sequence[Any]:
            wanted = tuple(right(*inputs))
            found = tuple(examined(*inputs))
            comparison = self.compared(region, found, wanted)
            if not comparison:
                raise _FoundError(_Difference(compiled.region, inputs, found, wanted, comparison))
            return wanted

        return Compiled(compiled.region, both, frozenset(region.parameters))

    def compared(self, region: Region, found: Sequence[Any], wanted: Sequence[Any]) -> Comparison:
        """Compares outputs of a region."""
        return compare_outputs(region.outputs, found, wanted, rtol=self.rtol, atol=self.atol)

    def right(self, region: Region) -> Call:
        """Returns what computes the region rightly from its inputs alone."""
        if self.reference is None:
            return self._by_host(region, region.cut.outputs)
        backend = self.reference
        own = replace(region, backend=backend.name, options=backend.options, attributes={})
        call = backend.compile(own)
        owned = frozenset(backend.owns(own)) & frozenset(region.parameters)
        return _whole(Compiled(own, call, owned), self.arrays)

    def shrunk(self, difference: _Difference) -> _Difference:
        """Returns the difference in the shortest run of nodes that was found to show it.

        Two searches, each with about log2(n) compilations: the shortest beginning of the region
        that differs, then the shortest end of that. They suppose that a longer run differs where a
        shorter one did; where that fails the result is larger than need be, never wrong.
        """
        values = self._inner_values(difference)
        nodes = difference.region.ir_nodes
        best, low, high = difference, 0, len(nodes)
        while high - low > 1:
            middle = (low + high) // 2
            smaller = self._differs(difference.region, nodes[:middle], values)
            if smaller is None:
                low = middle
            else:
                best, high = smaller, middle
        length = 1
        while length < high:
            smaller = self._differs(difference.region, nodes[high - length : high], values)
            if smaller is not None:
                return smaller
            length *= 2
        return best

    def _differs(
        self, region: Region, nodes: Sequence[ir.Node], values: Mapping[ir.Value, Any]
    ) -> _Difference | None:
        part = _part(region, nodes)
        inputs = tuple(values[v] for v in part.cut.inputs)
        try:
            compiled = RegionCompiler(self.plan, strict=True)(part)
            assert compiled is not None
            found = tuple(_whole(compiled, self.arrays)(*inputs))
            wanted = tuple(self.right(part)(*inputs))
        except Exception:  # a part that no engine takes alone shows nothing
            return None
        comparison = self.compared(part, found, wanted)
        if comparison:
            return None
        return _Difference(compiled.region, inputs, found, wanted, comparison)

    def _inner_values(self, difference: _Difference) -> dict[ir.Value, Any]:
        region = difference.region
        made = [v for node in region.ir_nodes for v in node.outputs if v.name]
        results = self._by_host(region, made)(*difference.inputs)
        given = zip(region.cut.inputs, difference.inputs, strict=True)
        return {**dict(given), **dict(zip(made, results, strict=True))}

    def _by_host(self, region: Region, outputs: Sequence[ir.Value]) -> Call:
        lowering = Lowering(lambda _: None, {}, self.arrays)
        return straight_line(lowering.units(region.ir_nodes, region.cut.inputs, outputs))


def _whole(compiled: Compiled, arrays: dict[ir.Value, Any]) -> Call:
    """Returns a call that takes the region's inputs alone; parameters it wants are added."""
    lowering = Lowering(lambda _: compiled, {}, arrays)
    live = compiled.region.cut
    return straight_line(lowering.units([compiled.region], live.inputs, live.outputs))


def _part(region: Region, nodes: Sequence[ir.Node]) -> Region:
    live = cut(region.cut.model, nodes)
    return replace(
        region,
        nodes=tuple(str(node.name) for node in nodes),
        inputs=tuple(str(v.name) for v in live.inputs),
        outputs=tuple(str(v.name) for v in live.outputs),
        parameters=tuple(str(v.name) for v in live.parameters),
        subgraph=live,
    )
