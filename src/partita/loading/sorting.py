"""Topological order that keeps the given order wherever it can."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def stable_order(needs: Sequence[Sequence[int]]) -> list[int]:
    """Returns a topological order of ``range(len(needs))``; the lowest ready number goes first.

    Args:
        needs: For each element, those that must come before it.

    Returns:
        The order. It is shorter than ``needs`` if there is a cycle: what lies on one or behind
        one is left out.
    """
    waiting = [0] * len(needs)
    feeds: list[list[int]] = [[] for _ in needs]
    for reader, makers in enumerate(needs):
        for maker in set(makers):
            waiting[reader] += 1
            feeds[maker].append(reader)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        current = heapq.heappop(ready)
        order.append(current)
        for reader in feeds[current]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    return order


def find_cycle(needs: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Returns the elements of one cycle in order of flow, given the order that was possible.

    Every element left out of ``order`` needs another one left out, so walking back among them
    must meet an element twice.
    """
    done = set(order)
    current = next(i for i in range(len(needs)) if i not in done)
    position: dict[int, int] = {}
    path: list[int] = []
    while current not in position:
        position[current] = len(path)
        path.append(current)
        current = next(maker for maker in needs[current] if maker not in done)
    return path[position[current] :][::-1]
