"""Weights beside the model: what is opened, what is refused, and in which words."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from partita.errors import ExternalDataError, PartitaError
from partita.loading.external import ExternalData
from partita.loading.stage import load

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
SECRET = b"secret bytes of another folder!!"


def external(location="weights.bin", name="w", dims=(2, 3), dtype=TensorProto.FLOAT, **entries):
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def write_model(folder, tensor=None, nodes=None, weights=None, functions=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes or [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", 1, [2, 3])],
        [value("y", 1, [2, 3])],
        [tensor] if weights is None else weights,
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path):
    """The model's folder with its weights, inside a folder with a secret."""
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "weights.bin").write_bytes(b"\0" * 8 + WEIGHTS.tobytes() + b"\0" * 4)
    (tmp_path / "secret.bin").write_bytes(SECRET)
    return inside


def test_weights_are_mapped_not_read(folder):
    loaded = load(write_model(folder, external(offset=8, length=24)))
    array = loaded.parameters["w"].const_value.numpy()
    np.testing.assert_array_equal(array, WEIGHTS)
    assert not array.flags.writeable
    assert not array.flags.owndata


def test_offset_and_length_may_be_left_out(folder):
    (folder / "all.bin").write_bytes(WEIGHTS.tobytes())
    loaded = load(write_model(folder, external("./all.bin")))
    np.testing.assert_array_equal(loaded.parameters["w"].const_value.numpy(), WEIGHTS)


def test_weights_in_a_folder_below_are_found(folder):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "w.bin").write_bytes(WEIGHTS.tobytes())
    assert load(write_model(folder, external("a/b/w.bin"))).parameters["w"]


def test_unaligned_weights_are_copied_into_line(folder):
    (folder / "odd.bin").write_bytes(b"\1" + WEIGHTS.tobytes())
    array = load(write_model(folder, external("odd.bin", offset=1))).parameters["w"].const_value
    np.testing.assert_array_equal(array.numpy(), WEIGHTS)
    assert array.numpy().flags.aligned


PACKED = [
    (TensorProto.INT4, 3, 4, ir.DataType.INT4),
    (TensorProto.UINT2, 2, 6, ir.DataType.UINT2),
    (TensorProto.BFLOAT16, 12, 6, ir.DataType.BFLOAT16),
    (TensorProto.FLOAT8E4M3FN, 6, 6, ir.DataType.FLOAT8E4M3FN),
]


@pytest.mark.parametrize(("number", "size", "_", "dtype"), PACKED)
def test_small_types_have_the_length_of_their_bits(folder, number, size, _, dtype):
    (folder / "small.bin").write_bytes(bytes(range(size)))
    path = write_model(folder, external("small.bin", dtype=number, length=size))
    tensor = load(path).parameters["w"].const_value
    assert tensor.dtype == dtype
    assert tensor.numpy().shape == (2, 3)
    path = write_model(folder, external("small.bin", dtype=number, length=size + 1))
    with pytest.raises(ExternalDataError, match=f"type and shape need {size}"):
        load(path)


def test_a_model_over_four_gigabytes_stays_mapped(folder):
    size = 2**32 + 8
    with (folder / "large.bin").open("wb") as file:
        file.truncate(size)  # sparse: takes no room on the disk
        file.seek(size - 1)
        file.write(b"\x07")
    tensor = external("large.bin", dims=(size,), dtype=TensorProto.UINT8, length=size)
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Shape", ["w"], ["s"])]
    array = load(write_model(folder, tensor, nodes)).parameters["w"].const_value.numpy()
    assert array.nbytes == size
    assert array[-1] == 7


ESCAPES = {
    "../secret.bin": "may lead out of the model's folder",
    "a/../../secret.bin": "may lead out of the model's folder",
    "a/..": "may lead out of the model's folder",
    "..": "may lead out of the model's folder",
    "/etc/hostname": "only a relative path with '/' inside the model's folder",
    "//server/share": "only a relative path",
    "..\\secret.bin": "only a relative path",
    "C:\\secret.bin": "only a relative path",
    "C:secret.bin": "only a relative path",
    "weights.bin\0.txt": "is no file name",
    "*/_ORT_MEM_ADDR_/*": "an address in memory",
    "/*/_ORT_MEM_ADDR_/*": "an address in memory",
    "": "names no location",
    ".": "may lead out",
    "a//b": "may lead out",
    "x" * 5000: "is no file name",
    "absent.bin": "cannot be opened: No such file",
    "weights.bin/below": "cannot be opened: Not a directory",
}


@pytest.mark.parametrize("location", ESCAPES)
def test_locations_outside_the_folder_are_refused(folder, location):
    path = write_model(folder, external(location, length=24))
    with pytest.raises(ExternalDataError, match=ESCAPES[location]) as caught:
        load(path)
    assert caught.value.value == "w"
    assert caught.value.file == str(path)


def test_symbolic_links_are_refused(folder):
    (folder / "link.bin").symlink_to(folder / "weights.bin")
    with pytest.raises(ExternalDataError, match=r"'link\.bin' is or passes a symbolic link"):
        load(write_model(folder, external("link.bin", length=24)))


def test_links_to_folders_are_refused(folder):
    (folder / "up").symlink_to(folder.parent)
    with pytest.raises(ExternalDataError, match="is or passes a symbolic link"):
        load(write_model(folder, external("up/secret.bin", length=24)))


def test_hard_links_are_refused(folder):
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    with pytest.raises(ExternalDataError, match=r"'hard\.bin' is a hard link \(2 names\)"):
        load(write_model(folder, external("hard.bin", length=24)))


def test_devices_pipes_and_folders_are_refused(folder):
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    for name in ("pipe", "sub"):
        with pytest.raises(ExternalDataError, match=f"'{name}' is no regular file"):
            load(write_model(folder, external(name, length=24)))


