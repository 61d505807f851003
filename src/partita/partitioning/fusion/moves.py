"""Moves of nodes between the batches of a fixed sequence that lower the crossing cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from partita.partitioning.fusion.ledger import Ledger


@final
class Placement:
    """Nodes in the batches of a sequence, and the moves that leave it in order.

    Attributes:
        ledger: The crossing cost and the positions.
        low: For each node the first batch that its predecessors allow, for a separator the first
            batch allowed behind it; as of the last forward pass.
        high: The mirror image, as of the last backward pass.
    """

    def __init__(
        self,
        predecessors: Sequence[Sequence[int]],
        types: Sequence[int],
        sequence: Sequence[int],
        ledger: Ledger,
    ) -> None:
        self.predecessors, self.types, self.sequence = predecessors, types, sequence
        self.ledger = ledger
        self.low: list[int] = []
        self.high: list[int] = []

    def improve(self) -> int:
        """Moves nodes one by one, backwards and then forwards; returns the change of the cost."""
        self._forward(moving=False)
        return self._backward() + self._forward(moving=True)

    def pull(self, earliest: list[int]) -> int:
        """Moves nodes from their earliest places towards their readers, in one sweep."""
        self.low = earliest
        return self._backward()

    def _backward(self) -> int:
        """Moves each free node to its cheapest place, last nodes first; returns the change.

        Places of equal cost draw a node towards its readers, so that a chain of nodes can follow
        one by one. What a node's predecessors allow does not depend on later nodes, so ``low``
        stays exact while ``high`` is computed anew.
        """
        types, ledger = self.types, self.ledger
        position, free = ledger.position, ledger.inputs
        high = self.high = [len(self.sequence) - 1] * len(types)
        total = 0
        for v in range(len(types) - 1, -1, -1):
            kind, bound = types[v], high[v]
            if kind >= 0:
                if free[v] is not None:
                    total += self._move(v, self.low[v], bound, 1)
                bound = position[v]
            before = bound - 1
            for p in self.predecessors[v]:
                allowed = before if kind >= 0 and types[p] != kind else bound
                if allowed < high[p]:
                    high[p] = allowed
        return total

    def _forward(self, moving: bool) -> int:
        """Does the same, first nodes first, drawing nodes towards what they read.

        Without moving it computes ``low``.
        """
        types, ledger = self.types, self.ledger
        position, free = ledger.position, ledger.inputs
        low = self.low = [0] * len(types)
        total = 0
        for v, parents in enumerate(self.predecessors):
            kind, bound = types[v], 0
            for p in parents:
                if types[p] < 0:
                    after = low[p]
                elif types[p] == kind:
                    after = position[p]
                else:
                    after = position[p] + 1
                if after > bound:
                    bound = after
            low[v] = bound
            if moving and free[v] is not None:
                total += self._move(v, bound, self.high[v], -1)
        return total

    def _move(self, node: int, low: int, high: int, direction: int) -> int:
        """Moves a node to the cheapest suggested place that its neighbours allow."""
        if low == high:
            return 0
        ledger, sequence, kind = self.ledger, self.sequence, self.types[node]
        here = ledger.position[node]
        best, where = (0, 0), here
        for place in ledger.suggestions(node):
            if low <= place <= high and sequence[place] == kind:
                merit = (ledger.change(node, place), direction * (here - place))
                if merit < best:
                    best, where = merit, place
        if where != here:
            ledger.move(node, where)
        return best[0]
