"""The traced task in this process: rows add up, what is not attributed is small, and totals are those by hand."""

import pytest

from probe.helpers import DECODER, run_here

SGD = {"name": "torch.optim.SGD", "args": {"lr": 0.1, "momentum": 0.9}}
FUSED = {"name": "torch.optim.AdamW", "implementation": "fused"}
IN_PLACE = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.n = nn.Linear(64, 256), nn.Linear(256, 64), nn.Linear(64, 10), nn.BatchNorm1d(64)

    def forward(self, x):
        y = self.b(F.dropout(F.relu_(self.a(x)), 0.1, self.training))
        y.add_(x)
        return self.c(self.n(y).clamp_(-3, 3))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 64), torch.randint(0, 10, (n,))

def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])
"""
UNFOLDED = """
import torch
from torch import nn

# Without oneDNN, whose scratch differs between processors, torch unfolds the images before it multiplies.
torch.backends.mkldnn.enabled = False

def build():
    return nn.Conv2d(3, 1, 3, padding=1)

def batch(n):
    return torch.randn(n, 3, 16, 16)

def loss(model, batch):
    return model(batch).sum()
"""
GPT2 = '{"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 32, "vocab_size": 64}'
TRANSFORMERS = {
    "decoder": {"args": DECODER},
    "three micro-batches, clipped": {"args": DECODER, "accumulate": 3, "clip": 1.0},
    "recomputed": {"args": DECODER, "checkpoint": ["Block"]},
    "bf16 autocast": {"args": DECODER, "precision": "bf16-autocast"},
    "untied, dropout": {"args": {**DECODER, "tied": False, "dropout": 0.1}},
    "SGD with momentum": {"args": DECODER, "optimizer": SGD},
    "fused AdamW": {"args": DECODER, "optimizer": FUSED},
}
PHASES = [
    "build",
    "optimizer",
    "first.forward",
    "first.backward",
    "first.step",
    "forward",
    "backward",
    "step",
    "validate",
]


def traced(**more):
    return run_here("traced", **more).table("traced")


def check(table, share):
    assert sorted(table["phases"]) == sorted(PHASES)
    for name, phase in table["phases"].items():
        assert sum(phase["rows"].values()) == phase["requested_bytes"], name
        assert phase["rows"].get("unattributed", 0) <= share * phase["requested_bytes"], name


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_byte_of_a_transformer_is_in_one_row_and_99_percent_have_a_name(name):
    check(traced(source="decoder", **TRANSFORMERS[name]), 0.01)


def test_a_gpt_2_of_hugging_face_is_accounted_for(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "gpt2.json").write_text(GPT2)
    check(traced(source="gpt2.json", args={}, folder=tmp_path), 0.01)


def test_in_place_operators_are_accounted_for(tmp_path):
    (tmp_path / "net.py").write_text(IN_PLACE)
    table = traced(source="net.py", folder=tmp_path, micro=32)
    check(table, 0.01)
    assert table["phases"]["backward"]["rows"]["buffers"] == 4 * (64 + 64) + 8


def test_the_scratch_of_a_convolution_is_a_row_of_its_own(tmp_path):
    (tmp_path / "unfolded.py").write_text(UNFOLDED)
    table = traced(source="unfolded.py", folder=tmp_path, micro=4)
    check(table, 0.01)
    # Every image's patches, 3 x 3 x 3 numbers for each of 16 x 16 places.
    assert table["phases"]["forward"]["rows"]["operator_scratch"] == 4 * 4 * (3 * 3 * 3) * (16 * 16)


def test_the_rows_of_a_convnet_add_up_whatever_this_processor_multiplies_with():
    check(traced(source="convnet", args={"channels": [8, 16], "size": 16}), 0.01)


def test_the_peaks_of_a_tiny_perceptron_are_those_by_hand():
    """4 inputs, 8 hidden, 2 outputs, 16 samples, AdamW one parameter at a time; sizes in bytes of fp32."""
    loop = {"name": "torch.optim.AdamW", "implementation": "loop"}
    phases = traced(micro=16, optimizer=loop)["phases"]
    weights = 4 * (4 * 8 + 8 + 8 * 2 + 2)
    state = 2 * weights + 4 * 4  # two moments, and a step counter of each of four parameters
    batch = 4 * (16 * 4 + 16 * 2)
    hidden, outputs = 4 * 16 * 8, 4 * 16 * 2
    # In ReLU: the hidden layer before and after it.
    assert phases["forward"]["requested_bytes"] == weights + state + batch + hidden + hidden == 2120
    # In the backward of ReLU: its saved result, the gradient before and after it; the loss, whose storage is still
    # that of its unreduced errors, and its gradient of one number; the gradients of the second layer.
    second = 4 * (8 * 2 + 2)
    backward = weights + state + batch + 3 * hidden + outputs + 4 + second
    assert phases["backward"]["requested_bytes"] == backward == 2836
    # For the first layer's matrix: a root and a quotient of its size; the loss; and 12 bytes of step counters.
    step = 2 * weights + state + outputs + 2 * 4 * 4 * 8 + 12
    assert phases["step"]["requested_bytes"] == step == 1340
    # At its end the temporaries are gone; weights, gradients, state and the loss are left.
    assert phases["step"]["end_bytes"] == 2 * weights + state + outputs
    assert phases["backward"]["rows"] == {
        "weights": weights,
        "optimizer_state": state,
        "input_batch": batch,
        "retained_activations": hidden,
        "step_temporaries": 2 * hidden + outputs + 4,
        "gradients": second,
    }


CYCLE = """
import torch
from torch import nn

class Net(nn.Linear):
    def forward(self, x):
        kept = [torch.zeros(1000)]
        kept.append(kept)
        return super().forward(x)

def build():
    return Net(4, 1)

def batch(n):
    return torch.randn(n, 4)

def loss(model, batch):
    return model(batch).mean()
"""


def test_storages_in_reference_cycles_are_collected_between_iterations_and_counted(tmp_path):
    (tmp_path / "cycle.py").write_text(CYCLE)
    table = traced(source="cycle.py", folder=tmp_path)
    assert table["cycle_bytes"] == 4000
    assert (
        table["phases"]["forward"]["requested_bytes"]
        == table["phases"]["first.forward"]["requested_bytes"] + 2 * 5 * 4 + 8
    )


def test_making_batches_belongs_to_no_phase(tmp_path):
    text = CYCLE.replace("return torch.randn(n, 4)", "return torch.zeros(100_000, n)[:n, :4] * 1")
    (tmp_path / "cycle.py").write_text(text)
    table = traced(source="cycle.py", folder=tmp_path, accumulate=2)
    assert max(phase["requested_bytes"] for phase in table["phases"].values()) < 400_000


def test_a_cpu_has_no_allocated_and_reserved_peaks_and_says_why():
    table = traced()
    assert table["phases"]["forward"]["allocated_bytes"] is None
    assert table["unknown"]["reserved_bytes"] == "the CPU has no caching allocator"
    assert (table["unknown_frees"] >= 0, table["cycle_bytes"], table["gradient_receiving"]) == (True, 0, 58)
