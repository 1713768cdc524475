"""Workloads that are wrong, each in one way, and the command that finds out."""

from __future__ import annotations

MODEL = """\
import torch

def build(cfg):
    return torch.nn.Linear(4, 2)
"""
BATCH = """\
def batch(n):
    return {"input": torch.ones(n, 4)}
"""
LOSS = """\
def loss(model, batch):
    return model(**batch).square().mean()
"""
PROBE = ("probe", "--iterations", "5", "--warmup", "2")
PARAMS = ("params",)

WORKLOADS: dict[str, tuple[tuple[str, ...], str]] = {
    "syntax": (PARAMS, "import torch\n\ndef build(cfg:\n"),
    "raises": (PARAMS, "import torch\nraise ValueError('no data at /data')\n"),
    "no_module": (PARAMS, "import torch\nimport module_that_is_not_there\n"),
    "no_batch": (PARAMS, MODEL),
    "exits": (PARAMS, "import sys\nsys.exit(3)\n"),
    "other_n": (PROBE, MODEL + LOSS + "def batch(n):\n    return {'input': torch.ones(n // 2, 5)}\n"),
    "forward": (
        PROBE,
        BATCH + LOSS + "import torch\n\nclass Model(torch.nn.Linear):\n    def forward(self, input):\n"
        "        print('x' * 4_000_000)\n        raise RuntimeError('shapes [4, 4] and [3, 2]')\n\n"
        "def build(cfg):\n    return Model(4, 2)\n",
    ),
    "exits_in_loss": (PROBE, MODEL + BATCH + "def loss(model, batch):\n    raise SystemExit(0)\n"),
    "nan": (
        PROBE,
        MODEL + BATCH + "calls = 0\n\ndef loss(model, batch):\n    global calls\n"
        "    calls += model.training\n    found = model(**batch).square().mean()\n"
        "    return found * float('nan') if calls > 4 else found\n",
    ),
}
