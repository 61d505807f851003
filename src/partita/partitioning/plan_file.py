"""The plan file: versioned JSON that people read, edit, review and apply again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from partita.backends.contract import Backend, Region
from partita.errors import PlanError, UnknownNameError, UnsoundPlanError, printable
from partita.files import write_text
from partita.inferring.costs import value_bytes
from partita.model import Model
from partita.partitioning.claims import Refusal
from partita.partitioning.dependencies import Scope, scope_of
from partita.partitioning.fusion import fuse
from partita.partitioning.placement import region_of
from partita.partitioning.plan import BackendSetting, Plan
from partita.partitioning.rules import RuleOutcome, Rules
from partita.partitioning.stage import checked, crossings

FORMAT = "partita.plan"
VERSION = 1


def save(plan: Plan, path: str | Path) -> Path:
    """Writes a plan; whole or not at all."""
    write_text(path, json.dumps(to_json(plan), indent=1, ensure_ascii=False) + "\n")
    return Path(path)


def to_json(plan: Plan) -> dict[str, Any]:
    """Returns a plan as plain JSON values, in the order in which a person wants to read them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": {
            "source": plan.model.source if plan.model else "",
            "hash": plan.hash,
            "nodes": plan.node_count,
        },
        "summary": {
            "regions": len(plan.regions),
            "lower_bound": plan.lower_bound,
            "proved_minimal": plan.proved_minimal,
            "crossing_bytes": plan.crossing_bytes,
            "crossing_unknown": plan.crossing_unknown,
            "duplicated_parameter_bytes": plan.duplicated_bytes if plan.model else 0,
        },
        "backends": [
            {
                "name": s.name,
                "version": s.version,
                "precision": s.precision,
                "options": dict(s.options),
            }
            for s in plan.settings
        ],
        "rules": plan.request.to_json(),
        "rule_outcomes": [
            {"rule": r.rule, "applied": r.applied, "detail": r.detail} for r in plan.rules
        ],
        "regions": [_region_to_json(plan, region) for region in plan.regions],
        "host": dict(plan.host),
        "refusals": _refusals_to_json(plan.refusals),
    }


def _region_to_json(plan: Plan, region: Region) -> dict[str, Any]:
    ops = {str(n.name): n.op_type for n in region.ir_nodes} if region.subgraph else {}
    record: dict[str, Any] = {
        "name": region.name,
        "backend": region.backend,
        "graph": region.graph,
        "strategy": region.strategy,
        "precision": region.precision,
        "attributes": dict(region.attributes),
        "nodes": {name: ops.get(name, "") for name in region.nodes},
        "inputs": list(region.inputs),
        "outputs": list(region.outputs),
        "parameters": list(region.parameters),
        "parameter_bytes": plan.parameter_bytes(region) if region.subgraph else 0,
    }
    return {k: v for k, v in record.items() if v not in ("", {}) or k in ("nodes", "name")}


