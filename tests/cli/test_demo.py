from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.cli import digits

pytestmark = pytest.mark.engine("onnxruntime")


def raw_predictions(model: Path) -> np.ndarray[Any, Any]:
    """What ONNX Runtime predicts from the file itself, without partita."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    images, _ = digits.held_out()
    (scores,) = session.run(None, {session.get_inputs()[0].name: images})
    return np.argmax(scores, axis=1)


def test_the_demo_agrees_with_the_engine_on_the_file(partita: Any, digits_model: Path) -> None:
    found = partita.json("demo")
    _, labels = digits.held_out()
    right = int(np.sum(raw_predictions(digits_model) == labels))
    assert found["images"] == len(labels)
    assert found["correct"] == {"onnxruntime alone": right, "partita": right}
    assert right / len(labels) >= 0.98
    assert found["same_predictions"] is True
    assert found["largest_difference"] < 1e-4
    assert {t["name"] for t in found["times"]} == set(found["correct"])
    assert found["plan"]["summary"]["proved_minimal"] is True


def test_the_demo_shows_the_line_the_refusals_and_both_accuracies(partita: Any) -> None:
    result = partita("demo")
    assert result.stderr.startswith(
        "partita: onnxruntime 18 of 20 nodes in 3 regions; host 2 nodes"
    )
    assert "onnxruntime: Add is excluded by rule" in result.stdout
    assert result.stdout.count("593 of 599") == 2
    assert "largest difference of an output" in result.stdout
