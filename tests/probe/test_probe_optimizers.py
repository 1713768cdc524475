"""Optimizers and schedulers by their names: every class of torch works, or one sentence says why it does not."""

import json
import sys

import pytest
import torch
from torch import nn

from probe.helpers import Events, plan
from tui.probe import checkpoint, optimizers, schedulers
from tui.probe.faults import TaskError
from tui.probe.session import Session

WORK = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))

def batch(n, index):
    return torch.full((n, 2), float(index + 1))

def loss(model, batch):
    return model(batch).square().mean()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "work.py").write_text(WORK)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mine", "pack", "pack.inner"):
        sys.modules.pop(name, None)


def session(folder, name="torch.optim.SGD", implementation="default", scheduler=None, text="", **args):
    if text:
        (folder / "work.py").write_text(text)
    optimizer = {"name": name, "implementation": implementation, "args": args}
    made = plan("timed", "work.py", folder=folder, optimizer=optimizer)
    made.extra["scheduler"] = scheduler
    return Session(made, Events())


def refusal(folder, *rest, **more):
    with pytest.raises(TaskError) as caught:
        session(folder, *rest, **more).iterate()
    return caught.value


CLASSES = sorted(
    name
    for name, one in vars(torch.optim).items()
    if isinstance(one, type) and issubclass(one, torch.optim.Optimizer) and one is not torch.optim.Optimizer
)
ALONE = {
    "LBFGS": "needs a closure that computes the loss again",
    "Muon": "takes matrices only, and 0.bias has the shape (3,)",
    "SparseAdam": "SparseAdam does not support dense gradients",
}
"""Classes that cannot train a model with dense gradients, biases and no closure, and why."""
FUSED = {"Adagrad", "Adam", "AdamW", "SGD"}


@pytest.mark.parametrize("kind", ["default", "foreach", "fused", "loop"])
@pytest.mark.parametrize("name", CLASSES)
def test_every_optimizer_of_torch_takes_a_step_or_one_sentence_says_why_not(folder, name, kind):
    full = "torch.optim." + name
    if name in ALONE and (kind == "default" or name == "LBFGS"):
        assert ALONE[name] in refusal(folder, full, kind).sentence
    elif name in ALONE or (kind == "fused" and name not in FUSED):
        found = refusal(folder, full, kind)
        assert found.sentence == f"{full} has no {kind} implementation"
        have = "default" if name in ALONE else "default, foreach or loop"
        assert found.hint == "workload.optimizer.implementation can be " + have
    else:
        made = session(folder, full, kind)
        before = [one.detach().clone() for one in made.model.parameters()]
        made.iterate()
        group = made.optimizer.param_groups[0]
        assert (type(made.optimizer).__name__, made.run.steps) == (name, 1)
        assert any(not torch.equal(a, b) for a, b in zip(before, made.model.parameters(), strict=True))
        if kind != "default":
            flag = "fused" if kind == "fused" else "foreach"
            assert group[flag] is (kind != "loop")


MATRICES = WORK.replace("nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)", "nn.Linear(2, 3, bias=False)")
SPARSE = """
import torch
from torch import nn

def build():
    return nn.Embedding(8, 2, sparse=True)

def batch(n):
    return torch.arange(n)

def loss(model, batch):
    return model(batch).square().mean()
"""


def test_muon_trains_a_model_of_matrices(folder):
    made = session(folder, "torch.optim.Muon", text=MATRICES, lr=0.1)
    made.iterate()
    assert made.run.steps == 1


def test_sparse_gradients_go_to_the_optimizers_that_take_them(folder):
    made = session(folder, "torch.optim.SparseAdam", text=SPARSE)
    made.iterate()
    assert made.run.steps == 1
    found = refusal(folder, "torch.optim.AdamW")
    assert "workload.optimizer: torch.optim.AdamW cannot take a step: " in found.sentence
    assert "SparseAdam" in found.hint


