"""Compiles one region: its own backend first, then the others that accept it, else the host."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final

from partita.backends.contract import Backend, Call, Executable, Region
from partita.errors import CompileError, PartitaError, printable
from partita.partitioning.plan import Plan
from partita.partitioning.rules import HOST
from partita.running.report import CompiledRegion, Fallback

logger = logging.getLogger("partita.compiling")

Progress = Callable[[int, int, str], None]
"""Is told how many regions are done, how many there are, and which comes next."""


@final
@dataclass(frozen=True, eq=False)
class Compiled:
    """A region in the form its backend gave it.

    Attributes:
        region: The region as that backend was given it.
        call: Runs it.
        owned: Parameters that the compiled form holds; the others are passed at run time.
    """

    region: Region
    call: Executable | Call
    owned: frozenset[str]


@final
@dataclass(eq=False)
class RegionCompiler:
    """Compiles the regions of a plan one by one and keeps the record."""

    plan: Plan
    strict: bool = False
    progress: Progress | None = None
    compiled: list[CompiledRegion] = field(default_factory=list[CompiledRegion])
    fallbacks: list[Fallback] = field(default_factory=list[Fallback])
    done: int = 0

    def __call__(self, region: Region) -> Compiled | None:
        """Returns the compiled region, or ``None`` if the host has to run its nodes one by one.

        Raises:
            CompileError: ``strict`` is set and the region's own backend failed.
        """
        if self.progress is not None:
            self.progress(self.done, len(self.plan.regions), region.name)
        failed: list[tuple[str, str]] = []
        found = self._attempt(region, lambda: self.plan.backend_named(region.backend), failed)
        for backend in () if found else self._others(region):
            if found := self._attempt(region, lambda b=backend: b, failed):
                break
        self._record(region, failed, found.region.backend if found else HOST)
        self.done += 1
        return found

    def _attempt(
        self, region: Region, backend: Callable[[], Backend], failed: list[tuple[str, str]]
    ) -> Compiled | None:
        name = region.backend
        start = time.perf_counter()
        try:
            chosen = backend()
            name = chosen.name
            offered = _offered(region, chosen)
            call = chosen.compile(offered)
            if not callable(call):
                raise TypeError(
                    f"compile returned {type(call).__name__}; it needs an Executable or a function"
                )
            owned = frozenset(chosen.owns(offered)) & frozenset(region.parameters)
        # SystemExit: a plugin that calls exit() must not take the caller's process with it.
        except (Exception, SystemExit) as error:
            if self.strict:
                raise CompileError(_sentence(region, name, _text(error))) from error
            failed.append((name, _text(error)))
            return None
        owned_bytes = sum(
            p.const_value.nbytes
            for p in region.cut.parameters
            if p.name in owned and p.const_value is not None
        )
        seconds = time.perf_counter() - start
        self.compiled.append(
            CompiledRegion(region.name, name, len(region.nodes), seconds, owned_bytes)
        )
        return Compiled(offered, call, owned)

    def _others(self, region: Region) -> tuple[Backend, ...]:
        try:
            return self.plan.fallbacks(region)
        except Exception as error:  # a review that raises must not cost the run
            logger.warning("region '%s': asking for other backends failed: %s", region.name, error)
            return ()

    def _record(self, region: Region, failed: list[tuple[str, str]], taker: str) -> None:
        takers = [name for name, _ in failed[1:]] + [taker]
        for (backend, text), to in zip(failed, takers, strict=False):
            fallback = Fallback(region.name, backend, text, to)
            self.fallbacks.append(fallback)
            logger.warning("%s", fallback)


def _offered(region: Region, backend: Backend) -> Region:
    """Returns the region as ``backend`` would have had it from the start."""
    if backend.name == region.backend:
        # Regions that a model came with have no options of their own yet.
        return region if region.options else replace(region, options=backend.options)
    answer = backend.why_not_region(region)
    if isinstance(answer, str):
        raise PartitaError(answer)
    return replace(
        region,
        backend=backend.name,
        strategy="",
        attributes=dict(answer or {}),
        options=backend.options,
        precision=backend.precision(),
    )


def _sentence(region: Region, backend: str, text: str) -> str:
    shown = ", ".join(f"'{printable(n)}'" for n in region.nodes[:5])
    more = f" and {len(region.nodes) - 5} more" if len(region.nodes) > 5 else ""
    return (
        f"backend '{backend}' could not compile region '{printable(region.name)}' "
        f"(nodes {shown}{more}): {text}"
    )


def _text(error: BaseException) -> str:
    words = printable(" ".join(str(error).split()), 500)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
