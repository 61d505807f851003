"""What users call: load, partition, compile, optimize_for, compare. Each is a few lines.

Engines and heavy libraries are imported when a verb needs them, so that ``import partita`` stays
light.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partita.backends import registry
from partita.backends.contract import Backend
from partita.errors import UsageError
from partita.model import Model
from partita.partitioning.plan import Explanation, Plan
from partita.partitioning.rules import Rules

if TYPE_CHECKING:
    from partita.compiling.regions import Progress
    from partita.loading.limits import Limits
    from partita.running.program import Program

PREFERENCE = ("onnxruntime", "openvino")
"""Engines tried in this order when the user names no backend."""

logger = logging.getLogger("partita")


def load(
    source: Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    fold: bool = True,
    base_dir: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
) -> Model:
    """Loads a model, checks it, infers shapes and dtypes, and folds small constant parts.

    Args:
        source: A path to an ONNX file, its bytes, an ``onnx.ModelProto``, an ``onnx_ir.Model``, a
            ``torch.nn.Module`` (with ``example_inputs``) or a ``torch.export.ExportedProgram``.
        example_inputs: Tuple of example inputs for a torch module.
        dynamic_shapes: Which dimensions may vary, as ``torch.export`` takes it.
        fold: Whether constant parts are computed once now (outputs up to 1 MiB each).
        base_dir: Folder of the weights that a model given as bytes or message keeps outside itself.
        limits: How large, deep and expanding a model may be.

    Raises:
        ModelError: The model is damaged, hostile or not supported; the message names the place.
    """
    from partita.inferring.stage import infer
    from partita.loading.limits import Limits
    from partita.loading.stage import load as load_stage

    limits = limits or Limits()
    model = load_stage(
        source, example_inputs, dynamic_shapes=dynamic_shapes, base_dir=base_dir, limits=limits
    )
    return infer(model, fold=fold, folded_bytes=limits.folded_bytes)


def partition(
    model: Any,
    backends: str | Backend | Sequence[str | Backend | type[Backend]] | None = None,
    *,
    excluded_ops: Collection[str] | Mapping[str, Collection[str]] = (),
    included_ops: Collection[str] | Mapping[str, Collection[str]] | None = None,
    min_nodes: int | Mapping[str, int] = 1,
    max_regions: int | Mapping[str, int] | None = None,
    pin: Mapping[str, str] | None = None,
    prefer: Mapping[str, str] | None = None,
    connected: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """Cuts a model into regions, each for the most preferred backend that takes it.

    Args:
        model: A loaded model, or anything that :func:`load` takes.
        backends: Names, classes or instances in order of preference; without them the first
            installed engine. The host backend takes what is left.
        excluded_ops: Op types that no backend gets, or ``{backend: op types}``.
        included_ops: The only op types that backends get, or ``{backend: op types}``.
        min_nodes: Regions with fewer nodes are given up; a number or ``{backend: number}``.
        max_regions: At most so many regions; a number or ``{backend: number}``.
        pin: ``{glob over node names: backend}``; must be kept, otherwise an error.
        prefer: The same as a wish.
        connected: Whether every region must be one connected piece.
        options: ``{backend: {option: value}}``.

    Returns:
        The plan; nothing is compiled and the model is not edited.
    """
    from partita.partitioning.stage import partition as partition_stage

    rules = Rules(
        excluded_ops, included_ops, min_nodes, max_regions, pin or {}, prefer or {}, connected
    )
    live = _resolved(backends, options or {})
    return partition_stage(
        _flat(model), live, rules, resolve=registry.resolve, version=registry.engine_version
    )


def compile(
    model: Any,
    backends: str | Backend | Sequence[str | Backend | type[Backend]] | None = None,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    **rules: Any,
) -> Program:
    """Compiles a plan, or partitions a model first, and returns what runs.

    A region that fails to compile falls to the next backend that takes its nodes; the program's
    report records it.

    Args:
        model: A plan, a loaded model, or anything that :func:`load` takes.
        backends: As in :func:`partition`; not with a plan.
        strict: Whether a failure is raised instead.
        progress: Called with (number done, number of regions, next region) before each region.
        **rules: As in :func:`partition`; not with a plan.
    """
    from partita.compiling.stage import compile as compile_stage
    from partita.reporting.text import placement_line

    if isinstance(model, Plan):
        if backends is not None or rules:
            raise UsageError("a plan is compiled as it is; give backends and rules to partition()")
        plan = model
    else:
        plan = partition(model, backends, **rules)
    fell_back = any(r.source == "backend" and r.node in plan.host for r in plan.refusals)
    logger.log(logging.WARNING if fell_back else logging.INFO, "%s", placement_line(plan))
    return compile_stage(plan, strict=strict, progress=progress)


def optimize_for(model: Any, backend: str | Backend, **rules: Any) -> Program:
    """Partitions for one backend, the host taking the rest, and compiles, in one call."""
    return compile(model, [backend], **rules)


def compare(first: Any, second: Any, inputs: Any = None, **tolerances: Any) -> Any:
    """Runs two models, plans or programs on the same inputs and compares every output.

    See :func:`partita.running.compare.compare`.
    """
    from partita.running.compare import compare as compare_stage

    return compare_stage(first, second, inputs, **tolerances)


def outline(plan: Plan) -> Model:
    """Returns the partitioned model of a plan."""
    from partita.compiling.outline import outline as outline_stage

    return outline_stage(plan)


def explain(plan: Plan, node: str) -> Explanation:
    """Returns why a node went where it went."""
    from partita.partitioning.explanation import explain as explain_stage

    return explain_stage(plan, node)


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> Path:
    """Writes a plan file."""
    from partita.partitioning.plan_file import save

    return save(plan, Path(path))


def load_plan(
    path: str | os.PathLike[str], model: Any = None, backends: Sequence[Any] | None = None
) -> Plan:
    """Reads a plan file and, given a model, applies it."""
    from partita.partitioning.plan_file import read
    from partita.partitioning.rebinding import bind

    plan = read(Path(path))
    if model is None:
        return plan
    given = {b.name: b for b in _resolved(backends, {})} if backends else {}

    def resolve(name: str, options: Mapping[str, Any]) -> Backend:
        return given.get(name) or registry.resolve(name, {name: options})

    return bind(plan, str(path), _flat(model), resolve)


def describe(plan: Plan) -> str:
    """Returns a plan as text: one placement line, then a table."""
    from partita.reporting.text import plan_text

    return plan_text(plan)


def html(plan: Plan) -> str:
    """Returns a plan as an HTML fragment."""
    from partita.reporting.html import plan_html

    return plan_html(plan)


def _flat(model: Any) -> Model:
    """Loads what is not loaded; takes a partitioned model apart again into nodes with marks."""
    if isinstance(model, Model):
        if not any(key[0] == "partita" for key in model.ir.functions):
            return model
        return load(model.ir)
    return load(model)


def _resolved(backends: Any, options: Mapping[str, Mapping[str, Any]]) -> list[Backend]:
    """Returns live backends; options for a backend that does not take part are an error."""
    if backends is None:
        installed = {info.name for info in registry.backends() if info.available}
        backends = [name for name in PREFERENCE if name in installed][:1]
    elif isinstance(backends, (str, Backend, type)):
        backends = [backends]
    live = [registry.resolve(spec, options) for spec in backends]
    names = [b.name for b in live]
    for name in options:
        if name not in names:
            raise UsageError(f"options are given for '{name}', which does not take part: {names}")
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise UsageError(f"backend '{twice[0]}' is given twice")
    return live
