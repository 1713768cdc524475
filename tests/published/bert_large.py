"""BERT-large for two classes as transformers of January 2022 had it, with that time's trainer around it.

Eager attention; gradients set to zero and kept; AdamW and Adafactor as that library wrote them; clipping to 1.
Args: ``checkpoint`` (recompute every layer), ``optimizer`` (adamw, adafactor), ``size`` (large, base).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

SIZES = {"large": (30522, 1024, 16, 24), "base-cased": (28996, 768, 12, 12)}


class Softmax(torch.autograd.Function):
    """As torch to 1.10 had it, which keeps the input for the backward too; later ones keep only its dtype."""

    @staticmethod
    def forward(ctx, x):
        result = torch.softmax(x, -1)
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        x, result = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grad, result, -1, x.dtype)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        flat = self.q(x)
        k = self.split(self.k(x))
        v = self.split(self.v(x))
        q = self.split(flat)
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / math.sqrt(q.shape[-1])
        scores = scores + mask
        weights = Softmax.apply(scores)
        weights = self.dropout(weights)
        mixed = torch.matmul(weights, v)
        mixed = mixed.permute(0, 2, 1, 3).contiguous()
        return mixed.view(*x.shape)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.mixed = Attention(width, heads), nn.Linear(width, width)
        self.norm1, self.dropout = nn.LayerNorm(width, 1e-12), nn.Dropout(0.1)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, 1e-12)

    def forward(self, x, mask):
        mixed = self.attention(x, mask)
        between = self.norm1(self.dropout(self.mixed(mixed)) + x)
        grown = self.inner(between)
        grown = F.gelu(grown.float())  # autocast of torch to 1.9 has GELU among what it makes fp32
        return self.norm2(self.dropout(self.outer(grown)) + between)


class Bert(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        vocab, width, heads, layers = SIZES[cfg.get("size", "large")]
        self.words, self.positions = nn.Embedding(vocab, width, padding_idx=0), nn.Embedding(512, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("places", torch.arange(512).expand((1, -1)))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2) if cfg.get("size", "large") == "large" else None
        self.recompute = cfg.get("checkpoint", False)
        self.adafactor = cfg.get("optimizer") == "adafactor"
        self.load_only = cfg.get("load_only", False)

    def forward(self, ids, labels):
        mask = (1.0 - torch.ones(ids.shape, device=ids.device)[:, None, None, :]) * -10000.0
        x = self.words(ids) + self.types(torch.zeros_like(ids))
        x += self.positions(self.places[:, : ids.shape[1]])
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=True) if self.recompute else layer(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        logits = self.classifier(self.dropout(pooled))
        return F.cross_entropy(logits.view(-1, 2), labels.view(-1))


class AdamW(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 5e-5})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                state["exp_avg"].mul_(0.9).add_(grad, alpha=0.1)
                state["exp_avg_sq"].mul_(0.999).addcmul_(grad, grad, value=0.001)
                root = state["exp_avg_sq"].sqrt().add_(1e-8)
                p.addcdiv_(state["exp_avg"], root, value=-group["lr"])


class Adafactor(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 5e-5})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad, self.state[p]
                if not state:
                    self.begin(state, grad)
                update = (grad**2) + 1e-30
                if len(grad.shape) >= 2:
                    row, column = state["row"], state["column"]
                    row.mul_(0.9).add_(update.mean(dim=-1), alpha=0.1)
                    column.mul_(0.9).add_(update.mean(dim=-2), alpha=0.1)
                    by_row = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
                    update = torch.mul(by_row, column.unsqueeze(-2).rsqrt())
                    update.mul_(grad)
                else:
                    state["exp_avg_sq"].mul_(0.9).add_(update, alpha=0.1)
                    update = state["exp_avg_sq"].rsqrt().mul_(grad)
                update.div_((update.norm(2) / update.numel() ** 0.5).clamp_(min=1.0))
                update.mul_(group["lr"])
                p.add_(-update)

    def begin(self, state, grad):
        if len(grad.shape) >= 2:
            state["row"] = torch.zeros(grad.shape[:-1]).to(grad)
            state["column"] = torch.zeros(grad.shape[:-2] + grad.shape[-1:]).to(grad)
        else:
            state["exp_avg_sq"] = torch.zeros_like(grad)


def build(cfg):
    return Bert(cfg)


def batch(n):
    return torch.randint(0, 30522, (n, 512)), torch.randint(0, 2, (n,))


def optimizer(model):
    return (Adafactor if model.adafactor else AdamW)(model.parameters())


def loss(model, batch):
    return model(*batch)


def step(run):
    if run.model.load_only:
        for one in run.micro_batches:
            del one
        return torch.zeros(())
    for batch in run.micro_batches:
        value = run.loss(batch)
        run.backward(value)
        del value, batch
    run.apply(run.optimizer)
    run.optimizer.zero_grad(set_to_none=False)


def metric(model, batches):
    return 0.0
