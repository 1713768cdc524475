"""Reported faults of estimates of activations: one layer called a hundred times, weights at twice their size."""

from probe.helpers import Events, plan, run_here
from tui.probe.predict import point
from tui.probe.predict.semantics import Semantics

LOOP = """
import torch
from torch import nn
class Loop(nn.Module):
    def __init__(self, width, calls):
        super().__init__()
        self.layer, self.calls = nn.Linear(width, width), calls
    def forward(self, x):
        for _ in range(self.calls):
            x = self.layer(x)
        return x
def build(cfg): return Loop(cfg["width"], cfg["calls"])
def batch(n): return torch.zeros(n, WIDTH)
def loss(model, batch): return model(batch).sum()
"""
SGD = {"name": "torch.optim.SGD", "args": {"lr": 0.1}}


def workload(folder, width):
    (folder / "work.py").write_text(LOOP.replace("WIDTH", str(width)))


def predicted(folder, micro, width, calls):
    workload(folder, width)
    args = {"width": width, "calls": calls}
    made = plan("predict", "work.py", args, folder, micro=micro, optimizer=SGD, extra={"predict": {}})
    return point._phases(point.trace(made, Events(), Semantics()))


def kept(rows):
    """What the forward keeps for the backward: without the loss, which is its result."""
    return rows["input_batch"] + rows["retained_activations"] - 4


def test_e04_a_layer_that_is_called_100_times_keeps_100_inputs(tmp_path):
    assert kept(predicted(tmp_path, 16, 32, 100)["first.forward"]["rows"]) == 100 * 16 * 32 * 4 == 204_800


def test_e04_the_reported_loop_holds_101_tensors_and_one_layer(tmp_path):
    found = predicted(tmp_path, 10_240, 1024, 100)["first.forward"]
    assert found["requested_bytes"] == 4_240_445_440 + 4  # and the loss
    assert found["rows"]["weights"] == 4 * (1024 * 1024 + 1024)


def test_e04_a_measurement_counts_the_same_calls(tmp_path):
    workload(tmp_path, 32)
    args = {"width": 32, "calls": 100}
    found = run_here("traced", source="work.py", args=args, folder=tmp_path, micro=16, optimizer=SGD)
    assert kept(found.table("traced")["phases"]["first.forward"]["rows"]) == 204_800


def test_e06_weights_in_bf16_are_counted_as_they_are(tmp_path):
    (tmp_path / "work.py").write_text(
        "import torch\n"
        "def build(): return torch.nn.Linear(1000, 1000).to(torch.bfloat16)\n"
        "def batch(n): return torch.zeros(n, 1000, dtype=torch.bfloat16)\n"
        "def loss(model, batch): return model(batch).float().sum()\n"
    )
    counted = run_here("inventory", source="work.py", folder=tmp_path, precision="bf16").table("inventory")
    assert (counted["parameter_bytes"], counted["dtypes"]) == (2_002_000, {"bfloat16": 1_001_000})
    traced = run_here("traced", source="work.py", folder=tmp_path, optimizer=SGD, precision="bf16").table(
        "traced"
    )
    assert traced["phases"]["first.forward"]["rows"]["weights"] == 2_002_000
