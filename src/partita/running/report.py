"""What compiling a plan did: who compiled which region, how long it took, and what failed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from partita.errors import printable


@final
@dataclass(frozen=True)
class CompiledRegion:
    """A region that an engine compiled.

    Attributes:
        name: Name of the region.
        backend: Who compiled it in the end.
        nodes: How many nodes it holds.
        seconds: Wall time of the compilation that succeeded.
        owned_bytes: Bytes of its parameters that its compiled form holds.
    """

    name: str
    backend: str
    nodes: int
    seconds: float
    owned_bytes: int


@final
@dataclass(frozen=True)
class Fallback:
    """A region that its backend could not compile.

    Attributes:
        region: Name of the region.
        backend: Who failed.
        error: The engine's error, as text.
        to: Who took the region instead.
    """

    region: str
    backend: str
    error: str
    to: str

    def __str__(self) -> str:
        return (
            f"region '{printable(self.region)}': {self.backend} could not compile it "
            f"({printable(self.error)}); {self.to} runs it instead"
        )


@final
@dataclass(frozen=True)
class Report:
    """What compiling did.

    Attributes:
        regions: Regions that engines compiled, in order of execution, bodies included.
        fallbacks: Failures, in the order in which they happened.
        host_steps: How many operators the host runs one by one, bodies included.
        held_bytes: Bytes of parameters that the program itself holds.
        seconds: Wall time of the whole compilation.
    """

    regions: tuple[CompiledRegion, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    host_steps: int = 0
    held_bytes: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain data for JSON."""
        return asdict(self)
