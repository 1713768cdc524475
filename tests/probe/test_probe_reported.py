"""Reported faults of optimizers and activations: the state a step creates, rehearsals, duplicates, checkpointing."""

import copy
import warnings

import pytest
import torch

from probe.helpers import Events, plan, run_here
from tui.probe import optimizers
from tui.probe.device import cpu
from tui.probe.faults import TaskError
from tui.probe.session import Session

ADAM = {"name": "torch.optim.Adam", "implementation": "default", "args": {"lr": 0.1}}


def session(folder, text, **more):
    (folder / "work.py").write_text("import torch\nfrom torch import nn\n" + text)
    return Session(plan("timed", "work.py", folder=folder, **more), Events())


def state_bytes(made):
    return sum(one.nbytes for _, _, one in optimizers.state_tensors(made.optimizer))


LINEAR = """
def build(): return nn.Linear(1000, 1000)
def batch(n): return torch.randn(n, 1000)
def loss(model, batch): return model(batch).sum()
"""


def test_o01_adams_state_is_not_there_before_the_first_step_and_whole_after_it(tmp_path):
    made = session(tmp_path, LINEAR, optimizer=ADAM, micro=2)
    assert state_bytes(made) == 0
    made.iterate()
    assert state_bytes(made) == 8_008_008  # 2 moments of 1,001,000 fp32, and a step of 4 B a tensor
    made.iterate()
    assert state_bytes(made) == 8_008_008


def test_o06_a_first_beta_of_zero_keeps_both_moments(tmp_path):
    made = session(tmp_path, LINEAR, optimizer={**ADAM, "args": {"betas": [0.0, 0.999]}}, micro=2)
    made.iterate()
    assert {key for _, key, _ in optimizers.state_tensors(made.optimizer)} == {
        "step",
        "exp_avg",
        "exp_avg_sq",
    }
    assert state_bytes(made) == 8_008_008


FROZEN = """
def build():
    made = nn.Sequential(nn.Linear(1000, 1000), nn.Linear(1000, 10))
    made[0].requires_grad_(False)
    return made
def batch(n): return torch.randn(n, 1000)
def loss(model, batch): return model(batch).sum()
"""


def test_o05_only_the_trainable_layer_has_gradients_and_state(tmp_path):
    (tmp_path / "work.py").write_text("import torch\nfrom torch import nn\n" + FROZEN)
    found = run_here("traced", source="work.py", folder=tmp_path, micro=2)
    phases = found.table("traced")["phases"]
    assert phases["step"]["rows"]["weights"] == 4_004_000 + 40_040
    assert phases["step"]["rows"]["gradients"] == 40_040
    assert phases["step"]["rows"]["optimizer_state"] == 80_088
    assert "optimizer_state" not in phases["first.backward"]["rows"]


TINY = """
def build(): return nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
def batch(n): return torch.randn(n, 3)
def loss(model, batch): return model(batch).square().mean()
"""


def first_update(folder):
    made = session(folder, TINY, optimizer=ADAM, accumulate=2)
    made.iterate()
    steps = {float(one) for _, key, one in optimizers.state_tensors(made.optimizer) if key == "step"}
    return [one.detach().clone() for one in made.model.parameters()], steps, made.index, torch.get_rng_state()


def rehearse_limit(folder):
    cpu._warm_up()


def rehearse_inventory(folder):
    run_here(
        "inventory", source="work.py", folder=folder, extra={"backward": True, "placement": {"ranks": 1}}
    )


def rehearse_traced(folder):
    run_here("traced", source="work.py", folder=folder, optimizer=ADAM, accumulate=2)


@pytest.mark.parametrize("rehearse", [rehearse_limit, rehearse_inventory, rehearse_traced])
def test_o03_the_first_update_after_a_rehearsal_is_that_of_a_fresh_run(tmp_path, rehearse):
    weights, steps, index, rng = first_update(tmp_path)
    rehearse(tmp_path)
    again, counted, position, state = first_update(tmp_path)
    assert all(torch.equal(one, other) for one, other in zip(weights, again, strict=True))
    assert counted == steps == {1.0}
    assert position == index == 2
    assert torch.equal(rng, state)


