from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import InputError, RunError
from partita.running.binding import aligned
from partita.running.ownership import owning
from partita.running.program import OUTPUT_SETS, Program
from partita.running.schedule import LEFT_OUT, Schedule, Step, Task
from partita.running.specs import Spec

F4 = np.dtype("float32")


def one(x: Any) -> Any:
    return (x + 1,)


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=F4)


def task(call: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], name: str = "s") -> Task:
    return Task(Step(name, "numpy", (name,), (), ()), call, inputs, outputs)


def two_inputs(a: Spec, b: Spec) -> Program:
    schedule = Schedule((0, 1), (2,), (task(lambda x, y: (x + y,), (0, 1), (2,)),), {}, {})
    return Program(schedule, (a, b), (Spec("sum", F4, None),))


# Running ------------------------------------------------------------------------------------------


def test_runs_by_position_and_by_name(kit) -> None:
    program = kit.chain(one, one)
    assert program(floats(1, 2, 3, 4))[0].tolist() == [3, 4, 5, 6]
    assert program.run({"x": floats(0, 0, 0, 0)})["y"].tolist() == [2, 2, 2, 2]
    assert [s.name for s in program.steps] == ["step0", "step1"]


@pytest.mark.parametrize("shape", [("n",), (None,)])
def test_open_dimensions_take_every_size(kit, shape) -> None:
    program = kit.chain(kit.Bindable(np.negative), kit.Bindable(np.negative), shape=shape)
    for size in (0, 1, 7, 1):
        x = np.arange(size, dtype=F4)
        assert program(x)[0].tolist() == x.tolist()


def test_left_out_inputs_are_none() -> None:
    seen: list[Any] = []
    call = lambda *inputs: (seen.append(inputs) or inputs[0],)  # noqa: E731
    schedule = Schedule((0,), (1,), (task(call, (0, LEFT_OUT, 0), (1,)),), {}, {})
    program = Program(schedule, (Spec("x", F4, None),), (Spec("y", F4, None),))
    program(floats(1))
    assert [value is None for value in seen[0]] == [False, True, False]


def test_a_program_without_inputs_runs() -> None:
    schedule = Schedule((), (0,), (task(lambda: (floats(5),), (), (0,)),), {}, {})
    program = Program(schedule, (), (Spec("y", F4, (1,)),))
    assert program()[0].tolist() == [5]
    assert program.run({})["y"].tolist() == [5]
    with pytest.raises(InputError, match="1 inputs are given; the model wants 0"):
        program(floats(1))


def test_intermediate_values_die_as_soon_as_nobody_reads_them(kit) -> None:
    alive: list[weakref.ref[Any]] = []
    states: list[bool] = []

    def made(x: Any) -> Any:
        result = x + 1
        alive.append(weakref.ref(result))
        return (result,)

    def watching(x: Any) -> Any:
        states.append(alive[0]() is not None)
        return (x + 1,)

    kit.chain(made, one, watching)(floats(1, 2, 3, 4))
    assert states == [False]


# Inputs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 3)), r"input 'x' is float64; the model wants float32"),
        (np.zeros(3, F4), r"input 'x' has 1 dimensions \(3,\); the model wants float32, shape"),
        (np.zeros((2, 4), F4), r"input 'x' has size 4 in dimension 1; the model wants .*\(n, 3\)"),
        ([["a"]], r"input 'x' is a list that numpy cannot read"),
        (object(), r"input 'x' is a object that numpy cannot read"),
    ],
)
def test_a_wrong_input_is_named_with_what_was_found_and_wanted(kit, given, message) -> None:
    program = kit.chain(one, shape=("n", 3))
    with pytest.raises(InputError, match=message):
        program(given)
    program(np.zeros((2, 3), F4))
    with pytest.raises(InputError, match=message):
        program(given)


