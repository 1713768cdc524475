"""Models of many kinds for the account of a traced iteration: small enough for two cores, wide enough to be real.

Each is a ``Kind``: a family of ours, a Hugging Face configuration, or a workload file as a user writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"
IMAGES = """
def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randint(0, 10, (n,))

def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])
"""
TEXT = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {
    **TEXT,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 128,
    "head_dim": 16,
}


@dataclass(frozen=True)
class Kind:
    """One model with its batch; exactly one of ``family``, ``config`` and ``text`` is given."""

    name: str
    family: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    micro: int = 4
    length: int | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Further shorthands of ``probe.helpers.plan``."""

    @property
    def of(self) -> str:
        """Where the model comes from, for people."""
        return "family" if self.family else "transformers" if self.config else "plain torch"

    def plan(self, folder: Path) -> dict[str, Any]:
        """Arguments of ``probe.helpers.run_here``; writes what it needs into ``folder``."""
        source = self.family
        if self.config:
            source = "config.json"
            (folder / source).write_text(json.dumps(self.config))
        elif self.text:
            source = "workload.py"
            (folder / source).write_text(HEAD + self.text)
        return {
            "source": source,
            "args": self.args,
            "folder": folder,
            "micro": self.micro,
            "length": self.length,
            **self.more,
        }


LSTM = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 64)
        self.rnn = nn.LSTM(64, 64, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(64, 256)

    def forward(self, ids):
        return self.head(self.rnn(self.table(ids))[0])

def build():
    return Net()

def batch(n):
    return torch.randint(0, 256, (n, 33))

def loss(model, batch):
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
"""
GRU = (
    LSTM.replace("nn.LSTM", "nn.GRU")
    .replace("dropout=0.1", "bidirectional=True")
    .replace("self.head = nn.Linear(64", "self.head = nn.Linear(128")
)
UNET = """
def double(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU()
    )

class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = double(3, 16), double(16, 32), double(32, 64)
        self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.join2, self.join1, self.out = double(64, 32), double(32, 16), nn.Conv2d(16, 3, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.join2(torch.cat((self.up2(c), b), 1))
        return self.out(self.join1(torch.cat((self.up1(b), a), 1)))

def build():
    return UNet()

def batch(n):
    return torch.randn(n, 3, 32, 32), torch.randn(n, 3, 32, 32)

def loss(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])
"""
VIT = (
    """
class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 64, 4, 4)
        self.cls, self.positions = nn.Parameter(torch.zeros(1, 1, 64)), nn.Parameter(torch.zeros(1, 65, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True, dropout=0.1)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.blocks(x)[:, 0])

def build():
    return ViT()
"""
    + IMAGES
)
MOE = """
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(4)
        )

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            row, place = (chosen == index).nonzero(as_tuple=True)
            out.index_add_(0, row, expert(x[row]) * weight[row, place, None])
        return out

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.first, self.second = nn.Embedding(256, 64), Experts(), Experts()

    def forward(self, ids):
        x = self.table(ids).flatten(0, 1)
        x = x + self.first(x)
        return F.linear(x + self.second(x), self.table.weight)

def build():
    return Net()

def batch(n):
    return torch.randint(0, 256, (n, 33))

def loss(model, batch):
    return F.cross_entropy(model(batch[:, :-1]), batch[:, 1:].flatten())
