"""The plan: which node goes where and why, what crosses, and how good it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, final

import onnx_ir as ir

from partita.backends.contract import EMPTY, Backend, Region
from partita.errors import PlanError, UnknownNameError
from partita.model import Model
from partita.partitioning.claims import Refusal
from partita.partitioning.rules import HOST, RuleOutcome, Rules

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class BackendSetting:
    """A backend as it took part.

    Attributes:
        name: Its name.
        version: Version of its engine, ``""`` if unknown.
        options: Its options, defaults filled in.
        precision: Element type in which it computes float32 nodes.
    """

    name: str
    version: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    precision: str = "float32"


@final
@dataclass(frozen=True)
class Plan:
    """The record of a partition. It never changes; the model is never edited.

    Attributes:
        regions: Every region, those of the main graph first, each graph in execution order.
        host: Nodes left to the host backend, with their ops.
        refusals: One sentence for every (node, backend) that was asked and did not get the node.
        rules: Whether each rule of the user applied, and to what.
        settings: The backends that took part, in order of preference.
        request: The rules as written.
        lower_bound: No plan that respects the same claims has fewer regions.
        proved_minimal: Whether the number of regions is known to be the least.
        crossing_bytes: Bytes that pass between regions, host and caller in one run.
        crossing_unknown: Crossings of values whose size is unknown (they count as 0 bytes).
        model_hash: Hash of the model the plan was made for (``""``: taken from ``model``).
        mismatches: What of a loaded plan no longer fits its model.
        came_with: Names of the regions that the model came with; no backend was asked about them.
        backends: The live backends in order of preference.
        carried: Live backends of the regions that the model came with, as far as installed.
        model: The live model; ``None`` for a plan read without one.
    """

    regions: tuple[Region, ...]
    host: Mapping[str, str]
    refusals: tuple[Refusal, ...] = ()
    rules: tuple[RuleOutcome, ...] = ()
    settings: tuple[BackendSetting, ...] = ()
    request: Rules = field(default_factory=Rules)
    lower_bound: int = 0
    proved_minimal: bool = False
    crossing_bytes: int = 0
    crossing_unknown: int = 0
    model_hash: str = ""
    mismatches: tuple[str, ...] = ()
    came_with: frozenset[str] = frozenset()
    backends: tuple[Backend, ...] = field(default=(), repr=False, compare=False)
    carried: tuple[Backend, ...] = field(default=(), repr=False, compare=False)
    model: Model | None = field(default=None, repr=False, compare=False)

    @property
    def bound_model(self) -> Model:
        """The live model.

        Raises:
            PlanError: The plan was read from a file without a model.
        """
        if self.model is None:
            raise PlanError("this plan has no model; read it with Plan.load(path, model)")
        return self.model

    @property
    def hash(self) -> str:
        """Hash of the model the plan belongs to."""
        return self.model_hash or self.bound_model.hash

    @cached_property
    def region_of(self) -> Mapping[str, Region]:
        """The region of every node that has one."""
        return {node: region for region in self.regions for node in region.nodes}

    @property
    def placement(self) -> Mapping[str, str]:
        """The backend of every node."""
        placed = {node: region.backend for node, region in self.region_of.items()}
        return {**placed, **dict.fromkeys(self.host, HOST)}

    @property
    def node_count(self) -> int:
        """Number of nodes placed: those of regions and those left to the host."""
        return len(self.region_of) + len(self.host)

    def backend_of(self, node: str) -> str:
        """Returns the name of the backend that runs a node.

        Raises:
            UnknownNameError: There is no such node; the message lists near matches.
        """
        region = self.region_of.get(node)
        if region is not None:
            return region.backend
        if node in self.host:
            return HOST
        raise UnknownNameError("node", node, [*self.region_of, *self.host])

    def region(self, name: str) -> Region:
        """Returns a region by its name."""
        for region in self.regions:
            if region.name == name:
                return region
        raise UnknownNameError("region", name, [r.name for r in self.regions])

    def backend_named(self, name: str) -> Backend:
        """Returns the live backend that runs regions of that name."""
        for backend in (*self.backends, *self.carried):
            if backend.name == name:
                return backend
        raise UnknownNameError("backend (of this plan)", name, [b.name for b in self.backends])

    @cached_property
    def _refused(self) -> Mapping[str, frozenset[str]]:
        refused: dict[str, set[str]] = {}
        for refusal in self.refusals:
            refused.setdefault(refusal.backend, set()).add(refusal.node)
        return {backend: frozenset(nodes) for backend, nodes in refused.items()}

    def fallbacks(self, region: Region) -> tuple[Backend, ...]:
        """Returns the other backends that accept every node of ``region``, most preferred first."""
        return tuple(
            backend
            for backend in self.backends
            if backend.name != region.backend
            and self._took(backend, region)
            and _accepts(backend, region)
        )

    def _took(self, backend: Backend, region: Region) -> bool:
        if region.name in self.came_with:
            alone = region.to_model()
            judge = backend.judge(alone)
            return all(judge(node) is None for node in alone.graph)
        return self._refused.get(backend.name, frozenset()).isdisjoint(region.nodes)

    def parameter_bytes(self, region: Region) -> int:
        """Returns the bytes of the weights that a region reads."""
        return sum(v.const_value.nbytes for v in region.cut.parameters if v.const_value is not None)

    @cached_property
    def duplicated_bytes(self) -> int:
        """Bytes of weights that more than one place holds, counted once for each extra place."""
        places: dict[ir.Value, int] = {}
        for region in self.regions:
            for value in region.cut.parameters:
                places[value] = places.get(value, 0) + 1
        for _, graph in self.bound_model.graphs():
            for value in _host_parameters(graph, self.host):
                places[value] = places.get(value, 0) + 1
        return sum(
            (count - 1) * value.const_value.nbytes
            for value, count in places.items()
            if value.const_value is not None
        )

    def explain(self, node: str) -> Explanation:
        """Returns why a node went where it went: every backend's sentence, rules, neighbours.

        Raises:
            UnknownNameError: There is no such node; the message lists near matches.
        """
        from partita import verbs

        return verbs.explain(self, node)

    def diff(self, other: Plan) -> PlanDiff:
        """Returns what changes from this plan to ``other``."""
        before, after = self.placement, other.placement
        return PlanDiff(
            moved=tuple(
                (n, before[n], after[n]) for n in before if n in after and before[n] != after[n]
            ),
            added=tuple(n for n in after if n not in before),
            removed=tuple(n for n in before if n not in after),
            regions=(len(self.regions), len(other.regions)),
            crossing_bytes=(self.crossing_bytes, other.crossing_bytes),
            same_model=self.hash == other.hash,
        )

    def save(self, path: str | Path) -> Path:
        """Writes the plan as a JSON file that people can read and edit; whole or not at all."""
        from partita import verbs

        return verbs.save_plan(self, path)

    @staticmethod
    def load(
        path: str | Path, model: Model | None = None, backends: Sequence[Any] | None = None
    ) -> Plan:
        """Reads a plan file and, given a model, applies it.

        Against the model it was made for, the file must fit exactly. Against a changed model the
        parts that fit are kept and ``mismatches`` says what does not.

        Args:
            path: The file.
            model: The model to apply it to; without one the plan can be printed and compared only.
            backends: Backends to use in place of those that the file names, by name.

        Raises:
            PlanError: The file is damaged or was edited wrongly; the message quotes the place.
        """
        from partita import verbs

        return verbs.load_plan(path, model, backends)

    def apply(self) -> Model:
        """Returns the partitioned model: valid ONNX, each region a model-local function."""
        from partita import verbs

        return verbs.outline(self)

    def compile(self, **options: Any) -> Any:
        """The same as :func:`partita.compile` of this plan."""
        from partita import verbs

        return verbs.compile(self, **options)

    def __str__(self) -> str:
        """One placement line, then a table."""
        from partita import verbs

        return verbs.describe(self)

    def _repr_html_(self) -> str:
        from partita import verbs

        return verbs.html(self)


@final
@dataclass(frozen=True)
class Explanation:
    """Why one node went where it went.

    Attributes:
        node: Its name.
        op_type: Its op.
        graph: Path of its graph.
        backend: Who runs it.
        region: Its region, ``""`` on the host.
        refusals: Sentences of the backends that do not run it.
        notes: What else matters: rules that name it, and why neighbours are in other regions.
    """

    node: str
    op_type: str
    graph: str
    backend: str
    region: str
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{self.backend}, region {self.region}" if self.region else self.backend
        inside = f" in {self.graph}" if self.graph else ""
        lines = [f"{self.node} ({self.op_type}{inside}) runs on {where}"]
        lines += [f"  not {r.backend}: {r.reason}  [{r.source}]" for r in self.refusals]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


@final
@dataclass(frozen=True)
class PlanDiff:
    """What changes from one plan to another.

    Attributes:
        moved: ``(node, backend before, backend after)``.
        added: Nodes that only the second plan has.
        removed: Nodes that only the first plan has.
        regions: Number of regions before and after.
        crossing_bytes: Bytes that cross before and after.
        same_model: Whether both plans are for the same model.
    """

    moved: tuple[tuple[str, str, str], ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    regions: tuple[int, int]
    crossing_bytes: tuple[int, int]
    same_model: bool

    def __bool__(self) -> bool:
        return bool(self.moved or self.added or self.removed) or len(set(self.regions)) > 1

    def __str__(self) -> str:
        lines = [
            f"regions {self.regions[0]} → {self.regions[1]}, "
            f"crossing bytes {self.crossing_bytes[0]:,} → {self.crossing_bytes[1]:,}, "
            f"{'same model' if self.same_model else 'models differ'}"
        ]
        lines += [f"  {node}: {a} → {b}" for node, a, b in self.moved]
        lines += [f"  {node}: new" for node in self.added]
        lines += [f"  {node}: gone" for node in self.removed]
        return "\n".join(lines)


def _accepts(backend: Backend, region: Region) -> bool:
    try:
        return not isinstance(backend.why_not_region(region), str)
    except Exception as error:  # a plugin's fault must not keep the next backend from its turn
        logger.warning("%s failed to review %s: %s", backend.name, region.name, error)
        return False


def _host_parameters(graph: ir.Graph, host: Mapping[str, str]) -> set[ir.Value]:
    return {
        value
        for node in graph
        if node.name in host
        for value in node.inputs
        if value is not None and value.const_value is not None
    }