def test_missing_and_unknown_names(kit) -> None:
    program = two_inputs(Spec("left", F4, (2,)), Spec("right", F4, (2,)))
    x = floats(1, 2)
    with pytest.raises(InputError, match=r"missing: input 'right' \(float32, shape \(2\)\)"):
        program.run({"left": x})
    with pytest.raises(InputError, match="no input is named 'rihgt'; did you mean 'right'"):
        program.run({"left": x, "rihgt": x})
    with pytest.raises(InputError, match=r"1 inputs are given; the model wants 2 .left, right"):
        program(x)


def test_a_named_dimension_has_one_size() -> None:
    program = two_inputs(Spec("a", F4, ("n",)), Spec("b", F4, ("n",)))
    program(floats(1, 2), floats(1, 2))
    with pytest.raises(InputError, match="'n' is 2 in input 'a' and 1 in input 'b'"):
        program(floats(1, 2), floats(1))


class Foreign:
    """Another library's tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


class Capsule:
    """Another library's tensor that speaks DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "value",
    [
        Foreign(floats(1, 2)),
        Capsule(floats(1, 2)),
        [1, 2],
        (1.0, 2.0),
        floats(1, 2).astype(">f4"),
        floats(1, 0, 2, 0)[::2],
    ],
)
def test_whatever_numpy_can_read_is_taken(kit, value) -> None:
    program = kit.chain(one, shape=(2,))
    for _ in range(2):
        assert program(value)[0].tolist() == [2, 3]


def test_a_mapped_file_is_taken_without_a_copy(kit, tmp_path) -> None:
    floats(1, 2).tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", F4, mode="r")
    seen: list[Any] = []
    kit.chain(lambda x: (seen.append(np.shares_memory(x, mapped)) or x + 1,), shape=(2,))(mapped)
    assert seen == [True]


@pytest.mark.engine("torch")
def test_torch_tensors_are_taken(kit) -> None:
    import torch

    program = kit.chain(one, shape=(2,))
    assert program(torch.tensor([1.0, 2.0]))[0].tolist() == [2, 3]
    with pytest.raises(InputError, match=r"input 'x' is a Tensor that numpy cannot read"):
        program(torch.tensor([1.0, 2.0], requires_grad=True))


def test_floats_are_not_taken_for_integers() -> None:
    schedule = Schedule((0,), (1,), (task(one, (0,), (1,)),), {}, {})
    i8 = np.dtype("int64")
    program = Program(schedule, (Spec("i", i8, (1,)),), (Spec("y", i8, (1,)),))
    assert program([3])[0].tolist() == [4]
    with pytest.raises(InputError, match="input 'i' is a list"):
        program([3.5])


def test_texts_are_taken_as_objects_or_as_numpy_text() -> None:
    call = lambda x: (np.char.upper(x.astype(str)),)  # noqa: E731
    schedule = Schedule((0,), (1,), (task(call, (0,), (1,)),), {}, {})
    text = np.dtype(object)
    program = Program(schedule, (Spec("t", text, (1,)),), (Spec("y", text, (1,)),))
    assert program(np.array(["a"]))[0].tolist() == ["A"]
    assert program(np.array(["a"], dtype=object))[0].tolist() == ["A"]
    with pytest.raises(InputError, match="input 't' is float32; the model wants string"):
        program(floats(1))


def test_sequences_pass_as_they_are() -> None:
    schedule = Schedule((0,), (1,), (task(lambda s: (sum(s),), (0,), (1,)),), {}, {})
    program = Program(schedule, (Spec("s", None, None, "sequence"),), (Spec("y", F4, None),))
    assert program([floats(1), floats(2)])[0].tolist() == [3]


# Who owns what ------------------------------------------------------------------------------------


def test_what_a_caller_receives_is_the_callers() -> None:
    weight = floats(7)
    schedule = Schedule(
        inputs=(0,),
        outputs=(0, 1, 2, 2),
        tasks=(task(owning(lambda x: (x,)), (0,), (2,)),),
        constants={1: weight},
        static={},
        copied=frozenset({0, 1, 3}),
    )
    specs = tuple(Spec(n, F4, (1,)) for n in ("same", "weight", "made", "again"))
    program = Program(schedule, (Spec("x", F4, (1,)),), specs)
    x = floats(1)
    for output in program(x):
        output += 100
    assert x.tolist() == [1]
    assert weight.tolist() == [7]