@pytest.mark.parametrize(
    ("name", "args", "sentence", "hint"),
    [
        ("torch.optim.AdamW", {"lrr": 1}, "lrr is not an argument of AdamW", "did you mean lr?"),
        (
            "torch.optim.SGD",
            {"zzz": 1},
            "zzz is not an argument of SGD",
            "it takes lr, momentum, dampening, ",
        ),
        ("torch.optim.SGD", {"params": 1}, "params is not an argument of SGD", "it takes lr, "),
        ("torch.optim.AdamW", {"lr": -1.0}, "refuses its arguments: Invalid learning rate: -1.0", ""),
        ("torch.optim.AdamW", {"betas": 0.9}, "torch.optim.AdamW refuses its arguments: ", ""),
        ("torch.optim.AdanW", {}, "there is no AdanW in torch.optim", "did you mean AdamW?"),
        ("torch.optim.lr_scheduler.StepLR", {}, "it is not a class of that kind", "it has "),
        ("torch.optim.adam:cast", {}, "it is not a class of that kind", "it has Adam"),
        (
            "torch.optim.Optimizer",
            {},
            "torch.optim.Optimizer needs the argument defaults",
            "write defaults = ",
        ),
        ("torch.optin.Adam", {}, "No module named 'torch.optin'", "such as torch.optim.AdamW"),
        (
            "nowhere_else:Lion",
            {},
            "No module named 'nowhere_else'",
            "write nowhere_else.py beside the project",
        ),
    ],
)
def test_what_a_constructor_does_not_take_is_one_sentence_with_the_way_out(
    folder, name, args, sentence, hint
):
    found = refusal(folder, name, **args)
    assert found.kind == "workload"
    assert sentence in found.sentence
    assert "\n" not in found.sentence
    assert hint in found.hint


def test_lists_become_tuples_and_whole_numbers_are_rates(folder):
    made = session(folder, "torch.optim.Adam", lr=1, betas=[0.5, 0.9])
    assert made.optimizer.param_groups[0]["betas"] == (0.5, 0.9)
    assert made.optimizer.param_groups[0]["lr"] == 1


OWN = """
import torch

class Halving(torch.optim.Optimizer):
    def __init__(self, params, rate=0.5):
        super().__init__(params, {"rate": rate})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                one.mul_(group["rate"])

class Falling:
    def __init__(self, optimizer, by):
        self.optimizer, self.by = optimizer, by

    def step(self):
        self.optimizer.param_groups[0]["rate"] *= self.by

    def state_dict(self):
        return {"by": self.by}

def Nothing(params):
    return 3
"""


@pytest.mark.parametrize("name", ["mine:Halving", "mine.Halving", "pack.inner:Halving"])
def test_an_optimizer_of_ones_own_is_found_beside_the_project(folder, name):
    (folder / "mine.py").write_text(OWN)
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "inner.py").write_text(OWN)
    made = session(
        folder, name, scheduler={"name": "mine:Falling", "args": {"by": 0.5}, "steps": 2}, rate=0.25
    )
    before = made.model[0].weight.detach().clone()
    made.iterate()
    assert torch.equal(made.model[0].weight, before * 0.25)
    assert made.optimizer.param_groups[0]["rate"] == 0.25 * 0.25


def test_an_optimizer_of_ones_own_is_told_what_it_lacks(folder):
    (folder / "mine.py").write_text(OWN)
    assert refusal(folder, "mine:Halving", "fused").sentence == "mine:Halving has no fused implementation"
    assert refusal(folder, "mine:Halving", rat=1).hint == "did you mean rate?"
    assert "mine:Nothing gave int, which has no step()" in refusal(folder, "mine:Nothing").sentence
    (folder / "mine.py").write_text("import no_such_package\n")
    sys.modules.pop("mine")
    assert refusal(folder, "mine:Halving").hint == "install no_such_package there"


# --- schedulers ---------------------------------------------------------------------------------

