"""What every compiled region must keep, whatever engine is below: one function a promise.

Each takes a backend and a trial and returns ``""``, or a sentence that says what was not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from partita.backends.contract import Array, Backend, Executable
from partita.model import captures
from partita.running.values import arrays_in, fresh, is_array, is_sequence
from partita.subgraph import Subgraph
from partita.testing.agreement import Tolerances
from partita.testing.trials import Trial, bound, in_threads

Property = Callable[[Backend, Trial, Tolerances, bool], str]
"""Backend, trial, tolerances and whether numbers are compared in; ``""`` or a sentence out."""

THREADS = 4
CALLS = 5


def compiled_region_is_right(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """The compiled region gives the numbers of the reference evaluator."""
    found = trial.compile(backend)(*trial.copies(), *trial.passed(backend))
    return trial.differs(found, tolerances, numbers=numbers)


def compiling_twice_gives_two_that_work(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """A region compiles twice, and the first compiled form still works afterwards."""
    first, second = trial.compile(backend), trial.compile(backend)
    for which, executable in (("second", second), ("first", first)):
        found = executable(*trial.copies(), *trial.passed(backend))
        differs = trial.differs(found, tolerances, numbers=numbers)
        if differs:
            return f"with two compiled forms alive, the {which} is wrong: {differs}"
    return ""


def calls_repeat(backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool) -> str:
    """The same inputs give the same bits again, and the inputs are left as they were."""
    executable = trial.compile(backend)
    inputs = trial.copies()
    first = _kept(executable(*inputs, *trial.passed(backend)))
    for name, before, after in zip(trial.region.inputs, trial.inputs, inputs, strict=True):
        if not _equal(before, after):
            return f"a call has changed its input '{name}'"
    for _ in range(2):
        again = executable(*trial.copies(), *trial.passed(backend))
        if not all(map(_equal, first, again)):
            return "the same inputs give other bits on the next call"
    return ""


def outputs_belong_to_the_caller(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """Outputs survive the next call, and writing into them changes no later one."""
    made = backend.compile(trial.region)
    inputs, passed = trial.copies(), trial.passed(backend)
    first = made(*inputs, *passed)
    kept = _kept(first)
    made(*_other(inputs), *passed)
    if not all(map(_equal, kept, first)):
        return "a later call has overwritten the outputs of an earlier one"
    arrays = list(arrays_in(first))
    given = list(arrays_in((*inputs, *passed)))
    if isinstance(made, Executable) and any(
        np.shares_memory(a, b) for a in arrays for b in given if a.size and b.size
    ):
        return "an output shares memory with an input or a weight; an Executable must copy it"
    if any(not array.flags.writeable for array in arrays):
        return "an output is read-only; the caller owns it and may write into it"
    for array in arrays:
        array[...] = array.dtype.type(1) if array.dtype.kind in "fiub" else array
    found = made(*trial.copies(), *trial.passed(backend))
    if not all(map(_equal, kept, found)):
        return "writing into an output has changed the result of the next call"
    return ""


def calls_may_come_from_several_threads(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """Calls at once, with different inputs, give what the same calls give one by one."""
    executable = trial.compile(backend)
    passed = trial.passed(backend)
    feeds = (trial.copies(), _other(trial.inputs))
    alone = [_kept(executable(*inputs, *passed)) for inputs in feeds]

    def calls(number: int) -> bool:
        which = number % 2
        return all(
            all(map(_close, alone[which], executable(*_kept(feeds[which]), *passed)))
            for _ in range(CALLS)
        )

    return "" if all(in_threads(calls, THREADS)) else "calls from several threads mix their numbers"


def compiling_may_happen_in_several_threads(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """Regions compiled at once work like regions compiled one by one."""

    def compiled(_: int) -> str:
        found = trial.compile(backend)(*trial.copies(), *trial.passed(backend))
        return trial.differs(found, tolerances, numbers=numbers)

    return max(in_threads(compiled, 2), key=len)


def bound_calls_write_into_the_buffers(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """A bound call reads and writes its buffers in place, each time anew."""
    if not trial.plain or not trial.outputs:
        return ""
    executable, extra = trial.compile(backend), trial.passed(backend)
    made = bound(trial, executable, extra)
    if made is None:
        return ""
    call, inputs, outputs = made
    if len(call()) != 0:
        return "all outputs are bound, yet the bound call returns some"
    differs = trial.differs(outputs, tolerances, numbers=numbers)
    if differs:
        return f"bound buffers hold the wrong outputs: {differs}"
    other = _other(trial.inputs)
    wanted = _kept(executable(*other, *extra))
    for buffer, array in zip(inputs, other, strict=False):
        buffer[...] = array
    call()
    if not all(map(_close, wanted, outputs)):
        return "the bound call does not see that its input buffers have changed"
    return ""


def calls_may_be_bound_in_part(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """With only outputs, or only inputs, bound the rest is passed and returned as ever."""
    if not trial.plain or not trial.outputs:
        return ""
    executable = trial.compile(backend)
    arrays = [np.array(v, order="C") for v in (*trial.inputs, *trial.passed(backend))]
    buffers = [np.zeros_like(v, order="C") for v in trial.outputs]
    into = executable.bind([None] * len(arrays), buffers)
    if into is not None:
        if len(into(*arrays)) != 0:
            return "all outputs are bound, yet the bound call returns some"
        differs = trial.differs(buffers, tolerances, numbers=numbers)
        if differs:
            return f"bound outputs hold the wrong numbers: {differs}"
    fed = executable.bind(arrays, [None] * len(buffers)) if arrays else None
    if fed is not None:
        differs = trial.differs(fed(), tolerances, numbers=numbers)
        if differs:
            return f"with only inputs bound the outputs are wrong: {differs}"
    return ""


def words_about_a_region_hold(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """What the backend says of a region fits it: owned weights, cost, in-place pairs, review."""
    region = trial.region
    strangers = set(backend.owns(region)) - set(region.parameters)
    if strangers:
        return f"owns() names {sorted(strangers)}, which are no parameters of the region"
    cost: Any = backend.cost(region)
    if cost is not None and (not isinstance(cost, (int, float)) or not 0 <= cost < 1e9):
        return f"cost() is {cost!r}; it is in seconds, or None"
    for output, given in backend.inplace(region).items():
        if output not in region.outputs or given not in region.inputs:
            return f"inplace() pairs {output!r} with {given!r}; it pairs outputs with inputs"
    review: Any = backend.why_not_region(region)
    if isinstance(review, Mapping):
        attached = cast("Mapping[Any, Any]", review)
        if not all(isinstance(word, str) for word in (*attached, *attached.values())):
            return f"why_not_region() attaches {attached!r}; attributes are text"
    elif review is not None:
        return f"why_not_region() first accepted this region and now answers {review!r}"
    return ""


def weights_keep_their_names(
    backend: Backend, trial: Trial, tolerances: Tolerances, numbers: bool
) -> str:
    """The region hands over exactly the weights its nodes read, under their original names."""
    region = trial.region
    wanted = {str(v.name) for v in region.cut.parameters}
    if set(region.parameters) != wanted or not wanted <= set(_all_parameters(trial)):
        return f"the region's parameters are {region.parameters}; its nodes read {sorted(wanted)}"
    for name in region.parameters:
        if not np.array_equal(region.parameter(name), _all_parameters(trial)[name]):
            return f"parameter '{name}' is not the model's weight of that name"
    return ""


PROPERTIES: Mapping[str, Property] = {
    function.__name__: function
    for function in (
        compiled_region_is_right,
        compiling_twice_gives_two_that_work,
        calls_repeat,
        outputs_belong_to_the_caller,
        calls_may_come_from_several_threads,
        compiling_may_happen_in_several_threads,
        bound_calls_write_into_the_buffers,
        calls_may_be_bound_in_part,
        words_about_a_region_hold,
        weights_keep_their_names,
    )
}
"""Every promise by name."""


def pieces(cut: Subgraph) -> int:
    """Returns into how many unconnected pieces a cut falls."""
    home: dict[Any, int] = {node: i for i, node in enumerate(cut.nodes)}
    label = list(range(len(cut.nodes)))

    def root(i: int) -> int:
        while label[i] != i:
            label[i] = label[label[i]]
            i = label[i]
        return i

    for node in cut.nodes:
        for value in (*node.inputs, *captures(node)):
            producer = None if value is None else value.producer()
            if producer in home:
                label[root(home[node])] = root(home[producer])
    return len({root(i) for i in range(len(label))})


def _all_parameters(trial: Trial) -> Mapping[str, Array]:
    return {
        name: value.const_value.numpy()
        for _, graph in trial.model.graphs()
        for name, value in graph.initializers.items()
        if value.const_value is not None
    }


def _kept(values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns copies."""
    return tuple(map(fresh, values))


def _other(values: Collection[Any]) -> tuple[Any, ...]:
    """Returns other numbers of the same types and shapes: floats in reverse, the rest as it is.

    Integers may be indices or sizes, which cannot be changed blindly.
    """
    return tuple(
        v.ravel()[::-1].reshape(v.shape).copy() if is_array(v) and v.dtype.kind == "f" else v
        for v in values
    )


def _equal(a: Any, b: Any) -> bool:
    if is_sequence(a) or is_sequence(b):
        return is_sequence(a) and is_sequence(b) and len(a) == len(b) and all(map(_equal, a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() if a.dtype != object else bool(np.all(a == b))


def _close(a: Any, b: Any) -> bool:
    """Tells whether two outputs of one engine agree; threads may add in another order."""
    if not is_array(a) or a.dtype.kind != "f":
        return _equal(a, b)
    return a.shape == np.shape(b) and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
