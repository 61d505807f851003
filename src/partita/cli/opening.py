"""From options to a model and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from partita.cli.options import Choices, Display
from partita.cli.terminal import say
from partita.errors import PartitaError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from partita.model import Model
    from partita.partitioning.plan import Plan
    from partita.running.program import Program

MISMATCH_LINES = 5
"""Places where a plan file no longer fits that are said one by one."""


@final
class CoverageError(PartitaError):
    """Nodes are left to the host although the user wants none."""

    exit_code: ClassVar[int] = 1


def opened(path: Path) -> Model:
    """Returns the model in a file, checked and with shapes."""
    from partita import verbs

    return verbs.load(str(path))


def resized(model: Model, sizes: Mapping[str, int]) -> Model:
    """Returns a copy of a model whose open dimensions have sizes, with all shapes inferred anew.

    Raises:
        UnknownNameError: No input has a dimension of that name; the message lists near matches.
    """
    import onnx_ir as ir

    from partita import verbs
    from partita.model import Model

    known = {d.value for v in model.inputs for d in v.shape or () if not isinstance(d, int)}
    names = {name for name in known if name is not None}
    for name in sizes:
        if name not in names:
            raise UnknownNameError("dimension", name, names)
    copy = model.ir.clone()
    for value in copy.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape(
                [d if isinstance(d, int) else sizes.get(d.value or "", d) for d in value.shape]
            )
    for node in ir.traversal.RecursiveGraphIterator(copy.graph):
        for value in node.outputs:
            value.shape = None
    return Model(verbs.load(copy).ir, model.source)


def planned(model: Model, choices: Choices, display: Display) -> Plan:
    """Returns the plan that the options ask for, and says where the nodes go.

    Raises:
        UsageError: The options contradict each other, or name what does not exist.
        CoverageError: ``--require-full-coverage`` is not met.
    """
    plan = unchecked_plan(model, choices, display)
    if choices.require_full_coverage and plan.host:
        raise CoverageError(coverage_text(plan))
    return plan


def unchecked_plan(model: Model, choices: Choices, display: Display) -> Plan:
    """The same as :func:`planned`, but leaves ``--require-full-coverage`` to the caller."""
    from partita import verbs
    from partita.reporting.text import placement_line

    load_libraries(choices)
    if choices.plan is None:
        plan = verbs.partition(
            model, choices.backends(), options=choices.options(), **choices.rules()
        )
    else:
        if given := choices.decides():
            raise UsageError(
                f"{given} and --plan exclude each other: the plan file says it already; "
                "edit the file, or leave --plan out"
            )
        plan = verbs.load_plan(choices.plan, model)
        _say_mismatches(plan, choices.plan, display)
    say(display, placement_line(plan))
    return plan


def say_other(plan: Plan, display: Display) -> None:
    """Says where the nodes go in a plan that another is compared with."""
    from partita.reporting.text import placement_line

    say(display, placement_line(plan).replace("partita: ", "partita: the other: ", 1))


def _say_mismatches(plan: Plan, path: Path, display: Display) -> None:
    for sentence in plan.mismatches[:MISMATCH_LINES]:
        say(display, f"partita: {path}: {sentence}")
    if len(plan.mismatches) > MISMATCH_LINES:
        more = len(plan.mismatches) - MISMATCH_LINES
        say(display, f"partita: {path}: … {more:,} more; see partita plan MODEL --plan {path}")


def compiled(plan: Plan, choices: Choices, display: Display, strict: bool) -> Program:
    """Returns the program of a plan.

    Raises:
        CompileError: A region could not be compiled and ``strict`` is set.
        CoverageError: A region fell to the host, and the user wants none there.
    """
    from partita import verbs
    from partita.cli.terminal import progress
    from partita.partitioning.rules import HOST

    with progress(display, "compiling") as report:
        program = verbs.compile(plan, strict=strict, progress=report)
    fell = [f for f in program.report.fallbacks if f.to == HOST]
    if choices.require_full_coverage and fell:
        raise CoverageError(f"--require-full-coverage is not met: {fell[0]}")
    return program


def load_libraries(choices: Choices) -> None:
    """Registers the backends of the files that the user names."""
    from partita.backends import registry

    for path in choices.library or ():
        registry.load_library(path)


def coverage_text(plan: Plan) -> str:
    """Says how far a plan is from full coverage."""
    from partita.reporting.text import placement_line

    line = placement_line(plan).removeprefix("partita: ")
    return f"--require-full-coverage is not met: {line}"


def require_folder(*paths: Path | None) -> None:
    """Checks before any work that files can be written where the user wants them.

    Raises:
        UsageError: The folder does not exist, or the path is one itself.
    """
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}: folder {path.absolute().parent} does not exist")
        if path is not None and path.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder")
