"""Keeps what a caller receives apart from what the caller gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partita.backends.contract import Call
from partita.running.values import Array, arrays_in, fresh


def owning(call: Call) -> Call:
    """Returns the call with outputs that share no memory with its arguments.

    A numpy operator may answer with its argument or a view of it (Identity, Reshape, Transpose,
    Squeeze …). Inside a program that is welcome; handed out it would let a caller who writes into
    an output change an input, a weight, or the next run.
    """

    def owned(*arguments: Any) -> Sequence[Any]:
        given = [array for array in arrays_in(arguments) if array.nbytes]
        return [_apart(result, given) for result in call(*arguments)]

    return owned


def _apart(result: Any, given: Sequence[Array]) -> Any:
    own = arrays_in((result,))
    shared = any(np.may_share_memory(array, other) for array in own for other in given)
    return fresh(result) if shared else result
