"""ViT-L/16 by torchvision's published structure; Adam after the backward, or in it, weight by weight (``within``)."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, 1e-6)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.0, batch_first=True)
        self.dropout, self.norm2 = nn.Dropout(0.0), nn.LayerNorm(width, 1e-6)
        self.inner = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(), nn.Dropout(0.0), nn.Linear(inner, width), nn.Dropout(0.0)
        )

    def forward(self, given):
        x = self.norm1(given)
        x, _ = self.attention(x, x, x, need_weights=False)
        x = self.dropout(x)
        x = x + given
        y = self.norm2(x)
        y = self.inner(y)
        return x + y


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 1024, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, 1024))
        self.positions = nn.Parameter(torch.zeros(1, 197, 1024))
        self.blocks = nn.Sequential(*(Block(1024, 16, 4096) for _ in range(24)))
        self.norm, self.head = nn.LayerNorm(1024, 1e-6), nn.Linear(1024, 1000)

    def forward(self, x):
        x = self.patches(x).reshape(x.shape[0], 1024, -1).permute(0, 2, 1)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.norm(self.blocks(x + self.positions))
        return self.head(x[:, 0])


class Within:
    """An optimizer that has stepped each weight as its gradient came, and dropped that."""

    def __init__(self, model):
        self.model = model
        self.each = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.take)

    def take(self, p):
        self.each[p].step()
        self.each[p].zero_grad()

    @property
    def state(self):
        return {p: one.state[p] for p, one in self.each.items()}

    @property
    def param_groups(self):
        return [group for one in self.each.values() for group in one.param_groups]

    def step(self):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def build(cfg):
    model = ViT()
    model.within = cfg.get("within", False)
    return model


def batch(n):
    return torch.randn(n, 3, 224, 224)


def optimizer(model):
    return Within(model) if model.within else torch.optim.Adam(model.parameters())


def loss(model, batch):
    return model(batch).sum()