def _refusals_to_json(refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    """Groups refusals that say the same, so that the file stays readable."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for r in refusals:
        groups.setdefault((r.backend, r.source, r.reason), []).append(r.node)
    return [
        {"backend": backend, "source": source, "reason": reason, "nodes": nodes}
        for (backend, source, reason), nodes in groups.items()
    ]


def read(path: str | Path) -> Plan:
    """Reads a plan file without a model: it can be printed and compared.

    Raises:
        PlanError: The file is damaged; the message quotes the place.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise PlanError(f"{path}: not JSON: {_quoted(text, error)}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise PlanError(f'{path}: not a partita plan (no "format": "{FORMAT}")')
    if data.get("version") != VERSION:
        raise PlanError(
            f"{path}: plan version {data.get('version')!r}; this partita reads version {VERSION}"
        )
    reader = _Reader(str(path))
    summary = reader.get(data, "summary", dict, {})
    regions = [reader.region(entry) for entry in reader.get(data, "regions", list, [])]
    reader.check_once(regions)
    return Plan(
        regions=tuple(regions),
        host=reader.texts(data, "host"),
        refusals=tuple(
            Refusal(node, entry["backend"], entry["reason"], entry["source"])
            for entry in map(reader.refusal, reader.get(data, "refusals", list, []))
            for node in entry["nodes"]
        ),
        rules=tuple(
            RuleOutcome(str(r.get("rule")), bool(r.get("applied")), str(r.get("detail")))
            for r in reader.get(data, "rule_outcomes", list, [])
        ),
        settings=tuple(reader.setting(entry) for entry in reader.get(data, "backends", list, [])),
        request=reader.rules(reader.get(data, "rules", dict, {})),
        lower_bound=reader.get(summary, "lower_bound", int, 0),
        proved_minimal=reader.get(summary, "proved_minimal", bool, False),
        crossing_bytes=reader.get(summary, "crossing_bytes", int, 0),
        crossing_unknown=reader.get(summary, "crossing_unknown", int, 0),
        model_hash=reader.get(reader.get(data, "model", dict, {}), "hash", str, ""),
    )


class _Reader:
    """Takes values out of JSON and quotes what does not fit."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, what: str, entry: Any) -> PlanError:
        quoted = json.dumps(entry, ensure_ascii=False)
        return PlanError(f"{self.path}: {what}: {printable(quoted, 160)}")

    def get(self, entry: Any, key: str, kind: type, default: Any = None) -> Any:
        if not isinstance(entry, dict):
            raise self.fail("expected an object", entry)
        value = entry.get(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(f'"{key}" must be {_KINDS[kind]}', {key: value})
        return value

    def texts(self, entry: Any, key: str) -> dict[str, str]:
        value = self.get(entry, key, dict, {})
        for k, v in value.items():
            if not isinstance(v, str):
                raise self.fail(f'"{key}" must map names to text', {k: v})
        return value

    def names(self, entry: Any, key: str) -> tuple[str, ...]:
        value = self.get(entry, key, list, [])
        if not all(isinstance(v, str) for v in value):
            raise self.fail(f'"{key}" must be a list of names', {key: value})
        return tuple(value)

    def region(self, entry: Any) -> Region:
        nodes = self.texts(entry, "nodes")
        name = self.get(entry, "name", str, "")
        if not name or not nodes:
            raise self.fail("a region needs a name and at least one node", entry)
        return Region(
            name=name,
            backend=self.get(entry, "backend", str, ""),
            nodes=tuple(nodes),
            inputs=self.names(entry, "inputs"),
            outputs=self.names(entry, "outputs"),
            parameters=self.names(entry, "parameters"),
            graph=self.get(entry, "graph", str, ""),
            strategy=self.get(entry, "strategy", str, ""),
            attributes=self.texts(entry, "attributes"),
            options={"ops": nodes},
            precision=self.get(entry, "precision", str, "float32"),
        )

    def check_once(self, regions: Sequence[Region]) -> None:
        names: dict[str, str] = {}
        for region in regions:
            for node in region.nodes:
                if node in names:
                    raise self.fail(
                        f"node stands in regions '{names[node]}' and '{region.name}'", node
                    )
                names[node] = region.name
        if len({r.name for r in regions}) < len(regions):
            raise self.fail("two regions have one name", [r.name for r in regions])

    def refusal(self, entry: Any) -> dict[str, Any]:
        found = {k: self.get(entry, k, str, "") for k in ("backend", "reason", "source")}
        return {**found, "nodes": self.names(entry, "nodes")}

    def setting(self, entry: Any) -> BackendSetting:
        return BackendSetting(
            self.get(entry, "name", str),
            self.get(entry, "version", str, ""),
            self.get(entry, "options", dict, {}),
            self.get(entry, "precision", str, "float32"),
        )

    def rules(self, entry: Mapping[str, Any]) -> Rules:
        known = [f.name for f in fields(Rules)]
        for key in entry:
            if key not in known:
                raise PlanError(f"{self.path}: {UnknownNameError('rule', key, known)}")
        return Rules(**entry)


_KINDS = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
    str: "text",
}


def _quoted(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply"
    line = text.splitlines()[error.lineno - 1] if text else ""
    return f"{error.msg} in line {error.lineno}: {printable(line.strip(), 120)}"


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
    live = {name: resolve(name, options.get(name, {})) for name in names}
    binder = _Binder(path, plan, model, live, same)
    for graph_path, graph in model.graphs():
        binder.take(scope_of(graph_path, graph))
    binder.report_missing()
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
        self.seen: set[str] = set()
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
            self.seen.add(str(node.name))
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
        known = [str(n.name) for _, graph in self.model.graphs() for n in graph]
        for node in self.wanted:
            if node not in self.seen:
                region = self.wanted[node].name
                missing = UnknownNameError("node (of this model)", node, known)
                self.miss(f"region '{region}': {missing}")

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
            checked(scope, [numbers for _, numbers in pieces])
        except UnsoundPlanError as error:
            self.miss(f"its regions cannot stand together: {error}")
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
