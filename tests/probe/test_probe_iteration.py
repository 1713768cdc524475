"""Iterations, precision settings, gradients and checkpoints on models of a few numbers, in this process."""

import math
import random

import numpy
import pytest
import torch
from torch import nn

from probe.helpers import Events, plan
from tui.probe import checkpoint, finite, gradients
from tui.probe.faults import TaskError
from tui.probe.session import Session
from tui.probe.setting import Setting


def session(task="timed", **more):
    return Session(plan(task, **more), Events())


def workload(folder, text):
    (folder / "work.py").write_text("import torch\nfrom torch import nn\n" + text)
    return {"source": "work.py", "folder": folder}


LINEAR = """
def build():
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    return model

def batch(n, index):
    return torch.full((n, 2), float(index + 1))

def loss(model, batch):
    return model(batch).mean()
"""


def test_an_iteration_of_three_micro_batches_has_the_gradient_of_their_mean(tmp_path):
    made = session(accumulate=3, **workload(tmp_path, LINEAR))
    # The gradient of the mean output is the mean input: (1 + 2 + 3) / 3.
    assert made.iterate_for_loss() == pytest.approx(4.0, abs=1e-6)
    assert made.model.weight.grad.tolist() == [[2.0, 2.0]]
    assert made.index == 3


def test_phases_are_told_in_order_with_their_micro_batch(tmp_path):
    made = session(accumulate=2, **workload(tmp_path, LINEAR))
    seen = []
    made.observe(lambda phase, micro: seen.append((phase, micro)))
    made.iterate()
    assert seen == [("forward", 0), ("backward", 0), ("forward", 1), ("backward", 1), ("step", None)]


def test_gradients_are_clipped_after_they_are_unscaled(tmp_path):
    big = LINEAR.replace("float(index + 1)", "100.0")
    made = session(
        precision="fp16-autocast",
        clip=1.0,
        optimizer={"name": "torch.optim.SGD", "args": {"lr": 0.5}},
        **workload(tmp_path, big),
    )
    made.setting.scaler = torch.amp.GradScaler(
        "cpu", init_scale=256.0
    )  # 100 times 65536 would be beyond fp16
    made.iterate()
    # Clipped to a norm of 1 in truth: 0.7071 each, times the rate of 0.5.  Clipped while scaled, nothing would move.
    assert made.model.weight.tolist()[0] == pytest.approx([1 - 0.5 * math.sqrt(0.5)] * 2, abs=1e-4)
    assert (made.run.steps, made.run.skipped) == (1, 0)


OVERFLOW = (
    LINEAR
    + """
def optimizer(model):
    made = torch.optim.SGD(model.parameters(), lr=0.5)
    return made, torch.optim.lr_scheduler.StepLR(made, 1, 0.1)
"""
)


def test_a_step_that_the_scaler_skips_moves_neither_weights_nor_the_scheduler(tmp_path):
    text = OVERFLOW.replace("float(index + 1)", "1e6 if index == 0 else 1.0")
    made = session(
        precision="fp16-autocast",
        **workload(tmp_path, text.replace("model(batch).mean()", "(batch * model.weight).mean() * 1e35")),
    )
    made.iterate()
    assert (made.run.steps, made.run.skipped) == (0, 1)
    assert made.model.weight.tolist() == [[1.0, 1.0]]
    assert made.optimizer.param_groups[0]["lr"] == 0.5


def test_the_scheduler_follows_every_step_that_was_taken(tmp_path):
    made = session(**workload(tmp_path, OVERFLOW))
    made.iterate()
    assert made.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


TWO = """
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.a.weight)
        nn.init.ones_(self.b.weight)

class Both:
    def __init__(self, model):
        self.first = torch.optim.SGD(model.a.parameters(), lr=1.0)
        self.second = torch.optim.SGD(model.b.parameters(), lr=0.5)
        self.state = {}
    def step(self): pass
    def zero_grad(self, set_to_none=True):
        self.first.zero_grad(set_to_none)
        self.second.zero_grad(set_to_none)

def build(): return Pair()
def batch(n): return torch.ones(n, 1)
def optimizer(model): return Both(model)

def step(run):
    run.zero_grad()
    for batch in run.micro_batches:
        run.backward(run.model.a(batch).mean())
        run.apply(run.optimizer.first)
        run.backward(run.model.b(batch).mean())
        run.apply(run.optimizer.second)
"""


def test_a_workloads_own_step_may_use_two_optimizers(tmp_path):
    made = session(**workload(tmp_path, TWO))
    assert made.iterate_for_loss() == 1.0
    assert (made.model.a.weight.item(), made.model.b.weight.item(), made.run.steps) == (0.0, 0.5, 2)


def test_an_own_step_without_a_loss_is_refused(tmp_path):
    text = TWO.partition("def step(run)")[0] + "\ndef step(run):\n    pass\n"
    with pytest.raises(TaskError, match="made no loss"):
        session(**workload(tmp_path, text)).iterate_for_loss()