LR = "torch.optim.lr_scheduler."
SCHEDULERS = {
    "ConstantLR": {"factor": 0.5, "total_iters": 2},
    "CosineAnnealingLR": {"T_max": 10},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "cycle_momentum": False},
    "ExponentialLR": {"gamma": 0.5},
    "LinearLR": {"total_iters": 4},
    "MultiStepLR": {"milestones": [1, 2]},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 20},
    "PolynomialLR": {"total_iters": 4},
    "StepLR": {"step_size": 1},
    "SequentialLR": {
        "schedulers": [
            {"name": LR + "LinearLR", "args": {"total_iters": 2}},
            {"name": LR + "CosineAnnealingLR", "args": {"T_max": 8}},
        ],
        "milestones": [2],
    },
    "ChainedScheduler": {"schedulers": [{"name": LR + "ExponentialLR", "args": {"gamma": 0.5}}]},
}
WITHOUT = {"LambdaLR", "MultiplicativeLR", "ReduceLROnPlateau", "LRScheduler", "_LRScheduler"}
"""Those that need a function or a metric, and the base class."""


def by(name, steps=1, **args):
    return {"name": name if ":" in name else LR + name, "args": args or SCHEDULERS[name], "steps": steps}


def rate(made):
    return made.optimizer.param_groups[0]["lr"]


def test_every_scheduler_of_torch_is_tried_here_or_refused_below():
    found = {
        name
        for name, one in vars(torch.optim.lr_scheduler).items()
        if isinstance(one, type)
        and issubclass(one, (schedulers.BASE, torch.optim.lr_scheduler.ReduceLROnPlateau))
    }
    assert found == WITHOUT | set(SCHEDULERS)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_rate_is_what_torch_gives_and_goes_on_after_a_checkpoint(folder, name):
    made = session(folder, scheduler=by(name), lr=0.1, momentum=0.9)
    right = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(right.parameters(), lr=0.1, momentum=0.9)
    wanted = schedulers.build(json.loads(json.dumps(by(name))), optimizer)
    rates = []
    for _ in range(5):
        optimizer.step()
        wanted.step()
        rates.append(optimizer.param_groups[0]["lr"])
    for place in range(3):
        made.iterate()
        assert rate(made) == rates[place]
    checkpoint.save(made, str(folder / "a.pt"))
    other = session(folder, scheduler=by(name), lr=0.1, momentum=0.9)
    checkpoint.load(other, str(folder / "a.pt"))
    for place in (3, 4):
        other.iterate()
        assert rate(other) == pytest.approx(rates[place], rel=1e-12)
    assert len(set(rates)) > 1


