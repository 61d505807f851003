"""The digits classifier is what its record says, on images that it was not trained on."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from partita.cli import digits
from partita.errors import BackendUnavailableError, UsageError

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"
MODEL = FOLDER / "digits.onnx"
RECORD = json.loads((FOLDER / "accuracy.json").read_text())


def test_accuracy_on_held_out_images_is_the_recorded_one() -> None:
    images, labels = digits.held_out()
    probabilities = ReferenceEvaluator(onnx.load(MODEL)).run(None, {"images": images})[0]
    right = int((probabilities.argmax(1) == labels).sum())
    assert (right, len(labels)) == (RECORD["right"], RECORD["held_out"])
    assert RECORD["accuracy"] == right / len(labels) >= 0.98
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


@pytest.mark.engine("onnxruntime")
def test_batches_and_single_images_agree_in_onnxruntime() -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    images, labels = digits.held_out()
    together = session.run(["probabilities"], {"images": images})[0]
    alone = [session.run(["probabilities"], {"images": i[None]})[0][0] for i in images[:20]]
    np.testing.assert_allclose(together[:20], alone, rtol=1e-4, atol=1e-6)
    assert int((together.argmax(1) == labels).sum()) == RECORD["right"]


def test_record_is_of_this_file() -> None:
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() == RECORD["sha256"]
    assert MODEL.stat().st_size < 200_000


def test_names_can_be_read_and_the_batch_is_free() -> None:
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert {"block1/conv", "block1/residual", "block2/norm", "softmax"} <= set(names)
    (images,) = model.graph.input
    sizes = [d.dim_param or d.dim_value for d in images.type.tensor_type.shape.dim]
    assert (images.name, sizes) == ("images", ["batch", 1, 8, 8])
    assert [output.name for output in model.graph.output] == ["probabilities"]


def test_split_has_no_common_image_and_loses_none() -> None:
    parts = digits.split()
    assert (len(parts.labels), len(parts.held_out_labels)) == (1198, 599)
    assert len(parts.labels) == RECORD["training"]
    assert (parts.images.dtype, parts.images.shape[1:]) == (np.float32, (1, 8, 8))
    assert parts.held_out_labels.dtype == np.int64
    from sklearn.datasets import load_digits

    every = load_digits().data.astype(np.float32)
    images = np.concatenate([parts.images, parts.held_out_images]).reshape(-1, 64)
    assert sorted(map(bytes, images)) == sorted(map(bytes, every))
    again = digits.held_out()[0]
    assert np.array_equal(again, parts.held_out_images)


def test_split_is_the_same_everywhere() -> None:
    _, labels = digits.held_out()
    assert hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest() == RECORD["labels_sha256"]


def test_absent_scikit_learn_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(BackendUnavailableError, match=r'pip install "partita\[demo\]"'):
        digits.held_out()


def test_absent_model_names_both_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(digits, "INSTALLED", tmp_path / "a.onnx")
    monkeypatch.setattr(digits, "REPOSITORY", tmp_path / "b.onnx")
    with pytest.raises(UsageError, match=r"neither at .*a\.onnx nor at .*b\.onnx"):
        digits.model_path()


def test_found_model_is_the_one_in_the_repository() -> None:
    assert digits.model_path().read_bytes() == MODEL.read_bytes()


def test_model_was_trained_with_the_script_as_it_stands() -> None:
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse((FOLDER / "train.py").read_text()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    assert constants["EPOCHS"] == RECORD["epochs"]
    assert constants["TRAINING_SEED"] == RECORD["training_seed"]
    assert RECORD["split_seed"] == digits.SEED
    assert onnx.load(MODEL).producer_name == "partita examples/digits"