def test_an_unknown_class_to_recompute_is_refused():
    with pytest.raises(TaskError, match="names Block, which the model does not have"):
        session(checkpoint=["Block"])


def test_recomputed_modules_give_the_same_gradients():
    args = {"layers": 2, "heads": 2, "width": 16, "vocab": 16, "context": 8, "dropout": 0.2}
    found = []
    for names in ([], ["Block"]):
        made = session(source="decoder", args=args, checkpoint=names)
        made.iterate()
        found.append(gradients.collect(made.model))
    assert gradients.compare(found[1], found[0])["error"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fp32", "fp32 linear, fp32 weights"),
        ("bf16-autocast", "bf16 linear, fp32 weights"),
        ("fp16-autocast", "fp16 linear, fp32 weights, scaler on"),
        ("bf16", "bf16 linear, bf16 weights"),
    ],
)
def test_a_setting_says_what_really_happened_inside(name, words):
    made = session(precision=name)
    stop = made.setting.watch(made.model)
    made.iterate()
    stop()
    assert made.setting.effective().partition(", emulated")[0] == words
    assert made.setting.is_emulated() == ("emulated" in made.setting.effective())


def test_pure_bf16_has_weights_gradients_and_batches_in_bf16():
    made = session(precision="bf16")
    made.iterate()
    kinds = {one.dtype for one in made.model.parameters()} | {
        one.grad.dtype for one in made.model.parameters()
    }
    assert kinds == {torch.bfloat16}
    assert (
        made.setting.batch({"x": torch.ones(1), "ids": torch.ones(1, dtype=torch.int64)})["ids"].dtype
        == torch.int64
    )


def test_tf32_on_a_cpu_is_unsupported_in_words():
    with pytest.raises(TaskError) as caught:
        Setting("tf32", "cpu")
    assert caught.value.kind == "unsupported"
    assert "compute capability 8.0" in caught.value.sentence


def test_a_setting_without_layers_says_so():
    assert Setting("fp32", "cpu").effective() == "no linear or convolution layer was seen"


def test_planted_differences_of_gradients_are_found():
    right = {"a.weight": torch.tensor([3.0, 4.0]), "b.weight": torch.tensor([12.0, 0.0])}
    same = gradients.compare(right, right)
    assert (same["error"], same["cosine"], same["nonfinite"], same["zeroed"]) == (0.0, 1.0, 0, 0)
    wrong = {"a.weight": torch.tensor([3.0, 0.0]), "b.weight": torch.tensor([12.0, 0.0])}
    found = gradients.compare(wrong, right)
    assert found["error"] == pytest.approx(4 / 13)
    assert (found["worst"], found["worst_error"], found["zeroed"]) == ("a", pytest.approx(4 / 5), 1)
    assert gradients.compare({**right, "a.weight": torch.tensor([math.nan, 4.0])}, right)["nonfinite"] == 1


def test_a_missing_gradient_counts_as_zero_and_an_all_zero_reference_gives_no_error():
    found = gradients.compare({}, {"a.weight": torch.tensor([3.0, 4.0])})
    assert (found["error"], found["zeroed"]) == (1.0, 2)
    assert gradients.compare({}, {"a.weight": torch.zeros(2)})["error"] is None


POISONED = """
def build():
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

def batch(n, index):
    x = torch.ones(n, 2)
    if index == 3:
        x[0, 0] = float("nan")
    return x

def loss(model, batch):
    return model(batch).mean()
"""


def test_the_first_module_that_is_not_finite_is_named_with_iteration_and_micro_batch(tmp_path):
    made = session(accumulate=2, **workload(tmp_path, POISONED))
    made.iterate()
    made.run.check = lambda loss, micro: finite.check_loss(float(loss), made, 1, micro)
    with pytest.raises(TaskError) as caught:
        made.iterate()
    assert (caught.value.kind, caught.value.sentence) == (
        "nonfinite",
        "loss is NaN at iteration 2, micro-batch 2",
    )
    assert caught.value.hint.startswith("first non-finite: output of 0 (fp32)")


def test_weights_that_are_no_numbers_are_named():
    made = session()
    with torch.no_grad():
        made.model.layers[1].bias[0] = math.inf
    assert finite.first_nonfinite(made, 0) == "parameter layers.1.bias is not finite by now"


def test_a_finite_loss_passes():
    finite.check_loss(3.5, session(), 0)
    finite.check_loss(None, session(), 0)


DROPOUT = {"layers": 1, "heads": 2, "width": 16, "vocab": 16, "context": 8, "dropout": 0.3}


def of_decoder(**more):
    return session(source="decoder", args=DROPOUT, **more)


