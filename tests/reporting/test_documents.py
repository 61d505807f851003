from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partita.reporting.documents import document, dumps

numbers = st.floats() | st.integers() | st.booleans() | st.none()
values = st.recursive(
    numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@given(values)
def test_every_document_is_strict_json_and_ascii(value: object) -> None:
    text = dumps(document("run", value=value))
    found = json.loads(text, parse_constant=refuse)
    assert found["schema"] == "partita.run"
    assert found["version"] == 1
    assert text.isascii()


def test_numbers_of_numpy_and_paths_become_plain() -> None:
    found = json.loads(
        dumps({"a": np.float32(1.5), "b": Path("x"), "c": {2, 1}, "d": np.int64(3), "e": np.nan})
    )
    assert found == {"a": 1.5, "b": "x", "c": [1, 2], "d": 3, "e": None}
