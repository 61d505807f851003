from __future__ import annotations

import ml_dtypes
import numpy as np

from partita.reporting.values import summaries, value_table


def test_numbers_are_summed_up() -> None:
    (row,) = summaries({"y": np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)})
    assert (row.dtype, row.shape) == ("float32", (2, 2))
    assert (row.least, row.mean, row.greatest) == (1.0, 3.0, 6.0)
    assert row.deviation == np.std([1, 2, 3, 6])


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    (row,) = summaries({"y": np.array([1.0, np.nan, np.inf, 3.0])})
    assert (row.mean, row.not_finite) == (2.0, 2)
    (row,) = summaries({"y": np.full(3, np.nan)})
    assert (row.mean, row.not_finite) == (None, 3)


def test_every_kind_of_value_has_a_row() -> None:
    rows = summaries(
        {
            "bool": np.array([True, False]),
            "half": np.array([1, 2], ml_dtypes.bfloat16),
            "text": np.array(["a", "b"], object),
            "empty": np.zeros((0, 3), np.float32),
            "sequence": [np.zeros(2), np.ones(1)],
            "absent": None,
            "complex": np.array([1j]),
        }
    )
    assert [r.name for r in rows] == [
        *("bool", "half", "text", "empty", "sequence[0]", "sequence[1]", "absent", "complex")
    ]
    assert rows[0].mean == 0.5
    assert rows[1].dtype == "bfloat16"
    assert rows[2].least is None
    assert rows[3].not_finite == 0
    table = value_table("Outputs", rows)
    assert all(len(cells) == len(table.columns) for cells in table.rows)