"""
GAN = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 256), nn.Tanh())
        self.d = nn.Sequential(nn.Linear(256, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))

class Optimizers:
    def __init__(self, model):
        self.g, self.d = torch.optim.Adam(model.g.parameters()), torch.optim.Adam(model.d.parameters())
        self.state = {}

    def step(self):
        self.g.step()
        self.d.step()

    def zero_grad(self, set_to_none=True):
        self.g.zero_grad(set_to_none)
        self.d.zero_grad(set_to_none)

def build():
    return Both()

def batch(n):
    return torch.randn(n, 256)

def optimizer(model):
    return Optimizers(model)

def metric(model, batches):
    return sum(model.d(batch).mean() for batch in batches)

def step(run):
    for real in run.micro_batches:
        noise = torch.randn(len(real), 32)
        fake = run.model.g(noise)
        run.zero_grad()
        verdict = run.model.d(real), run.model.d(fake.detach())
        run.backward(F.softplus(-verdict[0]).mean() + F.softplus(verdict[1]).mean())
        run.apply(run.optimizer.d)
        run.zero_grad()
        run.backward(F.softplus(-run.model.d(fake)).mean())
        run.apply(run.optimizer.g)
"""
RESNET = (
    """
class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.p, self.q, self.skip = nn.BatchNorm2d(o), nn.BatchNorm2d(o), nn.Conv2d(i, o, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.p(self.a(x)), inplace=True)
        return F.relu(self.q(self.b(y)).add_(self.skip(x)), inplace=True)

class Net(nn.Sequential):
    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))

def build():
    parts = Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
    net = Net(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return net.to(memory_format=torch.channels_last)
"""
    + IMAGES
)
WAVES = """
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(1, 32, 9, padding=4))
        self.second = weight_norm(nn.Conv1d(32, 32, 9, padding=8, dilation=2))
        self.third = spectral_norm(nn.Conv1d(32, 1, 9, padding=4))

    def forward(self, x):
        return self.third(F.leaky_relu(self.second(F.leaky_relu(self.first(x), 0.1)), 0.1))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 1, 512)

def loss(model, batch):
    return F.l1_loss(model(batch), batch)
"""
FOURIER = """
class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16, 8, 8, dtype=torch.cfloat) / 16)

    def forward(self, x):
        f = torch.fft.rfft2(x)
        out = torch.zeros_like(f)
        out[..., :8, :8] = torch.einsum("bihw,iohw->bohw", f[..., :8, :8], self.weight)
        return torch.fft.irfft2(out, s=x.shape[-2:])

class Operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.a, self.b, self.out = nn.Conv2d(1, 16, 1), Spectral(), Spectral(), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        x = self.lift(x)
        x = F.gelu(x + self.a(x))
        return self.out(x + self.b(x))

def build():
    return Operator()

def batch(n):
    return torch.randn(n, 1, 32, 32), torch.randn(n, 1, 32, 32)

def loss(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])
"""
GRAPH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, features, edges):
        nodes = features.flatten(0, 1)
        offset = 64 * torch.arange(len(edges))[:, None, None]
        places = (edges + offset).transpose(0, 1).flatten(1)
        graph = torch.sparse_coo_tensor(places, torch.ones(places.shape[1]), (len(nodes), len(nodes)))
        x = F.relu(torch.sparse.mm(graph, self.a(nodes)))
        return torch.sparse.mm(graph, self.b(x))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 64, 32), torch.randint(0, 64, (n, 2, 512)), torch.randint(0, 8, (n, 64))

def loss(model, batch):
    return F.cross_entropy(model(batch[0], batch[1]), batch[2].flatten())
"""
CLICKS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.EmbeddingBag(2000, 32, mode="sum", sparse=True)
        self.users = nn.Embedding(500, 32, sparse=True)

    def forward(self, users, items):
        return (self.users(users) * self.items(items)).sum(-1)

def build():
    return Net()

def batch(n):
    return torch.randint(0, 500, (n,)), torch.randint(0, 2000, (n, 8)), torch.rand(n)

def loss(model, batch):
    return F.binary_cross_entropy_with_logits(model(batch[0], batch[1]), batch[2])

def optimizer(model):
    return torch.optim.SparseAdam(model.parameters())
"""
PENALTY = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 1)

    def forward(self, x):
        return self.c(F.softplus(self.b(F.softplus(self.a(x)))))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 64)

def loss(model, batch):
    if not torch.is_grad_enabled():
        return model(batch).mean()
    x = batch.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()
"""
PER_SAMPLE = """
from torch.func import functional_call, grad_and_value, vmap

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 32), torch.randint(0, 8, (n,))

def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])

def step(run):
    def one(weights, x, y):
        return F.cross_entropy(functional_call(run.model, weights, (x[None],)), y[None])

    for x, y in run.micro_batches:
        weights = {name: value.detach() for name, value in run.model.named_parameters()}
        found, losses = vmap(grad_and_value(one), in_dims=(None, 0, 0))(weights, x, y)
        for name, value in run.model.named_parameters():
            value.grad = found[name].clamp(-1, 1).mean(0)
        run.losses.append(losses.mean())
        run.apply(run.optimizer)
