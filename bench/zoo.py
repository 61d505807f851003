"""Builds models with random weights as real exporters write them.

    python bench/zoo.py [--out DIR] [--only GLOB] [--list] [--json] [--force]

For each model: ``NAME.onnx`` (``torch.onnx.export`` with dynamo), ``NAME.inputs.npz`` and
``NAME.outputs.npz`` (ONNX Runtime, optimisations off). Needs torch, onnxscript and onnxruntime;
transformers and timm add models where they are installed. One line a model on stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np

from recorded import PARTS, cache

SEED = 2026
OPSET = 18
EXPORTER = ("torch", "onnxscript", "onnxruntime")

Maker = Callable[[], Any]
"""Makes a torch module, or a tensor to feed one."""


@final
@dataclass(frozen=True)
class Entry:
    """A model that can be built.

    Attributes:
        name: File name without ending.
        make: Makes the torch module.
        inputs: Make the tensors it is fed.
        package: Where the module comes from; skipped where that is not installed.
    """

    name: str
    make: Maker
    inputs: tuple[Maker, ...]
    package: str = "torch"


def floats(*shape: int) -> Maker:
    return lambda: torch().randn(shape)


def integers(bound: int, *shape: int) -> Maker:
    return lambda: torch().randint(0, bound, shape)


def ones(*shape: int) -> Maker:
    return lambda: torch().ones(shape, dtype=torch().int64)


def torch() -> ModuleType:
    return importlib.import_module("torch")


def plain(name: str, *arguments: Any) -> Maker:
    """Makes a network of ``networks.py``."""
    return lambda: vars(importlib.import_module("networks"))[name](*arguments)


def recurrent(kind: str) -> Maker:
    return lambda: plain("Recurrent", vars(torch().nn)[kind])()


def timm_model(name: str) -> Maker:
    """Makes a model of timm, which imports torchvision without needing it for a model."""

    def make() -> Any:
        with torchvision_or_stub():
            return importlib.import_module("timm").create_model(name, pretrained=False)

    return make


def transformer(model: str, config: str, part: str = "", **sizes: Any) -> Maker:
    """Makes a model (or a part of one) of transformers that returns its first output alone."""

    def make() -> Any:
        library = importlib.import_module("transformers")
        settings = vars_of(library, config)(**sizes, attn_implementation="sdpa")
        module = vars_of(library, model)(settings)
        wrapper = importlib.import_module("networks").FirstOutput
        return wrapper(module.get_submodule(part) if part else module)

    return make


def vars_of(module: ModuleType, name: str) -> Any:
    """Returns an attribute that the module makes when it is first asked for."""
    return getattr(module, name)


IMAGE = (floats(1, 3, 224, 224),)
SMALL_IMAGE = (floats(1, 3, 128, 128),)
TEXT = (integers(8000, 1, 128),)
MASKED_TEXT = (*TEXT, ones(1, 128))
LLAMA = {
    "vocab_size": 8000,
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "use_cache": False,
}
WHISPER = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6}

ENTRIES = (
    Entry("torch_resnet50", plain("resnet"), IMAGE),
    Entry("torch_mobilenetv2", plain("mobilenet"), IMAGE),
    Entry("torch_densenet", plain("densenet"), IMAGE),
    Entry("torch_unet", plain("Unet"), SMALL_IMAGE),
    Entry("torch_vit", plain("Vit"), IMAGE),
    Entry("torch_bert", plain("Bert"), MASKED_TEXT),
    Entry("torch_gpt", plain("Gpt"), TEXT),
    Entry("torch_lstm", recurrent("LSTM"), (floats(1, 100, 80),)),
    Entry("torch_gru", recurrent("GRU"), (floats(1, 100, 80),)),
    Entry("torch_dlrm", plain("Dlrm"), (floats(256, 13), integers(2000, 256, 26))),
    Entry("torch_moe", plain("Experts"), (floats(1, 128, 192),)),
    *(
        Entry(f"timm_{name.split('.')[0]}", timm_model(name), IMAGE, "timm")
        for name in (
            "mobilenetv3_large_100",
            "efficientnet_b0",
            "densenet121",
            "convnext_tiny",
            "vit_base_patch16_224",
            "swin_tiny_patch4_window7_224",
        )
    ),
    *(
        Entry(f"transformers_{name}", make, inputs, "transformers")
        for name, make, inputs in (
            ("bert_base", transformer("BertModel", "BertConfig"), MASKED_TEXT),
            ("distilbert", transformer("DistilBertModel", "DistilBertConfig"), MASKED_TEXT),
            ("gpt2", transformer("GPT2Model", "GPT2Config", use_cache=False), TEXT),
            ("llama_small", transformer("LlamaModel", "LlamaConfig", **LLAMA), TEXT),
            (
                "whisper_encoder",
                transformer("WhisperModel", "WhisperConfig", "encoder", **WHISPER),
                (floats(1, 80, 3000),),
            ),
        )
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=cache(), help="folder to write to")
    parser.add_argument("--only", default="*", help="glob over model names")
    parser.add_argument("--list", action="store_true", help="show what there is; build nothing")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of text")
    parser.add_argument("--force", action="store_true", help="build again what is there")
    asked = parser.parse_args(arguments)
    chosen = [entry for entry in ENTRIES if fnmatch(entry.name, asked.only)]
    if not chosen:
        parser.error(f"no model fits '{asked.only}'; --list shows their names")
    failed = False
    for number, entry in enumerate(chosen, 1):
        if sys.stderr.isatty() and not asked.list:
            print(f"[{number}/{len(chosen)}] {entry.name} …", file=sys.stderr)
        record = listed(entry, asked.out) if asked.list else made(entry, asked.out, asked.force)
        failed = failed or record["state"] == "failed"
        print(json.dumps(record) if asked.json else text(record), flush=True)
    sys.exit(3 if failed else 0)


def text(record: dict[str, Any]) -> str:
    rest = " ".join(f"{k}={v}" for k, v in record.items() if k not in ("bench", "model", "state"))
    return f"{record['model']:<40} {record['state']:<8} {rest}"


def listed(entry: Entry, folder: Path) -> dict[str, Any]:
    """Returns whether a model is there, can be built, or lacks a package."""
    record: dict[str, Any] = {"bench": "zoo", "model": entry.name}
    if all((folder / (entry.name + ending)).is_file() for ending in PARTS):
        return record | {"state": "built", "path": str(folder / f"{entry.name}.onnx")}
    missing = [name for name in (*EXPORTER, entry.package) if not importlib.util.find_spec(name)]
    if missing:
        return record | {"state": "skipped", "reason": f"not installed: {', '.join(missing)}"}
    return record | {"state": "absent"}


def made(entry: Entry, folder: Path, force: bool) -> dict[str, Any]:
    """Builds a model unless it is there; a failure is a record, so that the others go on."""
    record = listed(entry, folder)
    if record["state"] == "skipped" or (record["state"] == "built" and not force):
        return record
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building") as temporary:
            nodes = build(entry, Path(temporary))
            for ending in reversed(PARTS):
                (Path(temporary) / f"model{ending}").replace(folder / (entry.name + ending))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return record | {"state": "failed", "reason": reason}
    path = folder / f"{entry.name}.onnx"
    return record | {
        "state": "built",
        "path": str(path),
        "nodes": nodes,
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }


def build(entry: Entry, folder: Path) -> int:
    """Exports one model into ``folder``, records inputs and outputs, returns its node count."""
    torch().manual_seed(SEED)
    module = entry.make().eval()
    tensors = tuple(make() for make in entry.inputs)
    path = folder / "model.onnx"
    with quiet():
        program = torch().onnx.export(
            module, tensors, dynamo=True, opset_version=OPSET, external_data=False, verbose=False
        )
        program.save(path)
    graph = program.model.graph
    inputs = {
        value.name: tensor.numpy() for value, tensor in zip(graph.inputs, tensors, strict=True)
    }
    outputs = reference(path, inputs)
    for name, array in outputs.items():
        if not np.isfinite(array).all() or array.std() < 1e-6:
            raise ValueError(f"output '{name}' is constant or not finite; it would test nothing")
    np.savez(folder / "model.inputs.npz", **inputs)
    np.savez(folder / "model.outputs.npz", **outputs)
    return len(graph)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the exporter's remarks, which concern its own insides, off the terminal."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def reference(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of ONNX Runtime with its optimisations off."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


class Placeholder(ModuleType):
    """A module whose every name is an empty class; its submodules are placeholders too."""

    __path__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return PlaceholderMeta(name, (), {})


class PlaceholderMeta(type):
    """Lets ``InterpolationMode.NEAREST`` and its like be read from an empty class."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


@contextlib.contextmanager
def torchvision_or_stub() -> Iterator[None]:
    """Lets timm be imported without torchvision, whose wheel wants CUDA.

    The placeholder is gone afterwards, so that nothing else takes it for the real one.
    """
    if importlib.util.find_spec("torchvision"):
        yield
        return
    names = ("", ".ops", ".ops.misc", ".models", ".models.feature_extraction", ".utils")
    names += (".transforms", ".transforms.functional", ".datasets")
    stubs = {f"torchvision{name}": Placeholder(f"torchvision{name}") for name in names}
    for name, stub in stubs.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(stubs[parent], last, stub)
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            sys.modules.pop(name, None)


if __name__ == "__main__":
    main()