@given(st.sampled_from(["same", "view", "list", "new"]))
def test_owning_shares_no_memory_with_arguments(kind: str) -> None:
    results = {
        "same": lambda x: (x,),
        "view": lambda x: (x.reshape(2, 2).T,),
        "list": lambda x: ([x[:2], x + 1],),
        "new": lambda x: (x + 1,),
    }
    x = floats(1, 2, 3, 4)
    (found,) = owning(results[kind])(x)
    for array in found if isinstance(found, list) else [found]:
        assert not np.shares_memory(array, x)


def test_outputs_of_a_later_run_leave_earlier_ones_alone(kit) -> None:
    program = kit.chain(kit.Bindable(np.negative), kit.Bindable(np.negative))
    first = program(floats(1, 2, 3, 4))[0]
    program(floats(5, 6, 7, 8))
    assert first.tolist() == [1, 2, 3, 4]


# Output buffers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bindable", [True, False])
@pytest.mark.parametrize("contiguous", [True, False])
def test_outputs_go_into_given_buffers(kit, bindable: bool, contiguous: bool) -> None:
    step = kit.Bindable(np.negative) if bindable else lambda x: (-x,)
    program = kit.chain(step, step)
    out = np.zeros(4, F4) if contiguous else np.zeros(8, F4)[::2]
    for k in range(3):
        (found,) = program(floats(1, 2, 3, k), out={"y": out})
        assert found is out
        assert out.tolist() == [1, 2, 3, k]
    assert program.run({"x": floats(4, 3, 2, 1)}, out={"y": out})["y"] is out


def test_buffers_may_change_places(kit) -> None:
    steps = (task(lambda x: (x + 1,), (0,), (1,)), task(lambda x: (x + 2,), (0,), (2,)))
    schedule = Schedule((0,), (1, 2), steps, {}, dict.fromkeys((1, 2), (F4, (1,))))
    specs = (Spec("a", F4, (1,)), Spec("b", F4, (1,)))
    program = Program(schedule, (Spec("x", F4, (1,)),), specs)
    first, second = np.zeros(1, F4), np.zeros(1, F4)
    program(floats(0), out={"a": first, "b": second})
    assert (first[0], second[0]) == (1, 2)
    program(floats(0), out={"b": first, "a": second})
    assert (first[0], second[0]) == (2, 1)


