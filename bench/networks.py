"""Networks of the usual kinds as plain torch modules, with random weights, for ``zoo.py``.

They follow the architectures by name, in the smallest form that still has their operators and their
sizes; none is meant to be trained.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


def convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    """A convolution that keeps height and width up to its stride, and its normalisation."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Adds a path and a shortcut, then an activation."""

    def __init__(self, path: nn.Module, shortcut: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.path, self.shortcut, self.activation = path, shortcut, activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.path(x) + self.shortcut(x))


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> nn.Module:
    """ResNet with bottlenecks (He et al. 2015)."""
    layers: list[nn.Module] = [convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        for block in range(depth):
            stride = 2 if stage and not block else 1
            path = nn.Sequential(
                convolution(channels, inner, 1),
                nn.ReLU(),
                convolution(inner, inner, 3, stride),
                nn.ReLU(),
                convolution(inner, inner * 4, 1),
            )
            same = channels == inner * 4
            shortcut = nn.Identity() if same else convolution(channels, inner * 4, 1, stride)
            layers.append(Residual(path, shortcut, nn.ReLU()))
            channels = inner * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def mobilenet() -> nn.Module:
    """MobileNetV2 (Sandler et al. 2018)."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    layers: list[nn.Module] = [convolution(3, 32, 3, 2), nn.ReLU6()]
    channels = 32
    for factor, outputs, repeats, first_stride in (*rows, (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(repeats):
            inner, stride = channels * factor, first_stride if block == 0 else 1
            path = nn.Sequential(
                convolution(channels, inner, 1),
                nn.ReLU6(),
                convolution(inner, inner, 3, stride, groups=inner),
                nn.ReLU6(),
                convolution(inner, outputs, 1),
            )
            same = stride == 1 and channels == outputs
            layers.append(Residual(path, nn.Identity(), nn.Identity()) if same else path)
            channels = outputs
    layers += [convolution(channels, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))


class Dense(nn.Module):
    """Appends the channels that a convolution makes to those it reads."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(functional.relu(self.norm(x)))], 1)


def densenet(blocks: int = 3, layers: int = 10, growth: int = 24) -> nn.Module:
    """DenseNet without bottlenecks (Huang et al. 2016)."""
    modules: list[nn.Module] = [nn.Conv2d(3, 48, 7, 4, 3)]
    channels = 48
    for _ in range(blocks):
        for _ in range(layers):
            modules.append(Dense(channels, growth))
            channels += growth
        modules += [nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
        channels //= 2
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Unet(nn.Module):
    """U-Net with GroupNorm and SiLU (Ronneberger et al. 2015; as diffusion models use it)."""

    def __init__(self, width: int = 32, levels: int = 3) -> None:
        super().__init__()
        sizes = [width << i for i in range(levels + 1)]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(self.block(a, b) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(self.block(a + b, a) for a, b in pairwise(sizes))
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        return nn.Sequential(conv, nn.GroupNorm(8, outputs), nn.SiLU())

    def forward(self, image: Tensor) -> Tensor:
        x, kept = self.first(image), []
        for block in self.down:
            kept.append(x)
            x = functional.max_pool2d(block(x), 2)
        for block in reversed(self.up):
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([kept.pop(), x], 1))
        return self.last(x)


class Attention(nn.Module):
    """A transformer layer, normalised first: attention, then a two-layer perceptron."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in parts)
        y = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Vit(nn.Module):
    """Vision transformer (Dosovitskiy et al. 2020)."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 8, size: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.place = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Bert(nn.Module):
    """Text encoder with a padding mask (Devlin et al. 2018)."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(8000, width), nn.Embedding(512, width)
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        keep = mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, keep)
        return self.norm(x)


class Gpt(nn.Module):
    """Text decoder with causal attention (Radford et al. 2019)."""

    def __init__(self, width: int = 384, heads: int = 6, layers: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(8000, width), nn.Embedding(512, width)
        self.layers = nn.ModuleList(Attention(width, heads, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 8000, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Recurrent(nn.Module):
    """A two-layer recurrent net over a sequence, and a linear head at each step."""

    def __init__(self, kind: type[nn.RNNBase], width: int = 192) -> None:
        super().__init__()
        self.cells = kind(80, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 40)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0]).log_softmax(-1)


class Dlrm(nn.Module):
    """Recommendation net: embeddings, pairwise products, perceptrons (Naumov et al. 2019)."""

    def __init__(self, tables: int = 26, rows: int = 2000, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = self.perceptron(13, 256, 128, width)
        pairs = (tables + 1) * tables // 2
        self.top = self.perceptron(width + pairs, 512, 256)
        self.last = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    @staticmethod
    def perceptron(*sizes: int) -> nn.Module:
        pairs = pairwise(sizes)
        return nn.Sequential(*(m for a, b in pairs for m in (nn.Linear(a, b), nn.ReLU())))

    def forward(self, dense: Tensor, index: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = [table(index[:, i]) for i, table in enumerate(self.tables)]
        every = torch.stack([x, *rows], 1)
        products = (every @ every.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.last(self.top(torch.cat([x, products], 1))).sigmoid()


class Experts(nn.Module):
    """Transformer layers whose perceptron is a mixture of experts (Shazeer et al. 2017).

    Every expert sees every token; the gates of all but the best two are zero.
    """

    def __init__(self, width: int = 192, experts: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Attention(width, 4) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        scale = width**-0.5
        for name, shape in (("up", (width, 2 * width)), ("down", (2 * width, width))):
            weights = (torch.randn(experts, *shape) * scale for _ in range(layers))
            setattr(self, name, nn.ParameterList(weights))

    def forward(self, x: Tensor) -> Tensor:
        for attention, gate, up, down in zip(
            self.attention, self.gates, self.up, self.down, strict=True
        ):
            x = attention(x)
            best, which = gate(x).topk(2, -1)
            gates = torch.zeros_like(gate(x)).scatter(-1, which, best.softmax(-1))
            hidden = functional.silu(torch.einsum("btd,edh->bteh", x, up))
            x = x + torch.einsum("bteh,ehd,bte->btd", hidden, down, gates)
        return x


class FirstOutput(nn.Module):
    """Returns the first of a module's outputs, whatever record it wraps them in."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(*inputs)[0]
