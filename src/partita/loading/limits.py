"""How large a model may be; what is larger is refused before it is expanded or allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from partita.errors import LimitError

_ALWAYS_EXPANDED = 100_000
"""A file of a few bytes may expand to this many nodes: some 200 MB and two seconds."""


@final
@dataclass(frozen=True)
class Limits:
    """Bounds for a model that nobody vouches for; every one of them may be raised by the caller.

    Attributes:
        file_bytes: Size of the model file itself; weights beside it do not count. Protobuf ends
            at 2 GiB.
        nodes: Nodes written in the file, in all graphs and functions together.
        expanded_nodes: Nodes that the calls of model-local functions expand to.
        expansion: Expanded nodes for each node written, once there are over 100,000 of them.
        function_depth: Calls of model-local functions inside each other.
        body_depth: Bodies (``If``, ``Loop``, ``Scan`` …) inside each other.
        rank: Dimensions of one tensor; numpy 1.26 ends at 32.
        name_length: Characters of one name.
        tensor_bytes: Bytes of one declared tensor, stored or not.
        densified_bytes: Bytes of the weights that are stored sparse, once they are dense.
        folded_bytes: Bytes of one output that constant folding may compute.
    """

    file_bytes: int = 2**31 - 1
    nodes: int = 2_000_000
    expanded_nodes: int = 1_000_000
    expansion: int = 20
    function_depth: int = 64
    body_depth: int = 32
    rank: int = 32
    name_length: int = 10_000
    tensor_bytes: int = 2**40
    densified_bytes: int = 2**28
    folded_bytes: int = 2**20

    def check_nodes(self, count: int) -> None:
        """Raises LimitError if a model writes more than ``nodes`` nodes."""
        if count > self.nodes:
            raise LimitError(f"{count:,} nodes; at most {self.nodes:,} are taken (Limits.nodes)")

    def check_expansion(self, written: int, expanded: int) -> None:
        """Raises LimitError if function calls expand ``written`` nodes to too many."""
        bound = min(self.expanded_nodes, max(_ALWAYS_EXPANDED, self.expansion * written))
        if expanded > bound:
            raise LimitError(
                f"its function calls expand {written:,} nodes to {_count(expanded)}; at most "
                f"{bound:,} are taken (Limits.expanded_nodes, Limits.expansion)"
            )


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"
