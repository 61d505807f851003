"""The slow truth beside fusion: exhaustive answers for small graphs, sharing no code with it.

A graph is given as predecessor lists in topological order and a type for each node, -1 for the
nodes that stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Predecessors = Sequence[Sequence[int]]
Values = Sequence[tuple[int, int, Sequence[int]]]


def fewest_regions(predecessors: Predecessors, types: Sequence[int]) -> int:
    """Returns the fewest regions, by breadth-first search over what may have run after k of them.

    Only the largest region that can run next is tried for each type: what has run after it holds
    what has run after any smaller one. ``fewest_regions_by_partition`` does without this step.
    """
    needs = [sum(1 << p for p in set(parents)) for parents in predecessors]
    nodes = range(len(types))
    everything = (1 << len(types)) - 1

    def grown(done: int, kind: int) -> int:
        for v in nodes:
            if types[v] == kind and not needs[v] & ~done:
                done |= 1 << v
        return done

    layer, count = {grown(0, -1)}, 0
    while everything not in layer:
        layer = {
            grown(grown(done, kind), -1)
            for done in layer
            for kind in set(types) - {-1}
            if grown(done, kind) != done
        }
        count += 1
    return count


def fewest_regions_by_partition(
    predecessors: Predecessors, types: Sequence[int], connected: bool = False
) -> int:
    """Returns the fewest regions by trying every partition of the nodes; up to about 9 of them."""
    best = len(types) + 1
    for region in partitions(types):
        count = max(region, default=-1) + 1
        hangs = not connected or all_connected(predecessors, region)
        if count < best and hangs and is_acyclic(predecessors, region):
            best = count
    return best


def partitions(types: Sequence[int]) -> Iterator[list[int]]:
    """Yields every way to put nodes of one type together, as the region of each node or -1."""
    region = [-1] * len(types)

    def place(v: int, used: list[int]) -> Iterator[list[int]]:
        if v == len(types):
            yield list(region)
        elif types[v] < 0:
            yield from place(v + 1, used)
        else:
            for r, kind in enumerate(used):
                if kind == types[v]:
                    region[v] = r
                    yield from place(v + 1, used)
            region[v] = len(used)
            yield from place(v + 1, [*used, types[v]])

    return place(0, [])


def is_acyclic(predecessors: Predecessors, region: Sequence[int]) -> bool:
    """Says whether the graph has no cycle with every region contracted to one node."""
    vertex = [("region", r) if r >= 0 else ("node", v) for v, r in enumerate(region)]
    after: dict[tuple[str, int], set[tuple[str, int]]] = {x: set() for x in vertex}
    for v, parents in enumerate(predecessors):
        for p in parents:
            if vertex[p] != vertex[v]:
                after[vertex[p]].add(vertex[v])
    missing = dict.fromkeys(after, 0)
    for followers in after.values():
        for x in followers:
            missing[x] += 1
    ready = [x for x, count in missing.items() if not count]
    for x in ready:
        for y in after[x]:
            missing[y] -= 1
            if not missing[y]:
                ready.append(y)
    return len(ready) == len(after)


def all_convex(predecessors: Predecessors, region: Sequence[int]) -> bool:
    """Says whether no path leaves a region and comes back into it."""
    above = ancestors(predecessors)
    for r in set(region) - {-1}:
        members = sum(1 << v for v, own in enumerate(region) if own == r)
        for v, own in enumerate(region):
            has_member_above = above[v] & members
            if own != r and has_member_above:
                below = any(above[w] >> v & 1 for w, other in enumerate(region) if other == r)
                if below:
                    return False
    return True


def all_connected(predecessors: Predecessors, region: Sequence[int]) -> bool:
    """Says whether the nodes of each region hang together by edges between them."""
    for r in set(region) - {-1}:
        members = {v for v, own in enumerate(region) if own == r}
        reached = {min(members)}
        while True:
            more = {
                v
                for v in members - reached
                if any(p in reached for p in predecessors[v])
                or any(v in predecessors[w] for w in reached)
            }
            if not more:
                break
            reached |= more
        if reached != members:
            return False
    return True


def ancestors(predecessors: Predecessors) -> list[int]:
    """Returns the ancestors of each node as a bit mask."""
    above: list[int] = []
    for parents in predecessors:
        mask = 0
        for p in parents:
            mask |= above[p] | 1 << p
        above.append(mask)
    return above


def ancestors_in_any_order(predecessors: Predecessors) -> list[set[int]]:
    """Returns the ancestors of each node of an acyclic graph, however it is numbered."""
    above: list[set[int]] = [set(parents) for parents in predecessors]
    for _ in predecessors:
        for v, known in enumerate(above):
            above[v] = known.union(*(above[u] for u in known))
    return above


def crossing(region: Sequence[int], values: Values) -> int:
    """Returns the crossing bytes by the definition: once for each place other than the home."""
    place = [*region, -1]
    return sum(
        size * len({place[c] for c in consumers} - {place[producer]})
        for producer, size, consumers in values
    )


def cheapest_crossing(
    predecessors: Predecessors, types: Sequence[int], values: Values, count: int
) -> int:
    """Returns the fewest crossing bytes over all acyclic ways to form ``count`` regions."""
    return min(
        crossing(region, values)
        for region in partitions(types)
        if max(region, default=-1) + 1 == count and is_acyclic(predecessors, region)
    )