def test_buffers_used_again_are_bound_once_and_few_are_kept(kit) -> None:
    step = kit.Bindable(np.negative)
    program = kit.chain(step)
    out = np.zeros(4, F4)
    program(floats(1, 2, 3, 4), out={"y": out})
    bound = step.bound
    program(floats(1, 2, 3, 5), out={"y": out})
    assert step.bound == bound
    old = weakref.ref(out)
    del out
    for _ in range(OUTPUT_SETS):
        program(floats(1, 2, 3, 4), out={"y": np.zeros(4, F4)})
    gc.collect()
    assert old() is None


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"z": np.zeros(4, F4)}, "no output is named 'z'"),
        ({"y": [0.0] * 4}, "buffer for output 'y' is a list; it needs a numpy array"),
        ({"y": np.zeros(4)}, "buffer for output 'y' is float64; the model makes float32"),
        ({"y": np.zeros(3, F4)}, r"has shape \(3,\); the model makes \(4,\)"),
        ({"y": np.broadcast_to(np.float32(0), (4,))}, "is read-only"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(kit, out, message) -> None:
    with pytest.raises(InputError, match=message):
        kit.chain(one)(floats(1, 2, 3, 4), out=out)


def test_a_buffer_of_another_size_than_the_run_made_is_refused(kit) -> None:
    program = kit.chain(one, shape=("n",))
    out = np.zeros(2, F4)
    assert program(floats(1, 2), out={"y": out})[0] is out
    with pytest.raises(InputError, match=r"has shape \(2,\); this run made \(3,\)"):
        program(floats(1, 2, 3), out={"y": out})


def test_an_executable_that_fails_to_bind_still_runs(kit, caplog) -> None:
    class Unbindable(kit.Bindable):
        def bind(self, inputs: Any, outputs: Any) -> Any:
            raise RuntimeError("unaligned")

    program = kit.chain(kit.Bindable(np.negative), Unbindable(np.negative))
    assert program(floats(1, 2, 3, 4))[0].tolist() == [1, 2, 3, 4]
    words = "step 'step1': backend1 cannot bind buffers: unaligned"
    assert words in [r.getMessage() for r in caplog.records]


# Failures -----------------------------------------------------------------------------------------


def failing(x: Any) -> Any:
    raise ZeroDivisionError("cannot divide")


def test_a_failed_step_is_named(kit) -> None:
    program = kit.chain(one, failing, one)
    with pytest.raises(RunError) as caught:
        program(floats(1, 2, 3, 4))
    assert str(caught.value) == (
        "step 'step1' of backend 'backend1' failed (nodes 'node of step1'): "
        "ZeroDivisionError: cannot divide"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_step_that_returns_too_little_is_named(kit) -> None:
    with pytest.raises(RunError, match="step 'step0' of backend 'backend0' failed"):
        kit.chain(lambda x: ())(floats(1, 2, 3, 4))


def test_a_failure_inside_a_body_keeps_its_own_words(kit) -> None:
    inner = kit.chain(failing)
    with pytest.raises(RunError) as caught:
        kit.chain(one, inner)(floats(1, 2, 3, 4))
    assert str(caught.value).startswith("step 'step0' of backend 'backend0' failed")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_users_interrupt_passes(kit, error) -> None:
    def stop(x: Any) -> Any:
        raise error

    with pytest.raises(error):
        kit.chain(stop)(floats(1, 2, 3, 4))


def test_a_program_goes_on_after_a_failure(kit) -> None:
    switch = [True]

    def sometimes(x: Any) -> Any:
        if switch[0]:
            raise ValueError("now")
        return -x

    program = kit.chain(kit.Bindable(np.negative), kit.Bindable(sometimes))
    with pytest.raises(RunError):
        program(floats(1, 2, 3, 4))
    switch[0] = False
    assert program(floats(1, 2, 3, 4))[0].tolist() == [1, 2, 3, 4]


# Many threads, many runs --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 4096])
def test_concurrent_calls_do_not_meet(kit, size: int) -> None:
    steps = [
        kit.Bindable(lambda x: x + 1),
        kit.Bindable(lambda x: x * 2),
        kit.Bindable(np.negative),
    ]
    program = kit.chain(*steps, shape=(size,))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(200):
            x = random.standard_normal(size).astype(F4)
            if not np.array_equal(program(x)[0], -(x + 1) * 2):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_does_not_grow_with_runs(kit) -> None:
    program = kit.chain(kit.Bindable(np.negative), one, kit.Bindable(np.negative), shape=("n",))
    fixed = kit.chain(kit.Bindable(np.negative), kit.Bindable(np.negative))
    out = {"y": np.zeros(4, F4)}

    def runs(count: int) -> None:
        for i in range(count):
            program(np.zeros(i % 50, F4))
            fixed(floats(1, 2, 3, 4))
            fixed(floats(1, 2, 3, 4), out=out)

    runs(100)
    tracemalloc.start()
    runs(50)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    runs(500)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2000


@given(st.integers(1, 5), st.integers(1, 9))
def test_buffers_are_aligned(rows: int, columns: int) -> None:
    buffer = aligned(np.dtype("float64"), (rows, columns))
    assert buffer.ctypes.data % 64 == 0
    assert buffer.shape == (rows, columns)
    assert buffer.flags.c_contiguous
    assert buffer.flags.writeable