"""

DECODER = {"layers": 2, "heads": 4, "width": 64, "vocab": 256, "context": 64}

KINDS = (
    Kind("GPT-2-like decoder", "decoder", args=DECODER),
    Kind(
        "Llama-like decoder",
        "decoder",
        args={
            **DECODER,
            "kv_heads": 2,
            "norm": "rmsnorm",
            "positions": "rotary",
            "gated": True,
            "bias": False,
        },
    ),
    Kind("mixture of experts", "decoder", args={**DECODER, "experts": 4, "top_k": 2, "expert_hidden": 64}),
    Kind("low-rank adapters", "decoder", args={**DECODER, "lora_rank": 4}),
    Kind("encoder", "encoder", args={"layers": 2, "heads": 4, "width": 64, "vocab": 256, "context": 64}),
    Kind("convnet", "convnet", args={"channels": [16, 32], "size": 32}),
    Kind("mlp", "mlp", args={"inputs": 64, "hidden": [256, 256], "outputs": 10}, micro=64),
    Kind(
        "GPT-2",
        config={
            "model_type": "gpt2",
            "n_embd": 64,
            "n_head": 4,
            "n_layer": 2,
            "n_positions": 128,
            "vocab_size": 512,
        },
        length=64,
    ),
    Kind("Llama", config={"model_type": "llama", **GROUPED}, length=64),
    Kind("Qwen 3", config={"model_type": "qwen3", **GROUPED}, length=64),
    Kind("Gemma 2", config={"model_type": "gemma2", "sliding_window": 32, **GROUPED}, length=64),
    Kind(
        "Mixtral",
        config={"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, **GROUPED},
        length=64,
    ),
    Kind(
        "Mamba",
        config={"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 512},
        length=16,
    ),
    Kind("BERT", config={"model_type": "bert", "vocab_size": 512, **TEXT}, length=64),
    Kind(
        "DistilBERT",
        config={
            "model_type": "distilbert",
            "dim": 64,
            "n_heads": 4,
            "n_layers": 2,
            "hidden_dim": 128,
            "vocab_size": 512,
        },
        length=64,
    ),
    Kind(
        "T5",
        config={
            "model_type": "t5",
            "vocab_size": 512,
            "d_model": 64,
            "d_ff": 128,
            "d_kv": 16,
            "num_layers": 2,
            "num_heads": 4,
        },
        length=64,
    ),
    Kind("ViT", config={"model_type": "vit", "image_size": 32, "patch_size": 4, **TEXT}),
    Kind(
        "ConvNeXt",
        config={
            "model_type": "convnext",
            "image_size": 32,
            "hidden_sizes": [16, 32, 64, 64],
            "depths": [1, 1, 2, 1],
        },
    ),
    Kind(
        "ResNet",
        config={
            "model_type": "resnet",
            "embedding_size": 16,
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "layer_type": "basic",
        },
        length=None,
    ),
    Kind("two-layer LSTM", text=LSTM, micro=8),
    Kind("bidirectional GRU", text=GRU, micro=8),
    Kind("U-Net", text=UNET),
    Kind("nn.TransformerEncoder ViT", text=VIT),
    Kind("routed experts by index_add", text=MOE),
    Kind("GAN with its own step", text=GAN, micro=32),
    Kind("channels-last ResNet", text=RESNET, micro=8),
    Kind("weight_norm and spectral_norm", text=WAVES),
    Kind("Fourier operator, complex weights", text=FOURIER),
    Kind("sparse graph convolution", text=GRAPH),
    Kind("sparse embeddings", text=CLICKS, micro=256),
    Kind("gradient penalty, double backward", text=PENALTY, micro=64),
    Kind("per-sample gradients by torch.func", text=PER_SAMPLE, micro=16),
)
"""All of them, in the order of the table."""


def kind(name: str) -> Kind:
    """The one of that name."""
    return next(one for one in KINDS if one.name == name)
