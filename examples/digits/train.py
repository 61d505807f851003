"""Trains the digits classifier and writes ``digits.onnx`` and ``accuracy.json`` beside this file.

    pip install -e ".[demo]" && pip install torch==2.13.0
    python examples/digits/train.py

Takes half a minute on one core. Nothing was chosen by looking at the held-out third: sizes and
schedule were compared by four-fold cross-validation on the training part (99.6 % right). torch
trains; the ONNX file is written node by node, so that its names are the ones a reader of a plan
would like to see.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
from pathlib import Path

import numpy as np
import onnx
import sklearn
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional

from partita.cli.digits import SEED, split

FOLDER = Path(__file__).parent
TRAINING_SEED = 7
EPOCHS = 80
BATCH = 64
LEARNING_RATE = 6e-3
DROPOUT = 0.2
SHIFT = 1
"""Training images are moved by up to so many pixels, at random."""
CHANNELS = (20, 40)
OPSET, IR_VERSION = 18, 9


class Block(nn.Module):
    """Conv, BatchNormalization, Relu; then a second convolution, added to the first's result."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.inner_conv = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.inner_norm = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes [n, inputs, h, w], returns [n, outputs, h, w]."""
        x = functional.relu(self.norm(self.conv(x)))
        return functional.relu(self.inner_norm(self.inner_conv(x)) + x)


class Net(nn.Module):
    """Two residual blocks, each followed by a pooling, then a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.block1 = Block(1, CHANNELS[0])
        self.block2 = Block(*CHANNELS)
        self.fc = nn.Linear(CHANNELS[1] * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Takes [n, 1, 8, 8] with pixels from 0 to 16, returns logits [n, 10]."""
        x = self.block1(images / 16)
        x = self.block2(functional.max_pool2d(x, 2))
        x = functional.max_pool2d(x, 2).flatten(1)
        return self.fc(functional.dropout(x, DROPOUT, self.training))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    parts = split()
    net = train(parts.images, parts.labels, arguments.epochs)
    model = to_onnx(net)
    probabilities = ReferenceEvaluator(model).run(None, {"images": parts.held_out_images})[0]
    check_export(net, parts.held_out_images, probabilities)
    right = int((probabilities.argmax(1) == parts.held_out_labels).sum())
    onnx.save(model, arguments.out / "digits.onnx")
    record = {
        "accuracy": right / len(parts.held_out_labels),
        "right": right,
        "held_out": len(parts.held_out_labels),
        "training": len(parts.labels),
        "split_seed": SEED,
        "training_seed": TRAINING_SEED,
        "epochs": arguments.epochs,
        "parameters": sum(p.numel() for p in net.parameters()),
        "labels_sha256": hashlib.sha256(parts.held_out_labels.astype("<i8").tobytes()).hexdigest(),
        "sha256": hashlib.sha256(model.SerializeToString()).hexdigest(),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "onnx": onnx.__version__,
            "scikit-learn": sklearn.__version__,
            "torch": torch.__version__,
        },
    }
    (arguments.out / "accuracy.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> Net:
    """Returns a net trained with a fixed schedule: Adam, one cycle, label smoothing."""
    torch.manual_seed(TRAINING_SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net, x, y = Net(), torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0.02)
    steps = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, epochs * steps)
    for _ in range(epochs):
        order = torch.randperm(len(x))[: steps * BATCH]
        for chosen in order.split(BATCH):
            loss = functional.cross_entropy(net(moved(x[chosen])), y[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def moved(images: torch.Tensor) -> torch.Tensor:
    """Returns the images, each shifted by up to ``SHIFT`` pixels in both directions."""
    wide = functional.pad(images, (SHIFT,) * 4)
    rows, columns = torch.randint(0, 2 * SHIFT + 1, (2, len(images)))
    places = zip(wide, rows.tolist(), columns.tolist(), strict=True)
    return torch.stack([image[:, r : r + 8, c : c + 8] for image, r, c in places])


def check_export(net: Net, images: np.ndarray, probabilities: np.ndarray) -> None:
    """Raises unless torch and the reference evaluator give the same probabilities."""
    with torch.no_grad():
        wanted = net(torch.from_numpy(images)).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, wanted, rtol=1e-3, atol=1e-5)


def to_onnx(net: Net) -> onnx.ModelProto:
    """Returns the net as an ONNX model with readable names and a free batch dimension."""
    weights = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    graph = Graph(weights)
    x = graph.add("Mul", "scale", ["images", graph.constant("scale/factor", np.float32(1 / 16))])
    x = graph.block("block1", x)
    x = graph.add("MaxPool", "pool1", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = graph.block("block2", x)
    x = graph.add("MaxPool", "pool2", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = graph.add("Flatten", "flatten", [x], axis=1)
    x = graph.add("Gemm", "fc", [x, *graph.weights("fc", "weight", "bias")], transB=1)
    graph.add("Softmax", "softmax", [x], output="probabilities", axis=1)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "digits",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="partita examples/digits",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class Graph:
    """Nodes and weights in the order in which they are added."""

    def __init__(self, state: dict[str, np.ndarray]) -> None:
        self.state = state
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a weight and returns its name."""
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, module: str, *names: str) -> list[str]:
        """Adds weights of a torch module and returns their names."""
        path = module.replace("/", ".")
        return [self.constant(f"{module}/{n}", self.state[f"{path}.{n}"]) for n in names]

    def add(self, op: str, name: str, inputs: list[str], output: str = "", **attributes) -> str:
        """Adds a node with one output and returns that output's name."""
        output = output or f"{name}/out"
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def convolution(self, block: str, prefix: str, x: str) -> str:
        """Adds a 3x3 convolution and its normalisation."""
        conv, norm = f"{block}/{prefix}conv", f"{block}/{prefix}norm"
        size = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        x = self.add("Conv", conv, [x, *self.weights(conv, "weight")], **size)
        statistics = self.weights(norm, "weight", "bias", "running_mean", "running_var")
        return self.add("BatchNormalization", norm, [x, *statistics], epsilon=1e-5)

    def block(self, name: str, x: str) -> str:
        """Adds what :class:`Block` computes."""
        x = self.add("Relu", f"{name}/relu", [self.convolution(name, "", x)])
        inner = self.convolution(name, "inner_", x)
        x = self.add("Add", f"{name}/residual", [inner, x])
        return self.add("Relu", f"{name}/residual_relu", [x])


if __name__ == "__main__":
    main()
