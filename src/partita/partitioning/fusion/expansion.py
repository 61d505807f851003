"""Moves of many nodes at once into one batch, each the best of its kind by a minimum cut.

For one batch, let every node that may rise into it (or fall) choose to do so or to stay. The
choice that costs least, over all subsets, is a minimum cut: node on the source's side = moves.
These are the expansion moves of Y. Boykov, O. Veksler and R. Zabih ("Fast approximate energy
minimization via graph cuts", 2001), for a cost that counts the distinct places of each value.
Single moves are stuck where a chain of nodes would have to move together; these are not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import final

from partita.partitioning.fusion.moves import Placement
from partita.partitioning.fusion.network import SINK, SOURCE, Network

_NETWORK = 16
"""The effort that a network costs beside its nodes."""


def expand(placement: Placement, free: list[int], rising: bool, effort: int) -> tuple[int, int]:
    """Moves nodes up (or down) into each batch in turn; returns the change and the effort spent.

    Args:
        placement: The nodes; moved in place.
        free: The nodes that may move.
        rising: Whether nodes move to later batches, or to earlier ones.
        effort: What may be spent; a mover costs more in a larger network.
    """
    bounds = _highest(placement) if rising else _lowest(placement)
    candidates = _candidates(placement, free, bounds, effort)
    position = placement.ledger.position
    total = spent = 0
    for place in sorted(candidates, reverse=not rising):
        movers = candidates[place]
        if rising:
            movers = [v for v in movers if position[v] < place]
        else:
            movers = [v for v in movers if position[v] > place]
        touched = [placement.ledger.degree(v) for v in movers]
        spent += _NETWORK + (3 * len(movers) + sum(touched)) * (1 + len(movers) // 512)
        if spent > effort:
            break
        if movers:
            total += _Expansion(placement, place, movers, rising).apply()
    return total, spent


def _candidates(
    placement: Placement, free: list[int], bounds: list[int], effort: int
) -> dict[int, list[int]]:
    """Returns, for each batch, the free nodes that may move there along with their neighbours."""
    batches: dict[int, list[int]] = {}
    for place, kind in enumerate(placement.sequence):
        batches.setdefault(kind, []).append(place)
    found: dict[int, list[int]] = {}
    for v in free:
        here, bound = placement.ledger.position[v], bounds[v]
        own = batches[placement.types[v]]
        first, last = min(here + 1, bound), max(here - 1, bound)
        places = own[bisect_left(own, first) : bisect_right(own, last)] if here != bound else ()
        effort -= len(places)
        if effort < 0:
            return {}
        for place in places:
            found.setdefault(place, []).append(v)
    return found


def _highest(placement: Placement) -> list[int]:
    """Returns how far each node could rise if its direct successors of the same type rose too."""
    types, position = placement.types, placement.ledger.position
    bounds = [len(placement.sequence) - 1] * len(types)
    for v in range(len(types) - 1, -1, -1):
        kind = types[v]
        for p in placement.predecessors[v]:
            joint = kind < 0 or types[p] == kind
            bound = bounds[v] if joint else position[v] - 1
            if bound < bounds[p]:
                bounds[p] = bound
    return bounds


def _lowest(placement: Placement) -> list[int]:
    """Returns how far each node could fall if its direct predecessors of its type fell too."""
    types, position = placement.types, placement.ledger.position
    bounds = [0] * len(types)
    for v, parents in enumerate(placement.predecessors):
        for p in parents:
            joint = types[p] < 0 or types[p] == types[v]
            bound = bounds[p] if joint else position[p] + 1
            if bound > bounds[v]:
                bounds[v] = bound
    return bounds


@final
class _Expansion:
    """One choice of nodes that move into one batch, as a network of costs.

    A mover on the source's side of the cut moves, one on the sink's side stays.
    """

    def __init__(self, placement: Placement, place: int, movers: list[int], rising: bool) -> None:
        self._ledger, self._place = placement.ledger, place
        self._network = Network()
        self._node = {v: self._network.add_node() for v in movers}
        self._moving_readers: dict[int, list[int]] = {}
        self._unmoved = 0
        inputs, outputs = self._ledger.inputs, self._ledger.outputs
        for v in movers:
            for value in outputs[v]:
                self._moving_readers.setdefault(value, [])
            for value in inputs[v] or ():
                self._moving_readers.setdefault(value, []).append(v)
        self._never = 1 + sum(
            self._ledger.weight[value] * (len(self._ledger.readers[value]) + 1)
            for value in self._moving_readers
        )
        for v in movers:
            for p in placement.predecessors[v]:
                if p in self._node and placement.types[p] == placement.types[v]:
                    first, then = (p, v) if rising else (v, p)
                    self._add(self._node[first], self._node[then], self._never)
        for value, readers in self._moving_readers.items():
            self._price(value, readers)

    def apply(self) -> int:
        """Makes the best choice; returns the change of the cost."""
        if not self._unmoved:
            return 0
        cost, moves = self._network.minimum_cut()
        if cost >= self._unmoved:
            return 0
        for v, node in self._node.items():
            if moves[node]:
                self._ledger.move(v, self._place)
        return cost - self._unmoved

    def _price(self, value: int, moving: list[int]) -> None:
        """Adds what one value costs, place by place."""
        weight = self._ledger.weight[value]
        readers, producer = self._ledger.readers[value], self._ledger.producer[value]
        home, maker = self._ledger.position[producer], self._node.get(producer)
        leaving: dict[int, list[int]] = {}
        for v in moving:
            leaving.setdefault(self._ledger.position[v], []).append(self._node[v])
        for place in leaving if maker is None else {**leaving, home: leaving.get(home, [])}:
            nodes = leaving.get(place, [])
            all_may_leave = len(nodes) == readers.get(place, 0)
            if place != home and all_may_leave:
                self._unless_all(SOURCE, nodes, weight)
            elif place == home and maker is not None and readers.get(place):
                self._unless_all(maker, nodes if all_may_leave else [SINK], weight)
        if self._place == home:
            return
        if readers.get(self._place):
            if maker is not None:
                self._add(SOURCE, maker, weight)
        else:
            self._if_any(moving, SINK if maker is None else maker, weight)

    def _unless_all(self, tail: int, nodes: Iterable[int], weight: int) -> None:
        """Charges the weight if the tail is on the source's side and some node is not."""
        nodes = list(nodes)
        if len(nodes) == 1:
            self._add(tail, nodes[0], weight)
            return
        joint = self._network.add_node()
        self._add(tail, joint, weight)
        for node in nodes:
            self._add(joint, node, self._never)

    def _if_any(self, movers: list[int], head: int, weight: int) -> None:
        """Charges the weight if some mover moves and the head is on the sink's side."""
        if not movers:
            return
        if len(movers) == 1:
            self._add(self._node[movers[0]], head, weight)
            return
        joint = self._network.add_node()
        for v in movers:
            self._add(self._node[v], joint, self._never)
        self._add(joint, head, weight)

    def _add(self, tail: int, head: int, capacity: int) -> None:
        if tail == SOURCE:
            self._unmoved += capacity
        self._network.add_edge(tail, head, capacity)
