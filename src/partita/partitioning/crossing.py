"""Bytes that cross between regions.

A value costs its bytes once for each destination other than the place where it was made. The
places are the regions and the host; the host is one place, whatever runs there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

HOST = -1
"""The place of everything that lies in no region; smaller numbers are places of their own."""

Traffic = tuple[int, int, Sequence[int]]
"""A value and where it goes: the node that makes it (-1: it comes from outside the graph), its
bytes (0: unknown), and the nodes that read it (-1: it leaves the graph)."""


def crossing_bytes(places: Sequence[int], values: Sequence[Traffic]) -> int:
    """Returns the bytes that cross when each node stands in its place.

    Args:
        places: The place of each node: a region's number, :data:`HOST`, or any other number.
        values: What flows.
    """
    if not values:
        return 0
    place = np.array([*places, HOST], dtype=np.int64)
    place -= place.min()
    producers, sizes, consumers = zip(*values, strict=True)
    lengths = np.fromiter(map(len, consumers), dtype=np.int64, count=len(consumers))
    readers = np.fromiter(chain.from_iterable(consumers), dtype=np.int64, count=lengths.sum())
    value = np.repeat(np.arange(len(consumers)), lengths)
    home = place[np.fromiter(producers, dtype=np.int64, count=len(producers))]
    destination = place[readers]
    crosses = destination != home[value]
    stride = int(place.max()) + 1
    pairs = np.unique(value[crosses] * stride + destination[crosses])
    times = np.bincount(pairs // stride, minlength=len(consumers)).tolist()
    return sum(size * count for size, count in zip(sizes, times, strict=True) if count)