def test_a_warm_up_and_a_decay_follow_one_another(folder):
    made = session(folder, scheduler=by("SequentialLR"), lr=1.0)
    seen = [rate(made)]
    for _ in range(4):
        made.iterate()
        seen.append(rate(made))
    # A third of the rate, rising over 2 steps, then half a cosine over 8.
    assert seen[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert seen[3:] == pytest.approx([0.9619397662556434, 0.8535533905932737])


def test_several_scheduler_steps_follow_one_optimizer_step(folder):
    made = session(folder, scheduler=by("ExponentialLR", steps=3), lr=1.0)
    made.iterate()
    assert rate(made) == 0.125


def test_no_scheduler_step_follows_an_optimizer_step_that_was_skipped(folder):
    text = WORK.replace("model(batch).square().mean()", "model(batch).square().mean() * float('inf')")
    (folder / "work.py").write_text(text)
    planned = plan("timed", "work.py", folder=folder, precision="fp16-autocast")
    planned.extra["scheduler"] = by("ExponentialLR", steps=3)
    made = Session(planned, Events())
    before = rate(made)
    made.iterate()
    assert (made.run.steps, made.run.skipped, rate(made)) == (0, 1, before)


@pytest.mark.parametrize(
    ("scheduler", "kind", "sentence", "hint"),
    [
        (
            by("ReduceLROnPlateau", mode="min"),
            "unsupported",
            "stepped with a validation metric",
            "leave the sch",
        ),
        (
            by("LambdaLR", lr_lambda="x"),
            "workload",
            "needs a function as lr_lambda",
            "return (optimizer, sched",
        ),
        (by("CosineAnnealingLR", eta_min=0), "workload", "needs the argument T_max", "write T_max = "),
        (
            by("StepLR", step_sise=1),
            "workload",
            "step_sise is not an argument of StepLR",
            "did you mean step_size?",
        ),
        (by("OneCycleLR", max_lr=0.1), "workload", "OneCycleLR refuses its arguments: ", ""),
        (by("StepLRR", gamma=1), "workload", "there is no StepLRR", "did you mean StepLR?"),
        (by("LRScheduler", last_epoch=-1), "workload", "LRScheduler refuses its arguments", ""),
        (
            by("SequentialLR", schedulers=[3], milestones=[]),
            "workload",
            "schedulers[0] is not a scheduler",
            "wri",
        ),
    ],
)
def test_a_scheduler_that_cannot_be_is_one_sentence(folder, scheduler, kind, sentence, hint):
    found = refusal(folder, scheduler=scheduler)
    assert found.kind == kind
    assert sentence in found.sentence
    assert hint in found.hint


def test_a_scheduler_that_divides_by_zero_names_its_arguments(folder):
    made = session(folder, scheduler=by("CosineAnnealingLR", T_max=0), lr=0.1)
    with pytest.raises(TaskError) as caught:
        made.iterate()
    assert caught.value.sentence.startswith("CosineAnnealingLR cannot be stepped: ZeroDivisionError: ")
    assert caught.value.hint == "correct workload.scheduler.args"


def test_a_scheduler_that_ends_too_early_says_which_argument_to_raise(folder):
    made = session(folder, scheduler=by("OneCycleLR", max_lr=0.1, total_steps=2), lr=0.1, momentum=0.9)
    made.iterate()
    made.iterate()
    with pytest.raises(TaskError) as caught:
        made.iterate()
    assert caught.value.sentence.startswith("OneCycleLR has come to its end: ")
    assert "raise its total_steps" in caught.value.hint


BOTH = (
    WORK
    + """
def optimizer(model):
    made = torch.optim.SGD(model.parameters(), lr=1.0)
    return made, torch.optim.lr_scheduler.ExponentialLR(made, 0.5)
"""
)


def test_a_scheduler_of_the_workloads_own_wins_and_two_are_refused(folder):
    made = session(folder, text=BOTH)
    made.iterate()
    assert rate(made) == 0.5
    found = refusal(folder, scheduler=by("StepLR"))
    assert found.sentence == (
        "optimizer(model) gives a scheduler (ExponentialLR), and workload.scheduler names another "
        "(torch.optim.lr_scheduler.StepLR)"
    )
    assert found.where == "work.py:14"


def test_the_spec_schedules_an_optimizer_of_the_workloads_own(folder):
    alone = BOTH.replace("return made, torch.optim.lr_scheduler.ExponentialLR(made, 0.5)", "return made")
    made = session(folder, scheduler=by("StepLR", step_size=1, gamma=0.25), text=alone)
    made.iterate()
    assert rate(made) == 0.25


def test_a_plateau_scheduler_of_the_workloads_own_is_refused_too(folder):
    text = BOTH.replace("ExponentialLR(made, 0.5)", "ReduceLROnPlateau(made)")
    assert (
        "optimizer(model) gives ReduceLROnPlateau, which is stepped with"
        in refusal(folder, text=text).sentence
    )


def test_of_two_optimizers_a_scheduler_follows_its_own(folder):
    text = (
        BOTH.replace("return made,", "return Two(made, model),")
        + """
class Two:
    def __init__(self, first, model):
        self.first, self.state = first, {}
        self.second = torch.optim.SGD(model.parameters(), lr=1.0)

    def step(self): pass

    def zero_grad(self, set_to_none=True): pass

def step(run):
    for batch in run.micro_batches:
        run.backward(run.loss(batch))
        run.apply(run.optimizer.first)
        run.apply(run.optimizer.second)
"""
    )
    made = session(folder, text=text)
    made.iterate()
    assert (made.optimizer.first.param_groups[0]["lr"], made.run.steps) == (0.5, 2)


def test_classes_say_which_implementations_they_have():
    assert optimizers.implementations(torch.optim.AdamW) == ["default", "foreach", "fused", "loop"]
    assert optimizers.implementations(torch.optim.LBFGS) == ["default"]
    assert optimizers.implementations(lambda params, **rest: None) == ["default", "foreach", "fused", "loop"]
