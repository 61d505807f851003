from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.compiling.stage import compile as compile_plan

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_program_of_a_random_plan_equals_the_reference(kit, seed: int) -> None:
    proto = kit.proto(seed)
    model = kit.as_model(proto)
    backends = (kit.Numpy(), kit.Passing(), kit.Binding())
    plan = kit.random_plan(model, backends, seed)
    program = compile_plan(plan)
    feeds = kit.feeds_for(model, seed)
    wanted = kit.expected(proto, feeds)
    for _ in range(2):
        found = program(*feeds)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            assert a.dtype == b.dtype
