"""A small decoder that another student wrote, rebuilt from the order of its recorded allocations: forward only."""

import math

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.width = nn.Parameter(torch.ones(width)), width

    def forward(self, x):
        mean = torch.einsum("...i,...i->...", x, x)
        mean = mean / self.width + 1e-5
        root = torch.sqrt(mean)
        return x / root.unsqueeze(-1) * self.gain


class Rotary(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        turns = torch.arange(context)[:, None] * 10000.0 ** -(torch.arange(0, width, 2) / width)
        turns = turns.repeat_interleave(2, -1)
        self.register_buffer("cos", torch.cos(turns), persistent=False)
        self.register_buffer("sin", torch.sin(turns), persistent=False)

    def forward(self, x, positions):
        cos = self.cos[positions]
        sin = self.sin[positions]
        return x * cos + turned(x) * sin


def turned(x):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return torch.stack((-pairs[..., 1], pairs[..., 0]), dim=-1).reshape(x.shape)


def softmax(x):
    top = torch.max(x, dim=-1, keepdim=True)[0]
    grown = torch.exp(x - top)
    total = torch.sum(grown, dim=-1, keepdim=True)
    return grown / total


def attend(q, k, v, mask):
    scores = torch.einsum("...qd,...kd->...qk", q, k)
    scores = scores / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v)


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads, self.rotary = heads, Rotary(context, width // heads)
        self.q, self.k, self.v = Linear(width, width), Linear(width, width), Linear(width, width)
        self.out = Linear(width, width)

    def forward(self, x, positions):
        count, length, _ = x.shape
        q, k, v = (
            one(x).reshape(count, length, self.heads, -1).transpose(1, 2) for one in (self.q, self.k, self.v)
        )
        q = self.rotary(q, positions)
        k = self.rotary(k, positions)
        mask = torch.tril(torch.ones(length, length, device=x.device)).bool()
        mixed = attend(q, k, v, mask)
        joined = mixed.transpose(1, 2).reshape(count, length, -1)
        return self.out(joined)


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, inner), Linear(inner, width), Linear(width, inner)

    def forward(self, x):
        gate = self.w1(x)
        up = self.w3(x)
        return self.w2(gate * torch.sigmoid(gate) * up)


class Block(nn.Module):
    def __init__(self, width, heads, inner, context):
        super().__init__()
        self.norm1, self.attention = RMSNorm(width), Attention(width, heads, context)
        self.norm2, self.inner = RMSNorm(width), SwiGLU(width, inner)

    def forward(self, x, positions):
        first = self.norm1(x)
        mixed = self.attention(first, positions)
        between = x + mixed
        second = self.norm2(between)
        grown = self.inner(second)
        return between + grown


class Decoder(nn.Module):
    def __init__(self, vocab, context, width, layers, heads, inner):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocab, width))
        self.layers = nn.ModuleList(Block(width, heads, inner, context) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = Linear(width, vocab)

    def forward(self, ids):
        x = self.table[ids]
        positions = torch.arange(ids.shape[1], device=ids.device)
        for layer in self.layers:
            x = layer(x, positions)
        x = self.norm(x)
        return self.head(x)


def build(cfg):
    return Decoder(10000, 128, width=768, layers=12, heads=12, inner=3072)


def batch(n):
    return torch.randint(0, 10000, (n, 128))


def step(run):
    for ids in run.micro_batches:
        with torch.no_grad():
            run.model(ids)
    return torch.zeros(())


def metric(model, batches):
    return 0.0
