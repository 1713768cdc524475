"""GPT-2 124M as a book writes it from scratch: untied head, attention, norm and GELU by hand.

Args: ``mask`` (kept: an fp32 mask a layer, made: one for each forward), ``native`` (torch's norm and GELU).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, CONTEXT, WIDTH, HEADS, LAYERS, DROPOUT = 50257, 1024, 768, 12, 12, 0.1


class Attention(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(DROPOUT)
        if kept:
            self.register_buffer("mask", torch.triu(torch.ones(CONTEXT, CONTEXT), diagonal=1))

    def forward(self, x):
        count, length, _ = x.shape
        k = self.k(x)
        q = self.q(x)
        v = self.v(x)
        k, v, q = (one.view(count, length, HEADS, -1).transpose(1, 2) for one in (k, v, q))
        scores = q @ k.transpose(2, 3)
        if self.kept:
            mask = self.mask.bool()[:length, :length]
        else:
            mask = torch.triu(torch.ones(length, length, device=x.device), diagonal=1).bool()
        scores.masked_fill_(mask, -torch.inf)
        weights = torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1)
        weights = self.dropout(weights)
        mixed = (weights @ v).transpose(1, 2)
        mixed = mixed.reshape(count, length, WIDTH)
        mixed = self.out(mixed)
        return mixed


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, unbiased=False)
        normed = (x - mean) / torch.sqrt(var + 1e-5)
        return self.scale * normed + self.shift


class Gelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        native = cfg.get("native", False)
        self.attention = Attention(cfg["mask"] == "kept")
        gelu = nn.GELU(approximate="tanh") if native else Gelu()
        self.inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH))
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH) if native else Norm() for _ in range(2))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        shortcut = x
        x = self.norm1(x)
        x = self.attention(x)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.norm2(x)
        x = self.inner(x)
        x = self.dropout(x)
        x = x + shortcut
        return x


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block(cfg) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH) if cfg.get("native", False) else Norm()
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        tokens = self.tokens(ids)
        positions = self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = tokens + positions
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def build(cfg):
    return Model(cfg)


def batch(n):
    return torch.randint(0, VOCAB, (n, CONTEXT)), torch.randint(0, VOCAB, (n, CONTEXT))


def loss(model, batch):
    logits = model(batch[0])
    return F.cross_entropy(logits.flatten(0, 1), batch[1].flatten())
