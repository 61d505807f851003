from __future__ import annotations

import gzip
import os

import pytest

from partita.errors import InvalidModelError, LimitError, UnsupportedModelError
from partita.loading import files
from partita.loading.limits import Limits
from partita.loading.stage import load


def test_a_missing_file_lists_near_ones(tmp_path):
    (tmp_path / "resnet50.onnx").write_bytes(b"x")
    with pytest.raises(InvalidModelError, match=r"there is no such file; near: resnet50\.onnx"):
        load(tmp_path / "resnet5.onnx")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InvalidModelError, match=r"the folder '.*nowhere' does not exist"):
        load(tmp_path / "nowhere" / "m.onnx")


def test_a_folder_is_no_model(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(
        InvalidModelError, match=r"it is a folder, not a model file; it holds m\.onnx"
    ):
        load(tmp_path)


def test_an_empty_file_is_no_model(tmp_path):
    path = tmp_path / "m.onnx"
    path.touch()
    with pytest.raises(InvalidModelError, match="the file is empty"):
        load(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(InvalidModelError, match="it is no regular file"):
        load(tmp_path / "m.onnx")


def test_a_file_nobody_may_read(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"x" * 100)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(InvalidModelError, match="cannot be opened: Permission denied"):
        load(path)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31 + 1)
    with pytest.raises(LimitError, match="has 2,147,483,649 bytes; at most 2,147,483,647"):
        load(path)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pt2", ".PT", ".pkl"])
def test_files_that_run_code_are_never_opened(tmp_path, suffix, monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("the file was opened")

    monkeypatch.setattr(files, "read", refuse)
    with pytest.raises(UnsupportedModelError, match=r"would run code .* give partita the module"):
        load(tmp_path / f"model{suffix}")


CONTENTS = {
    "gzip": (gzip.compress(b"x" * 100), "it is compressed with gzip: unpack it first"),
    "zip": (b"PK\x03\x04" + b"\0" * 60, "it is a zip archive, as PyTorch writes them"),
    "pickle": (b"\x80\x02ctorch\n" + b"\0" * 60, "it is a pickle: loading it would run code"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "run `git lfs pull`"),
    "html": (b"<!DOCTYPE html><html><body>404", "it is a web page: the download went wrong"),
    "ort": (b"\x20\0\0\0ORTM" + b"\0" * 60, "it is ONNX Runtime's own format"),
    "tflite": (b"\x20\0\0\0TFL3" + b"\0" * 60, "it is a TensorFlow Lite model"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 60, "it is an HDF5 file"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_other_formats_are_told_by_their_first_bytes(tmp_path, case):
    content, words = CONTENTS[case]
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=words):
        load(path)


def test_a_text_file_is_shown(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("Dear reader, this is a letter and no model at all.")
    with pytest.raises(InvalidModelError, match="it is a text file, not an ONNX model; it begins"):
        load(path)


@pytest.mark.parametrize("name", ["m.tflite", "m.h5", "m.xml", "m.safetensors", "m.zip", "m.ort"])
def test_other_suffixes_say_what_to_do(tmp_path, name):
    with pytest.raises(UnsupportedModelError, match="partita does not open this file: it "):
        load(tmp_path / name)


def test_the_content_is_mapped(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x09")
    assert bytes(files.read(path, Limits())) == b"\x08\x09"
