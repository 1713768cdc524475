"""Programs that speak of a GPU, traced where there is none: what is on the host does not count."""

import pytest

from probe.helpers import run_here

TEXT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(256, 256)

    def forward(self, x):
        x = self.first(x)
{forward}
        return x.float().pow(2).mean()

def build():
    return Net()

def batch(n):
    return torch.randn(n, 256)
"""
BLOCK = 1024 * 1024 * 4
"""Bytes of the square that the lines below make."""


def forward_peak(folder, *lines):
    """Requested bytes at the peak of the steady forward of a net with these lines, the block kept to its end."""
    text = "\n".join("        " + line for line in lines or ("pass",))
    (folder / "workload.py").write_text(TEXT.format(forward=text))
    asked = {"semantics": "cuda", "points": [{"micro": 4, "accumulate": 1, "length": None}]}
    events = run_here("predict", source="workload.py", folder=folder, extra={"predict": asked})
    return events.table("predicted")["phases"]["forward"]["requested_bytes"]


@pytest.mark.parametrize(
    ("lines", "blocks"),
    [
        (["y = torch.zeros(1024, 1024)"], 0),
        (["y = torch.zeros(1024, 1024); z = y + 1"], 0),
        (["y = torch.zeros(1024, 1024, device='cpu')"], 0),
        (["y = torch.zeros(1024, 1024, device='cuda')"], 1),
        (["y = torch.zeros(1024, 1024, device=x.device)"], 1),
        (["y = torch.zeros(1024, 1024).to(x.device)"], 1),
        (["y = torch.zeros(1024, 1024).cuda()"], 1),
        (["y = torch.zeros(1024, 1024).to(x)"], 1),
        (["y = torch.zeros(1024, 1024, device=x.device).cpu()"], 1),
        (["y = torch.zeros(1024, 1024, device=x.device); z = y.to('cuda')"], 1),
        (["y = torch.zeros(1024, 1024).pin_memory()"], 0),
        (["y = torch.zeros(1024, 1024, pin_memory=True).to('cuda', non_blocking=True)"], 1),
        (["y = x.new_zeros(1024, 1024)"], 1),
        (["with torch.device('cuda'): y = torch.zeros(1024, 1024)"], 1),
        (["y = torch.zeros(1024, 1024, device=x.device) * torch.tensor(3.0)"], 2),
    ],
)
def test_a_tensor_counts_where_the_program_puts_it(tmp_path, lines, blocks):
    plain = forward_peak(tmp_path)
    assert round((forward_peak(tmp_path, *lines) - plain) / BLOCK) == blocks


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.synchronize(); torch.cuda.empty_cache()",
        "assert torch.cuda.is_available() and torch.cuda.device_count() == 1",
        "assert torch.cuda.memory_allocated() >= 256 * 256 * 4",
        "torch.cuda.current_stream().wait_stream(torch.cuda.Stream())",
        "assert torch.cuda.get_device_capability() == (8, 0)",
    ],
)
def test_questions_to_cuda_are_answered(tmp_path, line):
    assert forward_peak(tmp_path, line) == forward_peak(tmp_path)


@pytest.mark.parametrize(
    "spelled", ["torch.autocast('cuda', dtype=torch.bfloat16)", "torch.autocast('cuda')"]
)
def test_autocast_for_cuda_casts(tmp_path, spelled):
    assert forward_peak(tmp_path, f"with {spelled}: y = self.first(x)", "assert y.element_size() == 2")


def test_an_optimizers_step_counters_are_on_the_host(tmp_path):
    (tmp_path / "workload.py").write_text(TEXT.format(forward="        pass"))
    asked = {"semantics": "cuda", "points": [{"micro": 4, "accumulate": 1, "length": None}]}
    found = run_here("predict", source="workload.py", folder=tmp_path, extra={"predict": asked})
    rows = found.table("predicted")["phases"]["backward"]["rows"]
    assert rows["optimizer_state"] == 2 * 4 * (256 * 256 + 256)
