from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.reporting.quantities import byte_text, count_text, plural, share_text, time_text

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@given(st.integers(0, 10**15))
def test_byte_text_is_right_to_three_digits(count: int) -> None:
    number, unit = byte_text(count).split()
    assert float(number.replace(",", "")) * UNITS[unit] == pytest.approx(count, rel=0.006)


@given(st.floats(1e-9, 1e5))
def test_time_text_is_right_to_three_digits(seconds: float) -> None:
    number, unit = time_text(seconds).split()
    scale = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(seconds, rel=0.006)


def test_words() -> None:
    assert plural(1, "node") == "1 node"
    assert plural(12_000, "node") == "12,000 nodes"
    assert plural(2, "body", "bodies") == "2 bodies"
    assert count_text(0) == "0"
    assert count_text(1_500_000) == "1.5 M"
    assert share_text(1, 4) == "25.0%"
    assert share_text(0, 0) == "-"
