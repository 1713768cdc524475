"""A decoder of 3.41 billion weights that a student wrote, rebuilt from the order of its recorded allocations.

Its layers multiply weights by transposed activations, as einsum of torch 2.6 does; rotary positions are written into
a new tensor, masks are filled, and AdamW works in place with one temporary.  ``mode`` is train or forward, whose
graph is kept until the next iteration.
"""

import math

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        out = torch.bmm(
            self.weight.unsqueeze(0), rows.t().unsqueeze(0)
        )  # what einsum of torch 2.6 makes of it
        return out.squeeze(0).t().view(*x.shape[:-1], -1)


class Embedding(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, width))

    def forward(self, ids):
        return self.weight[ids]


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.width = nn.Parameter(torch.ones(width)), width

    def forward(self, x):
        kept = x.dtype
        x = x.to(torch.float32)
        norm = torch.norm(x, dim=-1, keepdim=True)
        root = torch.sqrt(norm**2 / self.width + 1e-5)
        scaled = x / root
        out = torch.einsum("i,...i->...i", self.gain, scaled)
        return out.to(kept)


class Rotary(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        turns = torch.arange(context)[:, None] * 10000.0 ** -(torch.arange(0, width, 2) / width)
        self.register_buffer("cos", torch.cos(turns), persistent=False)
        self.register_buffer("sin", torch.sin(turns), persistent=False)

    def forward(self, x, positions):
        cos = self.cos[positions].unsqueeze(1)
        sin = self.sin[positions].unsqueeze(1)
        out = torch.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out


def softmax(x):
    top = torch.max(x, dim=-1, keepdim=True).values
    grown = torch.exp(x - top)
    total = torch.sum(grown, dim=-1, keepdim=True)
    return grown / total


def attend(q, k, v, mask):
    scores = torch.einsum("...qd,...kd->...qk", q, k)
    scores = scores / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(mask == False, -1e9)  # noqa: E712  the comparison makes a tensor
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v)


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = Linear(width, width), Linear(width, width), Linear(width, width)
        self.out = Linear(width, width)
        self.rotary = Rotary(context, width // heads)

    def forward(self, x):
        count, length, _ = x.shape
        q_flat = self.q(x)
        k_flat = self.k(x)
        v_flat = self.v(x)
        q, k, v = (
            one.reshape(count, length, self.heads, -1).transpose(1, 2) for one in (q_flat, k_flat, v_flat)
        )
        positions = torch.arange(length, device=x.device).unsqueeze(0).expand(count, -1)
        q = self.rotary(q, positions)
        k = self.rotary(k, positions)
        mask = torch.triu(torch.ones(length, length, device=x.device), diagonal=1).to(torch.bool)
        mask = ~mask
        mask = mask.unsqueeze(0).unsqueeze(0).expand(count, self.heads, -1, -1)
        mixed = attend(q, k, v, mask)
        mixed = mixed.transpose(1, 2).reshape(count, length, -1)
        return self.out(mixed)


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(inner, width), Linear(width, inner), Linear(inner, width)

    def forward(self, x):
        gate = self.w1(x)
        up = self.w3(x)
        gate = gate * torch.sigmoid(gate)
        return self.w2(gate * up)


class Block(nn.Module):
    def __init__(self, width, heads, inner, context):
        super().__init__()
        self.norm1, self.attention = RMSNorm(width), Attention(width, heads, context)
        self.norm2, self.inner = RMSNorm(width), SwiGLU(width, inner)

    def forward(self, x):
        h = self.norm1(x)
        h = self.attention(h)
        x = x + h
        h = self.norm2(x)
        h = self.inner(h)
        x = x + h
        return x


class Decoder(nn.Module):
    def __init__(self, vocab, context, width, layers, heads, inner):
        super().__init__()
        self.table = Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, heads, inner, context) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = Linear(vocab, width)

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x)


def cross_entropy(logits, targets):
    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    top = torch.max(logits, dim=-1, keepdim=True).values
    shifted = logits - top
    grown = torch.exp(shifted)
    total = torch.sum(grown, dim=-1)
    picked = shifted[torch.arange(targets.shape[0]), targets]
    losses = torch.log(total) - picked
    return losses.mean()


class AdamW(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "decay": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, (one, two) = self.state[p], group["betas"]
                if not state:
                    state["t"], state["m"], state["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                state["t"] += 1
                state["m"].mul_(one).add_(p.grad, alpha=1 - one)
                state["v"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                rate = group["lr"] * math.sqrt(1 - two ** state["t"]) / (1 - one ** state["t"])
                root = state["v"].sqrt() + group["eps"]
                p.addcdiv_(state["m"], root, value=-rate)
                p.mul_(1 - group["lr"] * group["decay"])


def build(cfg):
    model = Decoder(10000, cfg["context"], width=2560, layers=cfg.get("layers", 32), heads=32, inner=10240)
    model.mode, model.kept = cfg["mode"], []
    return model


def batch(n, length):
    return torch.randint(0, 10000, (n, length))


def optimizer(model):
    return AdamW(model.parameters())


def loss(model, batch):
    return cross_entropy(model(batch), batch)


def step(run):
    run.model.kept.clear()
    if run.model.mode == "forward":
        for ids in run.micro_batches:
            with run.session.setting.context():
                run.model.kept.append(run.model(ids))
        return torch.zeros(())
    run.zero_grad()
    for ids in run.micro_batches:
        with run.session.setting.context():
            logits = run.model(ids)
            value = cross_entropy(logits, ids)
        run.backward(value)
    run.apply(run.optimizer)


def metric(model, batches):
    return 0.0
