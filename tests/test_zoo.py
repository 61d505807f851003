"""Recorded models, and those inside the onnx package, give their recorded outputs every way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import partita as pt
from partita.model import Model
from partita.subgraph import cut

RECORDED = ["bert", "convnext", "dlrm", "gru", "llama", "lstm", "mobilenetv3", "vit", "whisper_enc"]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT_MODELS = sorted(path.stem for path in LIGHT.glob("light_*.onnx"))
ASSIGNMENTS: dict[str, list[str]] = {
    "one": ["onnxruntime"],
    "two": ["openvino", "onnxruntime"],
    "three": ["openvino", "onnxruntime", "host"],
    "random": ["openvino", "onnxruntime"],
}
TOLERANCE = 1e-4
"""Of the largest value of an output, as engines add up in different orders."""


def assigned(model: Model, kind: str) -> pt.Plan:
    """Returns a plan; ``random`` draws a backend for every node, as a wish."""
    if kind != "random":
        return pt.partition(model, ASSIGNMENTS[kind])
    draw = random.Random(len(model.graph))
    wishes = {
        str(node.name): draw.choice(["openvino", "onnxruntime"])
        for _, graph in model.graphs()
        for node in graph
    }
    return pt.partition(model, ASSIGNMENTS[kind], prefer=wishes)


def check(
    model: Model, kind: str, feeds: dict[str, Any], wanted: dict[str, Any], tmp: Path
) -> None:
    plan = assigned(model, kind)
    assert_close(pt.compile(plan, strict=True).run(feeds), wanted)
    saved = plan.apply().save(tmp / "partitioned.onnx")
    onnx.checker.check_model(str(saved), full_check=True)
    again = pt.load(saved)
    back = pt.partition(again, ASSIGNMENTS[kind])
    assert {r.name: r.nodes for r in plan.regions}.items() <= {
        r.name: r.nodes for r in back.regions
    }.items()
    assert_close(pt.compile(back, strict=True).run(feeds), wanted)


def assert_close(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name].shape == value.shape, name
        assert found[name].dtype == value.dtype, name
        scale = float(np.abs(value).max()) if value.size else 0.0
        np.testing.assert_allclose(found[name], value, rtol=TOLERANCE, atol=TOLERANCE * scale)


def before_selection(model: Model) -> Model:
    """Returns what computes the inputs of NonMaxSuppression: boxes and scores.

    What it selects depends on the last bit of a score: ONNX Runtime itself selects 211 boxes of
    the recorded model without its optimisations and 215 with them.
    """
    selection = next(n for n in model.graph if n.op_type == "NonMaxSuppression")
    needed = {v.producer() for v in selection.inputs[:2] if v is not None}
    for node in reversed(list(model.graph)):
        if node in needed:
            needed.update(v.producer() for v in node.inputs if v is not None)
    chosen = [node for node in model.graph if node in needed]
    return pt.load(
        cut(model, chosen, [v for v in selection.inputs[:2] if v is not None]).to_model().ir
    )


@pytest.mark.engine("onnxruntime")
@pytest.mark.engine("openvino")
@pytest.mark.parametrize("kind", ASSIGNMENTS)
def test_a_detector_gives_its_boxes_and_scores(zoo: Path, kind: str, tmp_path: Path) -> None:
    model = before_selection(pt.load(zoo / "yolo_nms.onnx"))
    feeds = dict(np.load(zoo / "yolo_nms.inputs.npz"))
    options = {"onnxruntime": {"optimization": "disable"}}
    wanted = pt.compile(model, ["onnxruntime"], options=options, strict=True).run(feeds)
    check(model, kind, feeds, wanted, tmp_path)


@pytest.mark.engine("onnxruntime")
def test_a_detector_selects_as_its_engine_alone(zoo: Path) -> None:
    feeds = dict(np.load(zoo / "yolo_nms.inputs.npz"))
    options = {"onnxruntime": {"optimization": "disable"}}
    program = pt.compile(zoo / "yolo_nms.onnx", ["onnxruntime"], options=options, strict=True)
    assert_close(program.run(feeds), dict(np.load(zoo / "yolo_nms.outputs.npz")))


@pytest.mark.engine("onnxruntime")
@pytest.mark.engine("openvino")
@pytest.mark.parametrize("kind", ASSIGNMENTS)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_models_give_their_outputs(
    zoo: Path, name: str, kind: str, tmp_path: Path
) -> None:
    feeds = dict(np.load(zoo / f"{name}.inputs.npz"))
    wanted = dict(np.load(zoo / f"{name}.outputs.npz"))
    check(pt.load(zoo / f"{name}.onnx"), kind, feeds, wanted, tmp_path)


@pytest.mark.engine("onnxruntime")
@pytest.mark.engine("openvino")
@pytest.mark.parametrize("kind", ["two", "random"])
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_light_models_give_their_outputs(name: str, kind: str, tmp_path: Path) -> None:
    model = pt.load(LIGHT / f"{name}.onnx")
    feeds = {
        str(v.name): np.random.default_rng(0).random(v.shape.numpy(), np.float32)
        for v in model.inputs
        if v.shape is not None
    }
    recorded = LIGHT / f"{name}_output_0.pb"
    tensor = onnx.TensorProto.FromString(recorded.read_bytes()) if recorded.exists() else None
    alone = pt.compile(model, ["onnxruntime"], strict=True).run(feeds)
    assert tensor is None or numpy_helper.to_array(tensor).shape == next(iter(alone.values())).shape
    check(model, kind, feeds, alone, tmp_path)
