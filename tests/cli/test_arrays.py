from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from partita.cli.arrays import fed, write_arrays
from partita.cli.options import Display, Feeds
from partita.errors import InputError, UnknownNameError, UsageError
from partita.model import Model

QUIET = Display(quiet=True)


def model_of(**inputs: tuple[int | str, ...]) -> Model:
    """Returns a model without nodes that takes float32 inputs of these shapes."""
    values = [
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
        for name, shape in inputs.items()
    ]
    return Model(
        ir.Model(ir.Graph(values, values, nodes=[], opset_imports={"": 20}), ir_version=10)
    )


@pytest.fixture
def two() -> Model:
    return model_of(x=("batch", 3), y=(2, "batch"))


def test_given_arrays_are_taken_and_the_rest_is_random(two: Model, tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    found = fed(two, Feeds(input=[f"x={tmp_path / 'x.npy'}"]), QUIET)
    assert list(found) == ["x", "y"]
    np.testing.assert_array_equal(found["x"], x)
    assert found["y"].shape == (2, 4), "the named dimension follows the given array"


def test_random_arrays_follow_the_seed(two: Model) -> None:
    first, again, other = (fed(two, Feeds(seed=s, dim=["batch=5"]), QUIET) for s in (1, 1, 2))
    assert first["x"].shape == (5, 3)
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])


def test_random_inputs_are_said(two: Model, capsys: pytest.CaptureFixture[str]) -> None:
    fed(two, Feeds(), Display())
    assert "random inputs (seed 0): x float32[1,3], y float32[2,1]" in capsys.readouterr().err


def test_an_archive_holds_several(two: Model, tmp_path: Path) -> None:
    arrays = {"x": np.zeros((1, 3), np.float32), "y": np.ones((2, 1), np.float32)}
    np.savez(tmp_path / "both.npz", **arrays)
    found = fed(two, Feeds(input=[str(tmp_path / "both.npz")]), QUIET)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_single_input_needs_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a=b.npy", np.ones((1, 3), np.float32))
    found = fed(model_of(x=(1, 3)), Feeds(input=[str(tmp_path / "a=b.npy")]), QUIET)
    assert found["x"].sum() == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["z=x.npy"], "no input is named 'z'"),
        (["x"], "write it NAME=FILE.npy or FILE.npz"),
        (["x=missing.npy"], "there is no file missing.npy"),
    ],
)
def test_wrong_inputs_say_what_is_wanted(two: Model, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fed(two, Feeds(input=words), QUIET)


def test_a_near_name_is_hinted_at(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", imges=np.zeros(1))
    with pytest.raises(UnknownNameError, match="did you mean 'images'"):
        fed(model_of(images=(1,)), Feeds(input=[str(tmp_path / "a.npz")]), QUIET)


def test_nothing_is_unpickled(two: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as a numpy file"):
        fed(two, Feeds(input=[f"x={tmp_path / 'x.npy'}"]), QUIET)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04broken", b"text"])
def test_damaged_files_are_errors(two: Model, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npy"):
        fed(two, Feeds(input=[f"x={tmp_path / 'x.npy'}"]), QUIET)


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=-1", "=3", "batch=x"])
def test_wrong_sizes_say_how_to_write_them(two: Model, text: str) -> None:
    with pytest.raises(UsageError, match=r"--dim is .* write it NAME=N"):
        fed(two, Feeds(dim=[text]), QUIET)


def test_arrays_come_back_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    write_arrays(
        path,
        {
            "file": np.arange(3),
            "half": np.array([0.5, 2], ml_dtypes.bfloat16),
            "text": np.array(["a", "bc"], object),
            "list": [np.zeros(2), np.ones(1)],
            "absent": None,
            "../../etc/x": np.ones(1),
        },
    )
    with np.load(path, allow_pickle=False) as found:
        assert set(found.files) == {"file", "half", "text", "list[0]", "list[1]", "output_6"}
        assert found["half"].tolist() == [0.5, 2.0]
        assert found["text"].tolist() == ["a", "bc"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    path.write_text("before")
    with pytest.raises(ValueError, match="inhomogeneous"):
        write_arrays(path, {"a": np.zeros(1), "b": ((1, 2), (3,))})
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]