def test_a_run_that_goes_on_from_a_checkpoint_is_equal_bit_for_bit(tmp_path):
    path = str(tmp_path / "ckpt" / "a.pt")
    made = of_decoder()
    made.iterate()
    sizes, total, digest = checkpoint.save(made, path)
    drawn = (random.random(), numpy.random.rand())
    goes_on = [made.iterate_for_loss() for _ in range(2)]
    random.seed(7)
    numpy.random.seed(7)
    other = of_decoder()
    checkpoint.load(other, path)
    assert (random.random(), numpy.random.rand()) == drawn
    assert [other.iterate_for_loss() for _ in range(2)] == goes_on
    assert checkpoint.parameter_digest(other) == checkpoint.parameter_digest(made)
    weights = sum(one.numel() for one in made.model.parameters())
    assert sizes["model"] == 4 * (weights + 16 * 16)  # the tied head is a second entry
    assert sizes["optimizer"] == 8 * weights + 4 * len(list(made.model.parameters()))
    assert (len(digest), total > sizes["model"] + sizes["optimizer"]) == (64, True)


def test_a_scaler_and_a_scheduler_come_back(tmp_path):
    path = str(tmp_path / "a.pt")
    made = session(precision="fp16-autocast", **workload(tmp_path, OVERFLOW))
    made.setting.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    made.iterate()
    checkpoint.save(made, path)
    other = session(precision="fp16-autocast", **workload(tmp_path, OVERFLOW))
    checkpoint.load(other, path)
    assert other.setting.scaler.get_scale() == 1024.0
    assert other.scheduler.last_epoch == made.scheduler.last_epoch == 1


def saved(folder):
    path = folder / "a.pt"
    checkpoint.save(session(), str(path))
    return path


def resign(path):
    path.with_name("a.pt.sha256").write_text(checkpoint.sha256(str(path)) + "\n")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncate_and_sign(path):
    truncate(path)
    resign(path)


def foreign(path):
    torch.save({"model": {}}, path)
    resign(path)


class Evil:
    def __reduce__(self):
        return print, ("it ran",)


def with_a_global(path):
    torch.save({"manifest": Evil()}, path)
    resign(path)


def text(path):
    path.write_text("not a checkpoint")
    resign(path)


def unsigned(path):
    path.with_name("a.pt.sha256").unlink()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (truncate, "damaged or replaced"),
        (flip, "damaged or replaced"),
        (truncate_and_sign, "cannot be loaded with weights_only=True"),
        (text, "cannot be loaded with weights_only=True"),
        (foreign, "is not a checkpoint written by peakmark"),
        (with_a_global, "cannot be loaded with weights_only=True"),
        (unsigned, "cannot be read: No such file or directory"),
    ],
)
def test_a_damaged_or_foreign_checkpoint_is_a_sentence_and_nothing_is_loaded(
    tmp_path, capsys, damage, sentence
):
    path = saved(tmp_path)
    damage(path)
    made = session(args={"inputs": 4, "hidden": [8], "outputs": 2}, seed=5)
    before = checkpoint.parameter_digest(made)
    with pytest.raises(TaskError) as caught:
        checkpoint.load(made, str(path))
    assert (caught.value.kind, caught.value.where) == ("checkpoint", "a.pt")
    assert sentence in caught.value.sentence
    assert checkpoint.parameter_digest(made) == before
    assert "it ran" not in capsys.readouterr().out


def test_a_checkpoint_of_another_model_is_refused_and_loads_nothing(tmp_path):
    path = saved(tmp_path)
    made = session(args={"inputs": 4, "hidden": [9], "outputs": 2})
    before = checkpoint.parameter_digest(made)
    with pytest.raises(TaskError, match="is of another model"):
        checkpoint.load(made, str(path))
    assert (checkpoint.parameter_digest(made), made.index) == (before, 0)


def test_a_checkpoint_with_another_optimizer_is_refused(tmp_path):
    path = saved(tmp_path)
    made = session(args={"inputs": 4, "hidden": [8, 8], "outputs": 2})
    with pytest.raises(TaskError, match="is of another model"):
        checkpoint.load(made, str(path))
    assert isinstance(made.model, nn.Module)


def test_a_model_built_in_another_dtype_is_measured_in_the_one_that_the_setting_names():
    from tui.probe.setting import Setting, convert

    for built in (torch.bfloat16, torch.float64):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(built)
        Setting("fp32", "cpu").prepare(model)
        assert {one.dtype for one in model.parameters()} == {torch.float32}
        assert model[1].num_batches_tracked.dtype == torch.int64
    batch = Setting("fp32", "cpu").batch(
        {"x": torch.zeros(2, dtype=torch.float64), "ids": torch.zeros(2).long()}
    )
    assert (batch["x"].dtype, batch["ids"].dtype) == (torch.float32, torch.int64)
    phases = nn.Module()
    phases.turn = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    assert convert(phases, torch.bfloat16).turn.dtype == torch.complex64
