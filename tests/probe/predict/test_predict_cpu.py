"""A trace without values against the CPU's own allocator, phase by phase, row by row."""

import json

import pytest

from probe.helpers import run_here

SMALL = {"layers": 2, "heads": 2, "width": 64, "vocab": 256, "context": 64}
NUMBERS = 64
"""Bytes of Python numbers that CPU kernels turn into tensors of 8 bytes, and casts of those: no operator shows them."""
OF_NUMBERS = ("step_temporaries", "retained_activations", "unattributed")
SETTINGS = {
    "accumulation": {"accumulate": 3},
    "checkpointing and clipping": {"checkpoint": ["Block"], "clip": 1.0},
    "bf16 autocast": {"precision": "bf16-autocast"},
    "fp16 autocast with its scaler": {"precision": "fp16-autocast", "accumulate": 2},
    "bf16": {"precision": "bf16"},
    "fused AdamW": {"optimizer": {"implementation": "fused"}},
    "foreach AdamW": {"optimizer": {"implementation": "foreach"}},
    "RMSprop": {"optimizer": {"name": "torch.optim.RMSprop", "args": {}}},
    "Adafactor": {"optimizer": {"name": "torch.optim.Adafactor", "args": {"lr": 0.1}}},
    "dropout": {"args": {**SMALL, "dropout": 0.1}},
    "low-rank adapters": {"args": {**SMALL, "lora_rank": 4}},
    "tokens weighted": {"accumulate": 2, "weight_by": "tokens", "tokens": "labels", "batch": True},
}
OWN_BATCH = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 32)
        self.head = nn.Linear(32, 64)

    def forward(self, ids, labels):
        return nn.functional.cross_entropy(self.head(self.table(ids)).flatten(0, 1), labels.flatten())

def build():
    return Net()

def batch(n, index):
    whole = torch.randint(0, 64, (n, 33), generator=torch.Generator().manual_seed(index))
    return {"ids": whole[:, :-1], "labels": whole[:, 1:]}
"""


def predicted(**more):
    """The ``predicted`` table of a small workload on the CPU."""
    points = [
        {"micro": more.get("micro", 4), "accumulate": more.get("accumulate", 1), "length": more.get("length")}
    ]
    asked = {"semantics": "cpu", "points": points}
    return run_here("predict", extra={"predict": asked}, **more).table("predicted")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_row_of_every_phase_is_what_the_cpu_allocates(name, tmp_path):
    kwargs = {"source": "decoder", "args": SMALL, "micro": 4, "length": 64, **SETTINGS[name]}
    if kwargs.pop("batch", False):
        (tmp_path / "workload.py").write_text(OWN_BATCH)
        kwargs.update(source="workload.py", args={}, folder=tmp_path, length=None)
    run_here("traced", **kwargs)  # what the workload makes once and keeps is there from now on
    real = run_here("traced", **kwargs).table("traced")["phases"]
    found = predicted(**kwargs)["phases"]
    assert list(found) == list(real)
    for phase, peak in real.items():
        expected, rows = dict(peak["rows"]), dict(found[phase]["rows"])
        assert sum(rows.values()) == found[phase]["requested_bytes"]
        scratch = expected.pop("operator_scratch", 0)  # inside kernels: another instant may be the highest
        if scratch > NUMBERS:
            assert found[phase]["requested_bytes"] <= peak["requested_bytes"]
            continue
        rows.pop("operator_scratch", None)
        for row in {*expected, *rows}:
            slack = NUMBERS if row in OF_NUMBERS else 0
            assert abs(rows.get(row, 0) - expected.get(row, 0)) <= slack, (phase, row)


def births_and_deaths(path):
    """Sizes as they are made (+) and freed (-) in each phase of the steady iteration, but for kernels' scratch."""
    table = json.loads(path.read_text())
    changes = {}
    for born, died, size, row, *_ in table["storages"]:
        if table["strings"][row] in ("operator_scratch", "input_batch") or size <= NUMBERS:
            continue
        changes.setdefault(born, []).append(size)
        if died is not None:
            changes.setdefault(died, []).append(-size)
    return [
        (phase, micro, [size for event in range(first, last) for size in changes.get(event, ())])
        for phase, micro, first, last in table["phases"]
    ]


@pytest.mark.parametrize("name", ["accumulation", "checkpointing and clipping", "dropout"])
def test_storages_are_made_and_freed_in_the_order_of_the_cpus_own_record(name, tmp_path):
    kwargs = {"source": "decoder", "args": SMALL, "micro": 4, "length": 64, **SETTINGS[name]}
    run_here("traced", journal=tmp_path / "real.jsonl", **kwargs)
    predicted(journal=tmp_path / "predicted.jsonl", **kwargs)
    real = births_and_deaths(tmp_path / "real.timeline.json")
    assert sum(len(sizes) for _, _, sizes in real) > 200
    assert births_and_deaths(tmp_path / "predicted.timeline.json") == real


def test_a_batch_whose_tensors_share_a_storage_counts_it_once_on_the_cpu(tmp_path):
    (tmp_path / "workload.py").write_text(OWN_BATCH)
    found = predicted(source="workload.py", folder=tmp_path)
    assert found["phases"]["forward"]["rows"]["input_batch"] == 4 * 33 * 8


def test_on_a_gpu_each_tensor_of_a_batch_is_a_copy_of_its_own(tmp_path):
    (tmp_path / "workload.py").write_text(OWN_BATCH)
    asked = {"semantics": "cuda", "points": [{"micro": 4, "accumulate": 1, "length": None}]}
    events = run_here("predict", source="workload.py", folder=tmp_path, extra={"predict": asked})
    assert events.table("predicted")["phases"]["forward"]["rows"]["input_batch"] == 2 * 4 * 32 * 8


def test_nothing_is_said_of_an_allocator_that_the_cpu_does_not_have():
    found = predicted(source="mlp")
    assert found["phases"]["backward"]["allocated_bytes"] is None
    assert "caching allocator" in found["unknown"]["allocated_bytes"]


RECOMPUTED = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant={reentrant}, preserve_rng_state={preserve})
        return x.pow(2).mean()

def build():
    return Net()

def batch(n):
    return torch.randn(n, 64)
"""


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("preserve", [True, False])
def test_both_kinds_of_checkpointing_recompute_as_with_values(reentrant, preserve, tmp_path):
    (tmp_path / "workload.py").write_text(RECOMPUTED.format(reentrant=reentrant, preserve=preserve))
    kwargs = {"source": "workload.py", "folder": tmp_path, "micro": 128}
    run_here("traced", journal=tmp_path / "real.jsonl", **kwargs)
    predicted(journal=tmp_path / "predicted.jsonl", **kwargs)
    real, found = (births_and_deaths(tmp_path / f"{name}.timeline.json") for name in ("real", "predicted"))
    assert sorted(found[1][2]) == sorted(real[1][2])
    assert found == real
