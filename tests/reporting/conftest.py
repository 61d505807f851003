from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from partita.backends.contract import Region
from partita.partitioning.claims import Refusal
from partita.partitioning.plan import BackendSetting, Plan
from partita.partitioning.rules import RuleOutcome

PlanMaker = Callable[..., Plan]


@pytest.fixture
def make_plan() -> PlanMaker:
    """Makes a plan by hand, as one is that was read from a file without a model."""

    def make(
        placed: dict[str, dict[str, str]] | None = None,
        host: dict[str, str] | None = None,
        refused: Sequence[tuple[str, str, str]] = (),
        **fields: object,
    ) -> Plan:
        regions = tuple(
            Region(
                name=name,
                backend=name.rpartition("_")[0],
                nodes=tuple(ops),
                inputs=("x",),
                outputs=("y",),
                options={"ops": ops},
            )
            for name, ops in (placed or {}).items()
        )
        settings = tuple(BackendSetting(b) for b in dict.fromkeys(r.backend for r in regions))
        values: dict[str, object] = {
            "settings": settings,
            "model_hash": "ab" * 32,
            "rules": (RuleOutcome("excluded_ops Softmax", True, "2 nodes"),),
            **fields,
        }
        return Plan(regions, host or {}, tuple(Refusal(*r) for r in refused), **values)  # pyright: ignore

    return make


@pytest.fixture
def mixed_plan(make_plan: PlanMaker) -> Plan:
    return make_plan(
        {"onnxruntime_0": {"a": "Conv", "b": "Relu"}, "onnxruntime_1": {"c": "Gemm"}},
        {"s1": "Softmax", "s2": "Softmax", "g": "Gelu"},
        [
            ("s1", "onnxruntime", "Softmax is excluded by rule"),
            ("s2", "onnxruntime", "Softmax is excluded by rule"),
            ("g", "onnxruntime", "no kernel"),
        ],
        lower_bound=2,
        proved_minimal=True,
        crossing_bytes=123_456,
    )
