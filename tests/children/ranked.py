"""A workload for several ranks, one of which may end in its own way: ``args = { fault = NAME }``."""

import os
import signal
import time

import torch
from torch import nn

CALLS = {"loss": 0}
FAULT = {"name": ""}
RANK = int(os.environ.get("RANK", "0"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(33, 129), nn.Linear(129, 33)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def build(cfg):
    FAULT["name"] = cfg.get("fault", "")
    return nn.Sequential(*[Block() for _ in range(3)], nn.Linear(33, 5))


def batch(n, index):
    return {"input": torch.full((n, 33), float(index + 1)), "index": torch.tensor([index])}


def loss(model, batch):
    CALLS["loss"] += 1
    if RANK == 1 and CALLS["loss"] == 2:  # within the first iteration of two micro-batches
        _fail()
    return model(batch["input"]).square().mean()


def _fail():
    if FAULT["name"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT["name"] == "raises":
        raise ValueError("row 7 is not there")
    if FAULT["name"] == "memory":
        torch.empty(1 << 50)
    if FAULT["name"] == "hangs":
        time.sleep(1000)
