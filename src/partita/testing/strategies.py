"""Hypothesis strategies over the generators; hypothesis is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from partita.model import Model
from partita.testing.draft import DTYPES
from partita.testing.graphs import chain, random_dag, random_model, residual_blocks
from partita.testing.hazards import HAZARDS, hazard

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def models(
    smallest: int = 1,
    largest: int = 30,
    *,
    dtypes: Sequence[str] = tuple(DTYPES),
    ops: Iterable[str] | None = None,
) -> SearchStrategy[Model]:
    """Returns a strategy of random models with tame numbers; it shrinks towards few nodes.

    Args:
        smallest: Fewest nodes.
        largest: Most nodes.
        dtypes: Element types that may occur.
        ops: Ops to draw from; all by default.
    """
    from hypothesis import strategies

    drawn = None if ops is None else tuple(ops)

    def build(nodes: int, seed: int) -> Model:
        return random_model(seed, nodes, dtypes=dtypes, ops=drawn)

    return strategies.builds(
        build,
        strategies.integers(smallest, largest),
        strategies.integers(0, 2**32 - 1),
    )


def hazards() -> SearchStrategy[Model]:
    """Returns a strategy of the hazards."""
    from hypothesis import strategies

    return strategies.sampled_from(sorted(HAZARDS)).map(hazard)


def structures(largest: int = 60) -> SearchStrategy[Model]:
    """Returns a strategy of elementwise chains, DAGs and residual blocks, to be partitioned."""
    from hypothesis import strategies

    sizes = strategies.integers(1, largest)
    seeds = strategies.integers(0, 2**32 - 1)
    shares = strategies.floats(0, 1, allow_nan=False)
    return strategies.one_of(
        strategies.builds(chain, sizes, strategies.integers(1, 5)),
        strategies.builds(random_dag, sizes, shares, seeds, strategies.integers(1, 20)),
        strategies.builds(residual_blocks, sizes),
    )
