"""The reference sides of a kernel library's memory benchmarks: forward and backward of one layer, over and over.

Gradients are never dropped, so that from the second pass on they are added to.  Args: ``kind`` and its sizes.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Losses(nn.Module):
    """Cross-entropy of a leaf; ``forward`` is a whole pass."""

    def __init__(self, cfg):
        super().__init__()
        self.x = nn.Parameter(torch.empty(cfg["rows"], cfg["vocab"]))
        self.register_buffer("target", torch.zeros(cfg["rows"], dtype=torch.int64))

    def forward(self):
        F.cross_entropy(self.x, self.target).backward()


class Head(nn.Module):
    """A head without bias and its cross-entropy; the head of the side it is compared with is made, and idle, too."""

    def __init__(self, cfg):
        super().__init__()
        self.x = nn.Parameter(torch.empty(cfg["rows"], cfg["width"], dtype=torch.bfloat16))
        self.register_buffer("target", torch.zeros(cfg["rows"], dtype=torch.int64))
        self.head, self.idle = (
            nn.Linear(cfg["width"], cfg["vocab"], bias=False, dtype=torch.bfloat16) for _ in range(2)
        )

    def forward(self):
        F.cross_entropy(self.head(self.x), self.target).backward()


class Gated(nn.Module):
    """A gated inner layer; its graph is kept through the backward."""

    def __init__(self, cfg):
        super().__init__()
        width, inner = cfg["width"], cfg["inner"]
        self.x = nn.Parameter(torch.empty(cfg["batch"], cfg["tokens"], width, dtype=torch.bfloat16))
        self.gate, self.up = (nn.Linear(width, inner, bias=False, dtype=torch.bfloat16) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False, dtype=torch.bfloat16)
        self.act = F.silu if cfg["act"] == "silu" else nn.GELU(approximate="tanh")

    def forward(self):
        y = self.down(self.act(self.gate(self.x)) * self.up(self.x))
        y.backward(torch.randn_like(y), retain_graph=True)


class Divergence(nn.Module):
    """KL divergence from a softmax to a log-softmax, whose graph is kept between passes."""

    def __init__(self, cfg):
        super().__init__()
        self.x = nn.Parameter(torch.empty(cfg["rows"], cfg["vocab"]))
        self.register_buffer("target", torch.zeros(cfg["rows"], cfg["vocab"]))
        self.kept = []

    def forward(self):
        if not self.kept:
            self.kept.append(self.x.log_softmax(dim=-1))
        F.kl_div(self.kept[0], self.target, reduction="batchmean").backward(retain_graph=True)


KINDS = {"cross_entropy": Losses, "head": Head, "gated": Gated, "kl_div": Divergence}


def build(cfg):
    return KINDS[cfg["kind"]](cfg)


def batch(n):
    return torch.zeros(
        1, dtype=torch.uint8
    )  # a batch must hold a tensor; it is dropped before anything is made


def step(run):
    for one in run.micro_batches:
        del one
        run.model()
    return torch.zeros(())


def metric(model, batches):
    return 0.0
