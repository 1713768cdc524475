"""What hangs on parameters since they were made: hooks and attributes, with values and without."""

import pytest

from probe.helpers import run_here
from tui.probe.faults import TaskError

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))

    def forward(self, x):
        return self.layers(x).pow(2).mean()

def batch(n):
    return torch.randn(n, 64)

def build():
    net = Net()
{build}
    return net
"""
IN_BACKWARD = """
    for one in net.parameters():
        one.own = torch.optim.SGD([one], lr=0.1)
        def step(parameter):
            parameter.own.step()
            parameter.own.zero_grad()
        one.register_post_accumulate_grad_hook(step)
"""
SCALED = """
    for one in net.parameters():
        one.register_hook(lambda gradient: gradient * 2)
"""
READS_VALUES = "    nn.Linear(int(torch.ones(1).item()), 1)\n"
"""So that it is built for real first."""
OWN_STEP = """
def step(run):
    for batch in run.micro_batches:
        run.backward(run.loss(batch))
"""


def peaks(folder, text, semantics=None):
    (folder / "workload.py").write_text(text)
    kwargs = {"source": "workload.py", "folder": folder, "micro": 16}
    if semantics is None:
        found = run_here("traced", **kwargs).table("traced")
    else:
        asked = {"semantics": semantics, "points": [{"micro": 16, "accumulate": 1, "length": None}]}
        found = run_here("predict", extra={"predict": asked}, **kwargs).table("predicted")
    return {name: peak["requested_bytes"] for name, peak in found["phases"].items()}


@pytest.mark.parametrize(("hooks", "more"), [(IN_BACKWARD, OWN_STEP), (SCALED, "")])
def test_hooks_that_build_registers_run_without_values_too(tmp_path, hooks, more):
    text = HEAD.format(build=hooks) + more
    real, found = peaks(tmp_path, text), peaks(tmp_path, text, "cpu")
    for phase in ("first.backward", "backward"):
        assert abs(found[phase] - real[phase]) <= 64, phase


@pytest.mark.parametrize("hooks", [IN_BACKWARD, SCALED])
def test_hooks_on_a_model_that_must_be_built_for_real_are_refused(tmp_path, hooks):
    with pytest.raises(TaskError, match="needs values and registers hooks"):
        peaks(tmp_path, HEAD.format(build=READS_VALUES + hooks) + OWN_STEP, "cpu")


@pytest.mark.parametrize("semantics", ["cpu", "cuda"])
@pytest.mark.parametrize("values", ["", READS_VALUES])
def test_attributes_of_parameters_are_there_when_the_optimizer_is_made(tmp_path, semantics, values):
    build = values + "    for one in net.parameters():\n        one.no_decay = one.dim() < 2\n"
    own = (
        "\ndef optimizer(model):\n"
        "    split = [[one for one in model.parameters() if one.no_decay == flag] for flag in (True, False)]\n"
        "    return torch.optim.AdamW([{'params': one} for one in split])\n"
    )
    assert peaks(tmp_path, HEAD.format(build=build) + own, semantics)["step"] > 0


def test_the_old_weight_norm_is_traced(tmp_path):
    build = "    torch.nn.utils.weight_norm(net.layers[0]); torch.nn.utils.spectral_norm(net.layers[2])\n"
    real, found = (peaks(tmp_path, HEAD.format(build=build), kind) for kind in (None, "cpu"))
    assert abs(found["backward"] - real["backward"]) <= 64
