"""The crossing cost of a placement while its nodes move about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from partita.partitioning.crossing import HOST, Traffic

_MANY_PLACES = 16
"""A value that goes to more places than this suggests no place for its other readers."""


@final
class Ledger:
    """The crossing cost of a placement, kept exact while nodes that are free to move do so.

    Costs rank placements by bytes first and by the number of crossings second, so that values of
    unknown size still cross as seldom as they can.

    Attributes:
        position: The place of each node: its batch, or what ``crossing`` says of nodes that lie in
            none; one more for the outside, the host.
        inputs: For each free node the values that it reads, by index; None for other nodes.
        outputs: For each free node the values that it makes.
        producer: For each value the node that makes it.
        readers: For each value that a free node touches how many nodes read it at each place;
            empty for other values.
        weight: For each value the cost of one crossing.
    """

    def __init__(
        self, position: Iterable[int], free: Iterable[int], values: Sequence[Traffic]
    ) -> None:
        self.position = [*position, HOST]
        self.inputs: list[list[int] | None] = [None] * len(self.position)
        self.outputs: list[list[int]] = [[]] * len(self.position)
        for v in free:
            self.inputs[v] = []
            self.outputs[v] = []
        self.producer = [producer for producer, _, _ in values]
        unit = sum([len(consumers) for _, _, consumers in values]) + 1
        self.weight = [size * unit + 1 for _, size, _ in values]
        self.readers: list[dict[int, int]] = [{}] * len(values)
        for index, (producer, _, consumers) in enumerate(values):
            touched = self.inputs[producer] is not None
            if touched:
                self.outputs[producer].append(index)
            for c in consumers:
                read = self.inputs[c]
                if read is not None:
                    touched = True
                    if not read or read[-1] != index:
                        read.append(index)
            if touched:
                self.readers[index] = self._count(consumers)

    def _count(self, consumers: Sequence[int]) -> dict[int, int]:
        """Returns how many nodes read a value at each place."""
        if len(consumers) == 1:
            return {self.position[consumers[0]]: 1}
        counts: dict[int, int] = {}
        for c in set(consumers):
            place = self.position[c]
            counts[place] = counts.get(place, 0) + 1
        return counts

    def degree(self, node: int) -> int:
        """Returns how many values a free node touches."""
        return len(self.inputs[node] or ()) + len(self.outputs[node])

    def cost(self) -> int:
        """Returns what the values that free nodes touch cost."""
        total = 0
        for value, readers in enumerate(self.readers):
            home = self.position[self.producer[value]]
            total += self.weight[value] * (len(readers) - (home in readers))
        return total

    def change(self, node: int, place: int) -> int:
        """Returns by how much the cost would rise if the node moved to that place."""
        position, weight = self.position, self.weight
        here, total = position[node], 0
        for value in self.inputs[node] or ():
            home, readers = position[self.producer[value]], self.readers[value]
            if here != home and readers[here] == 1:
                total -= weight[value]
            if place != home and place not in readers:
                total += weight[value]
        for value in self.outputs[node]:
            readers = self.readers[value]
            total += weight[value] * ((here in readers) - (place in readers))
        return total

    def move(self, node: int, place: int) -> None:
        """Moves a free node."""
        here = self.position[node]
        self.position[node] = place
        for value in self.inputs[node] or ():
            readers = self.readers[value]
            readers[place] = readers.get(place, 0) + 1
            readers[here] -= 1
            if not readers[here]:
                del readers[here]

    def suggestions(self, node: int) -> set[int]:
        """Returns the places at which a value that the node touches is made or read."""
        found: set[int] = set()
        for value in self.inputs[node] or ():
            found.add(self.position[self.producer[value]])
            if len(self.readers[value]) <= _MANY_PLACES:
                found.update(self.readers[value])
        for value in self.outputs[node]:
            if len(self.readers[value]) <= _MANY_PLACES:
                found.update(self.readers[value])
        found.discard(self.position[node])
        return found
