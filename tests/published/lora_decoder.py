"""Decoders of the NeoX and Llama kinds in bf16 whose queries and values are adapted by LoRA of rank 8, all else frozen.

The library's own way: one product makes queries, keys and values by head; the adapters' part of it goes through a
grouped convolution and is put among zeros for the keys; rotary tables are fp32; the head works on 128 tokens at a time;
the trainer makes the logits fp32 and keeps them until the next step.  Args: ``model`` of SIZES; the longest sample
comes first, so the figure is of the first step.
"""

import torch
import torch.nn.functional as F
from torch import nn

CHUNK, RANK = 128, 8
NEOX = {"llama": False, "bias": True, "parallel": True}
LLAMA = {"llama": True, "bias": False, "parallel": False, "vocab": 32000, "turned": 128, "head_bias": False}
SIZES = {
    "phi-1.5": NEOX
    | {"width": 2048, "heads": 32, "layers": 24, "inner": 8192, "vocab": 51200, "turned": 32}
    | {"one_norm": True, "head_bias": True, "gelu": "tanh"},
    "stablelm-alpha-3b": NEOX
    | {"width": 4096, "heads": 32, "layers": 16, "inner": 16384, "vocab": 50688, "turned": 32}
    | {"one_norm": False, "head_bias": False, "gelu": "none"},
    "llama-2-7b": LLAMA | {"width": 4096, "heads": 32, "layers": 32, "inner": 11008},
    "llama-2-13b": LLAMA | {"width": 5120, "heads": 40, "layers": 40, "inner": 13824},
}


def linear(inputs, outputs, bias):
    return nn.Linear(inputs, outputs, bias=bias, dtype=torch.bfloat16)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        square = torch.mean(x * x, dim=-1, keepdim=True)
        scaled = x * torch.rsqrt(square + 1e-5)
        return self.weight * scaled


class Adapted(nn.Module):
    """Queries, keys and values; the first and the last are adapted."""

    def __init__(self, width, bias):
        super().__init__()
        self.whole, self.dropout, self.width = linear(width, 3 * width, bias), nn.Dropout(0.05), width
        self.lora_a = nn.Parameter(torch.zeros(2 * RANK, width, dtype=torch.bfloat16))
        self.lora_b = nn.Parameter(torch.zeros(2 * width, RANK, dtype=torch.bfloat16))
        self.places = [*range(width), *range(2 * width, 3 * width)]

    def forward(self, x):
        whole = self.whole(x)
        down = F.linear(self.dropout(x), self.lora_a)
        up = F.conv1d(down.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        return whole + self.padded(up) * 2.0

    def padded(self, x):
        """(batch, tokens, 2 width) to (batch, tokens, 3 width)."""
        x = x.transpose(0, 1)
        among = x.new_zeros((*x.shape[:-1], 3 * self.width)).view(-1, 3 * self.width)
        places = torch.tensor(self.places, device=x.device)
        among = among.index_copy(1, places, x.reshape(-1, 2 * self.width))
        return among.view(*x.shape[:-1], 3 * self.width).transpose(0, 1)


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    swapped = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return ((x * cos) + (swapped * sin)).type_as(x)


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.turned = size["heads"], size["turned"]
        self.qkv = Adapted(size["width"], size["bias"])
        self.out = linear(size["width"], size["width"], size["bias"])

    def forward(self, x, cos, sin):
        rows, tokens, width = x.shape
        qkv = self.qkv(x)
        qkv = qkv.view(rows, tokens, self.heads, 3, width // self.heads).permute(0, 2, 3, 1, 4)
        q, k, v = (one.reshape(rows, -1, tokens, width // self.heads) for one in qkv.split(1, dim=2))
        turned_q = turn(q[..., : self.turned], cos, sin)
        turned_k = turn(k[..., : self.turned], cos, sin)
        q = torch.cat((turned_q, q[..., self.turned :]), dim=-1)
        k = torch.cat((turned_k, k[..., self.turned :]), dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        y = y.reshape(rows, tokens, width)
        return self.out(y)


class Inner(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, inner, self.gelu = size["width"], size["inner"], size.get("gelu")
        self.up = linear(width, inner, size["bias"])
        self.gate = linear(width, inner, size["bias"]) if size["llama"] else None
        self.down = linear(inner, width, size["bias"])

    def forward(self, x):
        if self.gate is None:
            x = self.up(x)
            x = F.gelu(x, approximate=self.gelu)
            return self.down(x)
        gate = self.gate(x)
        up = self.up(x)
        x = F.silu(gate) * up
        return self.down(x)


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm1, self.attention = norm(size), Attention(size)
        self.norm2 = None if size.get("one_norm") else norm(size)
        self.inner, self.parallel = Inner(size), size["parallel"]

    def forward(self, x, cos, sin):
        first = self.norm1(x)
        mixed = self.attention(first, cos, sin)
        if self.parallel:
            second = first if self.norm2 is None else self.norm2(x)
            return x + mixed + self.inner(second)
        x = x + mixed
        return x + self.inner(self.norm2(x))


def norm(size):
    return RMSNorm(size["width"]) if size["llama"] else nn.LayerNorm(size["width"], dtype=torch.bfloat16)


class Decoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.head = linear(size["width"], size["vocab"], size["head_bias"])
        self.table = nn.Embedding(size["vocab"], size["width"], dtype=torch.bfloat16)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size["layers"]))
        self.norm, self.turned = norm(size), size["turned"]
        self.turns, self.logits = [], []
        for name, p in self.named_parameters():
            p.requires_grad_("lora_" in name)

    def forward(self, ids):
        if not self.turns:  # made when the longest sample is known
            speed = 1.0 / (10000 ** (torch.arange(0, self.turned, 2, device=ids.device) / self.turned))
            angle = torch.outer(torch.arange(ids.shape[1], device=ids.device) / 1, speed).repeat(1, 2)
            self.turns += [torch.cos(angle), torch.sin(angle)]
        cos, sin = self.turns
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = self.norm(x)
        return [self.head(one) for one in x.split(CHUNK, dim=1)]


def chunked(logits, targets):
    rows = [one.reshape(-1, one.shape[-1]) for one in logits]
    wanted = [one.reshape(-1) for one in targets.split(logits[0].shape[1], dim=1)]
    parts = [
        F.cross_entropy(one, right, ignore_index=-1, reduction="none")
        for one, right in zip(rows, wanted, strict=True)
    ]
    return torch.cat(parts).mean()


def build(cfg):
    return Decoder(SIZES[cfg["model"]])


def batch(n, length):
    return torch.randint(0, 30000, (n, length)), torch.randint(0, 30000, (n, length))


def optimizer(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, weight_decay=0.01)


def step(run):
    kept = run.model.logits
    for ids, targets in run.micro_batches:
        made = run.model(ids)
        made = [one.float() for one in made]
        kept[:] = made
        del made
        kept[-1] = kept[-1][..., :-1, :]
        value = chunked(kept, targets[..., 1:])
        run.backward(value)
    run.apply(run.optimizer)
    run.zero_grad()
    return value.detach()


def metric(model, batches):
    return 0.0
