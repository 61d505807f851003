"""Puts a plan that was read from a file back on a model, as far as it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import onnx_ir as ir

from partita.backends.contract import Backend, Region
from partita.errors import PlanError, UnknownNameError, UnsoundPlanError, UsageError
from partita.inferring.costs import value_bytes
from partita.model import Model
from partita.partitioning.dependencies import Scope, scope_of
from partita.partitioning.fusion import fuse
from partita.partitioning.placement import region_of
from partita.partitioning.plan import Plan
from partita.partitioning.stage import checked, crossings


def bind(
    plan: Plan,
    path: str,
    model: Model,
    resolve: Callable[[str, Mapping[str, Any]], Backend],
) -> Plan:
    """Applies a plan that was read from a file to a model.

    Against the model it was made for, everything must fit. Against another model, what no longer
    fits is left to the host and said in ``mismatches``.

    Raises:
        PlanError: The file does not fit the model it was made for.
    """
    same = plan.model_hash in ("", model.hash)
    options = {s.name: s.options for s in plan.settings}
    names = dict.fromkeys(s.name for s in plan.settings)
    names.update(dict.fromkeys(r.backend for r in plan.regions))
    try:
        live = {name: resolve(name, options.get(name, {})) for name in names}
    except UsageError as error:
        raise PlanError(f"{path}: {error}") from error
    binder = _Binder(path, plan, model, live, same)
    binder.report_missing()
    for graph_path, graph in model.graphs():
        binder.take(scope_of(graph_path, graph))
    return replace(
        plan,
        regions=tuple(binder.regions),
        host=binder.host,
        backends=tuple(live[s.name] for s in plan.settings),
        carried=tuple(b for n, b in live.items() if n not in {s.name for s in plan.settings}),
        lower_bound=plan.lower_bound if same and not binder.changed else 0,
        proved_minimal=plan.proved_minimal and same and not binder.changed,
        crossing_bytes=binder.crossing,
        crossing_unknown=binder.unknown,
        mismatches=tuple(binder.mismatches),
        model_hash="",
        model=model,
    )


@final
class _Binder:
    """Puts the regions of a read plan back on the nodes of a model, scope by scope."""

    def __init__(
        self, path: str, plan: Plan, model: Model, live: Mapping[str, Backend], same: bool
    ) -> None:
        self.path, self.plan, self.model, self.live, self.same = path, plan, model, live, same
        self.wanted = {node: region for region in plan.regions for node in region.nodes}
        self.placed = {**plan.host, **dict.fromkeys(self.wanted, "")}
        self.judges = {name: backend.judge(model) for name, backend in live.items()}
        self.regions: list[Region] = []
        self.host: dict[str, str] = {}
        self.mismatches: list[str] = []
        self.changed = False
        self.crossing = self.unknown = 0

    def miss(self, sentence: str) -> None:
        """Raises where the plan must fit, otherwise notes what does not."""
        if self.same:
            raise PlanError(f"{self.path}: {sentence}")
        self.mismatches.append(sentence)

    def take(self, scope: Scope) -> None:
        if scope.path and not any(str(n.name) in self.placed for n in scope.nodes):
            return  # the body of a node that a region holds whole
        groups: dict[str, list[int]] = {}
        for number, node in enumerate(scope.nodes):
            region = self.wanted.get(str(node.name))
            if region is not None and self._fits(scope, node, region):
                groups.setdefault(region.name, []).append(number)
            else:
                self._leave(node, region)
        pieces = self._sound(scope, groups)
        values, unknown_rows = scope.values(value_bytes)
        order, home = checked(scope, [numbers for _, numbers in pieces])
        crossing, unknown = crossings(values, unknown_rows, home)
        self.crossing += crossing
        self.unknown += unknown
        self.regions += [self._region(scope, *pieces[i]) for i in order]

    def report_missing(self) -> None:
        """Says which nodes of the plan the model does not have."""
        known = {str(n.name) for _, graph in self.model.graphs() for n in graph}
        for node, region in self.wanted.items():
            if node in known:
                continue
            if self.same:  # only a slip of the pen can be the cause; near matches help
                self.miss(f"region '{region.name}': {UnknownNameError('node', node, known)}")
            self.miss(f"region '{region.name}': the model has no node '{node}'")

    def _leave(self, node: ir.Node, region: Region | None) -> None:
        name = str(node.name)
        self.host[name] = node.op_type
        if name not in self.placed:
            self.miss(f"node '{name}' ({node.op_type}) is not in the plan; it is left to the host")
        elif region is None and self.plan.host.get(name) not in ("", node.op_type):
            self.miss(f"node '{name}' is a {node.op_type}; the plan knows a {self.plan.host[name]}")

    def _fits(self, scope: Scope, node: ir.Node, region: Region) -> bool:
        name = str(node.name)
        op = region.options["ops"][name]
        if region.graph != scope.path:
            self.miss(f"node '{name}' lies in graph '{scope.path}', the plan has '{region.graph}'")
            return False
        if op and op != node.op_type:
            self.miss(f"node '{name}' is a {node.op_type}; region '{region.name}' knows a {op}")
            return False
        reason = self.judges[region.backend](node)
        if reason is not None:
            self.miss(f"region '{region.name}': {region.backend} refuses '{name}': {reason}")
            return False
        return True

    def _sound(self, scope: Scope, groups: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
        """Returns the groups, split where the changed model would make a cycle of them."""
        pieces = list(groups.items())
        try:
            checked(scope, [numbers for _, numbers in pieces], [name for name, _ in pieces])
        except UnsoundPlanError as error:
            self.miss(f"its regions cannot stand together: {error.finding}")
        else:
            return pieces
        types = [-1] * len(scope.nodes)
        for kind, (_, numbers) in enumerate(pieces):
            for number in numbers:
                types[number] = kind
        split: dict[int, list[int]] = {}
        for number, region in enumerate(fuse(scope.predecessors, types).region):
            if region >= 0:
                split.setdefault(region, []).append(number)
        count: dict[str, int] = {}
        result: list[tuple[str, list[int]]] = []
        for numbers in split.values():
            name = pieces[types[numbers[0]]][0]
            count[name] = count.get(name, 0) + 1
            result.append((name if count[name] == 1 else f"{name}_{count[name]}", numbers))
        return result

    def _region(self, scope: Scope, name: str, numbers: Sequence[int]) -> Region:
        old = self.wanted[str(scope.nodes[numbers[0]].name)]
        backend = self.live[old.backend]
        who = {
            "backend": old.backend,
            "strategy": old.strategy,
            "attributes": old.attributes,
            "options": backend.options,
            "precision": backend.precision(),
        }
        region = region_of(self.model, scope, numbers, name, who)
        self.changed = self.changed or region.nodes != old.nodes
        return region
