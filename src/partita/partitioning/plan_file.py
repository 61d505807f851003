"""The plan file: versioned JSON that people read, edit, review and apply again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from partita.backends.contract import Region
from partita.errors import PlanError, UnknownNameError, printable
from partita.files import write_text
from partita.partitioning.claims import Refusal
from partita.partitioning.plan import BackendSetting, Plan
from partita.partitioning.rules import HOST, RuleOutcome, Rules

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
            "placement": _fingerprint(plan),
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


def _fingerprint(plan: Plan) -> str:
    """Returns a hash of where every node goes; bounds hold for that placement alone."""
    rows = sorted([(n, r.name, r.backend) for n, r in plan.region_of.items()])
    rows += sorted((n, HOST, HOST) for n in plan.host)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


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
    data = _parsed(path)
    reader = _Reader(str(path))
    summary = reader.get(data, "summary", dict, {})
    regions = [reader.region(entry) for entry in reader.get(data, "regions", list, [])]
    reader.check_once(regions)
    plan = Plan(
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
    if reader.get(summary, "placement", str, "") == _fingerprint(plan):
        return plan
    return replace(plan, lower_bound=0, proved_minimal=False)  # edited: nothing is known of it


def _parsed(path: str | Path) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from error
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise PlanError(f"{path}: not JSON: {_quoted(text, error)}") from error
    data = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    if data.get("format") != FORMAT:
        raise PlanError(f'{path}: not a partita plan (no "format": "{FORMAT}")')
    if data.get("version") != VERSION:
        raise PlanError(
            f"{path}: plan version {data.get('version')!r}; this partita reads version {VERSION}"
        )
    return data


class _Reader:
    """Takes values out of JSON and quotes what does not fit."""

    def __init__(self, path: str) -> None:
        self.path = path

    def fail(self, what: str, entry: Any) -> PlanError:
        quoted = json.dumps(entry, ensure_ascii=False)
        return PlanError(f"{self.path}: {what}: {printable(quoted, 160)}")

    def get(self, entry: Any, key: str, kind: Any, default: Any = None) -> Any:
        if not isinstance(entry, dict):
            raise self.fail("expected an object", entry)
        value = cast(dict[str, Any], entry).get(key, default)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
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
            self.get(entry, key, _RULE_KINDS[key])
        return Rules(**entry)


_RULE_KINDS: Mapping[str, Any] = {
    "excluded_ops": (list, dict),
    "included_ops": (list, dict),
    "min_nodes": (int, dict),
    "max_regions": (int, dict),
    "pin": dict,
    "prefer": dict,
    "connected": bool,
}
_KINDS: Mapping[Any, str] = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    (list, dict): "a list or an object",
    (int, dict): "a whole number or an object",
}


def _quoted(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply"
    line = text.splitlines()[error.lineno - 1] if text else ""
    return f"{error.msg} in line {error.lineno}: {printable(line.strip(), 120)}"