def test_o03_validation_touches_no_weight_no_counter_no_mode_and_no_data_position(tmp_path):
    made = session(tmp_path, TINY, optimizer=ADAM)
    made.iterate()
    model, state = copy.deepcopy(made.model.state_dict()), copy.deepcopy(made.optimizer.state_dict())
    made.validate()
    assert all(torch.equal(one, model[name]) for name, one in made.model.state_dict().items())
    for key, held in made.optimizer.state_dict()["state"].items():
        assert all(torch.equal(one, state["state"][key][name]) for name, one in held.items())
    assert (made.index, made.model.training) == (1, True)


TIED = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.wte.weight
    def forward(self, x): return self.head(self.wte(x)).square().mean()
def build(): return Tied()
def batch(n): return torch.zeros(n, dtype=torch.long)
def optimizer(model): return {optimizer}
"""
BY_NAME = "[one for _, one in model.named_parameters(remove_duplicate=False)]"


def refused(folder, optimizer):
    warnings.simplefilter("ignore")  # pytest puts it back: torch warns of what is refused here
    with pytest.raises(TaskError) as caught:
        session(folder, TIED.replace("{optimizer}", optimizer))
    return caught.value


def test_o08_a_tied_weight_in_the_list_twice_is_refused_before_any_step_by_its_names(tmp_path):
    error = refused(tmp_path, f"torch.optim.SGD({BY_NAME}, lr=0.1)")
    assert error.sentence == (
        "the optimizer was given 1 of 1 parameters more than once: wte.weight = head.weight (2 times)"
    )
    assert error.where == "work.py:12"
    assert error.hint.startswith("give each parameter once")


def test_o08_in_two_groups_torchs_own_refusal_gets_the_names(tmp_path):
    error = refused(tmp_path, f"torch.optim.SGD([dict(params=[one]) for one in {BY_NAME}], lr=0.1)")
    assert error.sentence == (
        "a parameter is in more than one group of the optimizer; one tensor of several names: wte.weight = head.weight"
    )


def test_o08_each_parameter_once_is_fine_and_another_error_stays_as_it_is(tmp_path):
    text = TIED.replace("{optimizer}", "torch.optim.SGD(model.parameters(), lr=0.1)")
    session(tmp_path, text).iterate()
    with pytest.raises(ValueError, match="Invalid learning rate"):
        session(tmp_path, TIED.replace("{optimizer}", "torch.optim.SGD(model.parameters(), lr=-1.0)"))


BLOCKS = """
class Block(nn.Module):
    def __init__(self, d):
        super().__init__(); self.a = nn.Linear(d, 4 * d); self.b = nn.Linear(4 * d, d)
    def forward(self, x): return x + self.b(nn.functional.gelu(self.a(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.blocks = nn.ModuleList(Block(64) for _ in range(8))
    def forward(self, x):
        for one in self.blocks: x = one(x)
        return x
def build(): return Net()
def batch(n): return torch.randn(n, 64)
def loss(model, batch): return model(batch).sum()
"""


def test_m01_checkpointing_the_whole_net_saves_nothing_and_each_block_saves_half(tmp_path):
    (tmp_path / "work.py").write_text("import torch\nfrom torch import nn\n" + BLOCKS)
    peaks = []
    for classes in ([], ["Net"], ["Block"]):
        table = run_here("traced", source="work.py", folder=tmp_path, micro=256, checkpoint=classes).table(
            "traced"
        )
        backward = table["phases"]["first.backward"]["requested_bytes"]
        peaks.append(backward - table["start_bytes"] - 256 * 64 * 4)
    none, whole, block = peaks
    # Each of 8 blocks keeps its input and, four times as wide, what gelu takes and gives; at the peak there are also
    # the gradients of the last output and of the last gelu, the loss and its gradient.
    assert none == 8 * 9 * 65_536 + 5 * 65_536 + 2 * 4
    assert whole == none + torch.get_rng_state().nbytes  # recomputed at once: no gain
    # pytorch/pytorch#147449: 2,958,088 of 6,095,112 for each block, by a tracker that counted the matrices as well,
    # because it saw their transposed views.
    matrices = 8 * 2 * 4 * 64 * 256
    assert (none + matrices) / 6_095_112 == pytest.approx(1.0, abs=0.001)
    assert (block + matrices) / (none + matrices) == pytest.approx(0.485, abs=0.02)
