"""Checkpoints and digests of low-bit weights, which are other tensors than their modules show."""

import pytest
import torch
from torch import nn

from tui.probe import checkpoint
from tui.probe.faults import TaskError
from tui.probe.reporter import Reporter
from tui.probe.session import Session

from .helpers import Events, plan
from .test_probe_packed import Quantized

FOUR_BIT = '''
import torch
from torch import nn
from types import SimpleNamespace

class Linear4bit(nn.Module):
    """Gives entries below its weight that it does not take back, as bitsandbytes has it."""
    def __init__(self, inputs, outputs):
        super().__init__()
        codes = torch.randint(0, 256, (inputs * outputs // 2, 1), dtype=torch.uint8)
        self.weight = nn.Parameter(codes, requires_grad=False)
        scales = torch.rand(inputs * outputs // 8)
        self.weight.quant_state = SimpleNamespace(
            shape=(outputs, inputs), quant_type="nf4", absmax=scales, code=torch.rand(16), offset=None, state2=None
        )
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight.absmax"] = self.weight.quant_state.absmax
    def forward(self, x):
        state, packed = self.weight.quant_state, self.weight.flatten().long()
        values = state.code[torch.stack([packed >> 4, packed & 15], 1).flatten()]
        return x @ (values.view(-1, 8) * state.absmax[:, None]).view(state.shape).T

def build(cfg): return nn.Sequential(Linear4bit(8, cfg.get("width", 4)), nn.Linear(cfg.get("width", 4), 2))
def batch(n): return torch.ones(n, 8)
def loss(model, batch): return model(batch).square().mean()
'''


def session(folder, seed, **args):
    (folder / "workload.py").write_text(FOUR_BIT)
    made = plan("verify", "workload.py", args, folder, seed=seed)
    reporter: Reporter = Events()  # type: ignore[assignment]
    return Session(made, reporter)


def test_a_run_on_4_bit_weights_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(tmp_path):
    path = str(tmp_path / "a.pt")
    made = session(tmp_path, 1)
    made.iterate()
    sizes, _, _ = checkpoint.save(made, path)
    other = session(tmp_path, 2)
    assert checkpoint.parameter_digest(other) != checkpoint.parameter_digest(made)
    checkpoint.load(other, path)
    assert other.iterate_for_loss() == made.iterate_for_loss()
    assert checkpoint.parameter_digest(other) == checkpoint.parameter_digest(made)
    # 16 bytes of codes, 4 scales, 16 values, and the linear layer beside them
    assert sizes["model"] == 16 + 4 * (4 + 16) + 4 * (8 + 2)


def test_4_bit_weights_of_another_size_are_refused_and_load_nothing(tmp_path):
    path = str(tmp_path / "a.pt")
    checkpoint.save(session(tmp_path, 1), path)
    other = session(tmp_path, 2, width=8)
    before = checkpoint.parameter_digest(other)
    with pytest.raises(TaskError, match="is of another model"):
        checkpoint.load(other, path)
    assert checkpoint.parameter_digest(other) == before


def test_the_digest_of_a_wrapper_is_of_the_tensors_in_it():
    def made(value):
        inner = {"qdata": torch.full((8, 64), value, dtype=torch.int8), "scale": torch.ones(8)}
        return nn.Parameter(Quantized((8, 64), **inner), requires_grad=False)

    digests = [checkpoint.tensor_digest([made(value)]) for value in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
