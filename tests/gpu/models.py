"""The models that are measured on a GPU, in plain torch: one workload file, ``args.model`` says which.

``small`` makes every one of them tiny, for trying the script itself on a CPU.  ``kernel`` forces an attention kernel.
B batch, H heads, T tokens, D width of a head.
"""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self, small):
        super().__init__()
        width = 64 if small else 4096
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, 100),
        )
        self.width = width

    def example(self, n):
        return torch.randn(n, self.width), torch.randint(0, 100, (n,))

    def forward(self, x, targets):
        return F.cross_entropy(self.layers(x), targets)


class Bottleneck(nn.Module):
    def __init__(self, inputs, inner, stride):
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.two = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.three, self.norm3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.skip = None
        if stride > 1 or inputs != 4 * inner:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.one(x)), inplace=True)
        y = F.relu(self.norm2(self.two(y)), inplace=True)
        y = self.norm3(self.three(y))
        y += x if self.skip is None else self.skip(x)
        return F.relu(y, inplace=True)


class ResNet50(nn.Module):
    def __init__(self, small):
        super().__init__()
        depths, self.side = ((1, 1, 1, 1), 32) if small else ((3, 4, 6, 3), 224)
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        parts, inputs = [], 64
        for place, depth in enumerate(depths):
            inner = 64 << place
            for index in range(depth):
                parts.append(Bottleneck(inputs, inner, 2 if place and not index else 1))
                inputs = 4 * inner
        self.parts, self.head = nn.Sequential(*parts), nn.Linear(2048, 1000)

    def example(self, n):
        return torch.randn(n, 3, self.side, self.side), torch.randint(0, 1000, (n,))

    def forward(self, x, targets):
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        x = self.parts(F.max_pool2d(x, 3, 2, 1))
        return F.cross_entropy(self.head(x.mean((2, 3))), targets)


class Attention(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.dropout = heads, causal, dropout

    def forward(self, x):
        count, length, width = x.shape
        q, k, v = self.joined(x).split(width, dim=2)
        q, k, v = (one.view(count, length, self.heads, -1).transpose(1, 2) for one in (q, k, v))  # B H T D
        dropped = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(count, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal, dropout):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, causal, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.inner(self.norm2(x))


class Transformer(nn.Module):
    """GPT-2 of 124 M weights, or the shape of BERT-large with two classes."""

    def __init__(self, small, causal, kernel=None):
        super().__init__()
        layers, width, heads, vocab, length = (
            (12, 768, 12, 50257, 1024) if causal else (24, 1024, 16, 30522, 512)
        )
        if small:
            layers, width, heads, vocab, length = 2, 64, 4, 256, 32
        self.length, self.vocab, self.causal, self.kernel = length, vocab, causal, kernel
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, causal, 0.0 if causal else 0.1) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab if causal else 2, bias=False)
        if causal:
            self.head.weight = self.tokens.weight

    def example(self, n):
        ids = torch.randint(0, self.vocab, (n, self.length + 1))
        if self.causal:
            return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        return ids[:, 1:].contiguous(), torch.randint(0, 2, (n,))

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        with forced(self.kernel):
            for block in self.blocks:
                x = block(x)
        x = self.norm(x)
        if not self.causal:
            return F.cross_entropy(self.head(x[:, 0]), targets)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def forced(kernel):
    if not kernel:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, kernel))


def build(cfg):
    small, name = cfg.get("small", False), cfg["model"]
    if name == "mlp":
        return Mlp(small)
    if name == "resnet50":
        return ResNet50(small)
    return Transformer(small, name == "gpt2", cfg.get("kernel"))


def batch(n, cfg):
    with torch.device("meta"):
        shape = build(cfg)
    return shape.example(n)


def loss(model, batch):
    return model(*batch)
