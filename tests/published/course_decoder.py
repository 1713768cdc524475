"""The decoder of a university course's second assignment, as its figures were measured: a workload of its own.

Untied tables, RMSNorm in fp32 before each part, rotary positions, SwiGLU without biases, attention written out
(scores, where, max, exp, sum), and an AdamW that makes new moments for each parameter in turn.  ``mode`` is train or
forward; the figures of forward were taken in inference mode.  B batch, H heads, T tokens, D width of a head.
"""

import math

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, width))

    def forward(self, ids):
        return self.weight[ids, :]


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        kept = x.dtype
        x = x.to(torch.float32)
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * root
        return (self.weight * x).to(kept)


class Rotary(nn.Module):
    def __init__(self, context, width):
        super().__init__()
        turns = torch.arange(context)[:, None] * 10000.0 ** -(torch.arange(0, width, 2) / width)
        self.register_buffer("table", torch.stack((torch.cos(turns), torch.sin(turns))), persistent=False)

    def forward(self, x):
        first, second = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2).permute(4, 0, 1, 2, 3).unbind(0)
        cos, sin = self.table[:, : x.size(-2), :].unbind(0)
        first_turned = cos * first - sin * second
        second_turned = sin * first + cos * second
        return torch.concat((first_turned, second_turned), dim=-1)


def softmax(x):
    shifted = x - torch.max(x, dim=-1, keepdim=True)[0]
    grown = torch.exp(shifted)
    return grown / torch.sum(grown, dim=-1, keepdim=True)


def attend(q_BHTD, k_BHTD, v_BHTD, mask):
    scores = torch.einsum("...qd,...kd->...qk", q_BHTD, k_BHTD) / math.sqrt(k_BHTD.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v_BHTD)


class Attention(nn.Module):
    def __init__(self, width, heads, rotary):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = Linear(width, width), Linear(width, width), Linear(width, width)
        self.out = Linear(width, width)
        self.rotary = rotary

    def forward(self, x):
        length = x.shape[1]
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        q, k, v = (one.reshape(*one.shape[:2], self.heads, -1).permute(0, 2, 1, 3) for one in (q, k, v))
        q = self.rotary(q)
        k = self.rotary(k)
        iota = torch.arange(length, device=x.device)
        mask = iota.reshape(length, 1) >= iota.reshape(1, length)
        mask = mask[None, ...]
        mixed = attend(q, k, v, mask)
        mixed = mixed.permute(0, 2, 1, 3).reshape(x.shape[0], length, -1).contiguous()
        return self.out(mixed)


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, inner), Linear(inner, width), Linear(width, inner)

    def forward(self, x):
        return self.w2(silu(self.w1(x)) * self.w3(x))


def silu(x):
    return x * torch.sigmoid(x)


class Block(nn.Module):
    def __init__(self, width, heads, inner, rotary):
        super().__init__()
        self.attention, self.inner = Attention(width, heads, rotary), SwiGLU(width, inner)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x):
        mixed = self.attention(self.norm1(x))
        between = x + mixed
        grown = self.inner(self.norm2(between))
        out = between + grown
        return out


class Decoder(nn.Module):
    def __init__(self, vocab, context, width, layers, heads, inner):
        super().__init__()
        self.table = Embedding(vocab, width)
        self.rotary = Rotary(context, width // heads)
        self.layers = nn.ModuleList(Block(width, heads, inner, self.rotary) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = Linear(width, vocab)

    def forward(self, ids):
        embedded = self.table(ids)  # alive to the end of the forward
        x = embedded
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x)


def cross_entropy(logits, targets):
    shifted = logits - torch.max(logits, dim=-1, keepdim=True)[0]
    negative = -(shifted - torch.log(torch.sum(torch.exp(shifted), dim=-1, keepdim=True)))
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


class AdamW(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state, rate = p.grad.data, self.state[p], group["lr"]
                one, two = group["betas"]
                t = state.get("t", 1)
                now = rate * (math.sqrt(1 - two**t) / (1 - one**t))
                p.data -= rate * group["decay"] * p.data
                old_m = state.get("m", torch.zeros_like(grad))
                old_v = state.get("v", torch.zeros_like(grad))
                m = one * old_m + ((1 - one) * grad)
                v = two * old_v + ((1 - two) * torch.square(grad))
                p.data -= now * m / (torch.sqrt(v) + group["eps"])
                state["m"], state["v"], state["t"] = m, v, t + 1


SIZES = {
    "small": {"width": 768, "layers": 12, "heads": 12, "inner": 3072},
    "medium": {"width": 1024, "layers": 24, "heads": 16, "inner": 4096},
    "2.7b": {"width": 2560, "layers": 32, "heads": 32, "inner": 10240},
}


def build(cfg):
    model = Decoder(10000, cfg["context"], **SIZES[cfg["size"]])
    model.mode = cfg["mode"]
    for place in range({"train": 2, "forward": 1, "load": 0}[cfg["mode"]]):
        ids = torch.zeros(
            5, 4, cfg["context"], dtype=torch.int64
        )  # of five steps before, which the program keeps
        model.register_buffer(f"warmup{place}", ids, persistent=False)
    return model


def batch(n, length, cfg):
    ids = torch.randint(0, 10000, (n, length))
    return (ids, torch.randint(0, 10000, (n, length))) if cfg["mode"] == "train" else (ids,)


def optimizer(model):
    return AdamW(model.parameters())


def loss(model, batch):
    return cross_entropy(model(batch[0]), batch[1])


def step(run):
    if run.model.mode == "load":
        for one in run.micro_batches:
            del one
        return torch.zeros(())
    if run.model.mode == "forward":
        run.model.eval()
        for (ids,) in run.micro_batches:
            with torch.inference_mode(), run.session.setting.context():
                run.model(ids)
        return torch.zeros(())
    run.zero_grad()
    for ids, targets in run.micro_batches:
        with run.session.setting.context():
            logits = run.model(ids)  # alive until the step is done, as in the program that was measured
            value = cross_entropy(logits, targets)
        run.backward(value)
    run.apply(run.optimizer)


def metric(model, batches):
    return 0.0
