"""Typed fusion: as few regions as an acyclic graph allows, and few bytes between them.

In the order in which data flows: ``typed`` is the whole; ``condensation`` makes the graph small,
``waists`` cuts it into independent segments, ``runs`` bounds what a segment needs, ``frontier``
finds a sequence of batches greedily, ``search`` a shorter one or a proof that there is none, and
``sequence`` joins the segments' sequences; ``positions`` says where each node may stand in the
sequence, ``ledger``, ``moves``, ``network`` and ``expansion`` let few bytes cross, which
``settlement`` directs; ``pieces`` splits regions that have to hang together.
"""

from partita.partitioning.fusion.typed import APART, EFFORT, Fusion, fuse

__all__ = ["APART", "EFFORT", "Fusion", "fuse"]