ENTRIES = {
    "__class__": ({"__class__": "x"}, "has the key '__class__'; legal ones: location"),
    "negative length": ({"length": "-1"}, "the length of its external_data is '-1'"),
    "negative offset": ({"offset": "-8"}, "the offset of its external_data is '-8'"),
    "length in words": ({"length": "0x18"}, "is '0x18', not a number of bytes"),
    "petabytes": ({"length": str(2**50)}, r"says that 1,125,899,906,842,624 bytes .* need 24"),
    "too short": ({"length": "20"}, "says that 20 bytes of 'weights.bin' are its data; .* need 24"),
    "behind the end": (
        {"offset": "16", "length": "24"},
        "wants bytes 16 to 40 of 'weights.bin', which has 36",
    ),
    "far behind the end": ({"offset": str(2**62)}, "wants bytes 4,611,686,018,427,387,904 to"),
    "checksum": ({"offset": "8", "checksum": "00"}, "has SHA-1 .*; the model wants 00"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_entries_are_checked(folder, case):
    entries, words = ENTRIES[case]
    with pytest.raises(ExternalDataError, match=words):
        load(write_model(folder, external(**entries)))


def test_a_key_given_twice_is_refused(folder):
    tensor = external()
    tensor.external_data.add(key="location", value="other.bin")
    with pytest.raises(ExternalDataError, match="has the key 'location' twice"):
        load(write_model(folder, tensor))


def test_known_extra_keys_and_right_checksums_pass(folder):
    content = (folder / "weights.bin").read_bytes()
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    more = {"basepath": "/nowhere", "prepacked_0": "x", "checksum": digest}
    assert load(write_model(folder, external(offset=8, **more))).parameters["w"]


def test_a_model_without_a_folder_needs_one(folder):
    path = write_model(folder, external(offset=8))
    words = r"lies in the file 'weights.bin', but the model was not loaded from a file"
    for source in (path.read_bytes(), onnx.load(path, load_external_data=False)):
        with pytest.raises(ExternalDataError, match=words):
            load(source)
        assert load(source, base_dir=folder).parameters["w"]


def everywhere(tensor):
    """The same tensor as a constant, inside a body, inside a function, and stored sparse."""
    value = helper.make_tensor_value_info
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    add = helper.make_node("Add", ["x", "w"], ["y"])
    body = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["o"])], "b", [], [value("o", 1, [2, 3])], [tensor]
    )
    condition = helper.make_node(
        "Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [True])
    )
    branch = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    imports = [helper.make_opsetid("", 17)]
    inner = [constant, helper.make_node("Add", ["a", "w"], ["b"])]
    function = helper.make_function("f", "F", ["a"], ["b"], inner, imports)
    call = helper.make_node("F", ["x"], ["y"], domain="f")
    return {
        "constant": {"nodes": [constant, add], "weights": []},
        "body": {"nodes": [condition, branch], "weights": []},
        "function": {"nodes": [call], "weights": [], "functions": [function]},
    }


@pytest.mark.parametrize("place", ["constant", "body", "function"])
def test_the_rules_hold_wherever_a_tensor_stands(folder, place):
    good = everywhere(external(offset=8))[place]
    loaded = load(write_model(folder, **good))
    weights = [v for _, g in loaded.graphs() for v in g.initializers.values()]
    assert any(np.array_equal(v.const_value.numpy(), WEIGHTS) for v in weights)
    bad = everywhere(external("../secret.bin", length=24))[place]
    with pytest.raises(ExternalDataError, match="may lead out of the model's folder"):
        load(write_model(folder, **bad))


def test_sparse_weights_may_not_escape_either(folder):
    path = write_model(folder, weights=[])
    proto = onnx.load(path)
    sparse = proto.graph.sparse_initializer.add(dims=[2, 3])
    sparse.values.CopyFrom(external("../secret.bin", dims=(6,), length=24))
    sparse.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, [6], list(range(6))))
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ExternalDataError, match="may lead out of the model's folder"):
        load(path)


def test_a_caller_s_model_obeys_the_same_rules(folder):
    (folder / "hard.bin").hardlink_to(folder.parent / "secret.bin")
    held = ir.from_proto(
        onnx.load(write_model(folder, external("hard.bin", length=24)), load_external_data=False)
    )
    for value in held.graph.initializers.values():
        value.const_value.base_dir = folder
    with pytest.raises(ExternalDataError, match="is a hard link"):
        load(held)


SEGMENTS = st.sampled_from(["..", ".", "a", "secret.bin", "", "\\", "C:", "~", "\0", "up", "é"])


@given(st.lists(SEGMENTS, min_size=1, max_size=5), st.sampled_from(["/", "\\", "//"]))
def test_no_location_ever_reads_the_secret(tmp_path_factory, segments, separator):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.bin").write_bytes(SECRET)
    inside = outside / "in"
    (inside / "a").mkdir(parents=True)
    (inside / "up").symlink_to(outside)
    data = ExternalData(inside)
    entry = onnx.StringStringEntryProto(key="location", value=separator.join(segments))
    with pytest.raises(PartitaError):
        data.read([entry], len(SECRET))


def test_where_folders_have_no_descriptors_paths_are_compared(folder, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", set())
    assert load(write_model(folder, external(offset=8))).parameters["w"]
    (folder / "up").symlink_to(folder.parent)
    for location in ("up/secret.bin", "up"):
        with pytest.raises(ExternalDataError, match="symbolic link"):
            load(write_model(folder, external(location, length=24)))
    with pytest.raises(ExternalDataError, match="cannot be opened"):
        load(write_model(folder, external("absent", length=24)))
