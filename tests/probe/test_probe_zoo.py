"""Models of many kinds, traced: all bytes in rows, at most 1 % without a name, and the timeline tells the same."""

import pytest
import torch
from zoo_models import HEAD, KINDS, kind

from probe.helpers import run_here
from tui.budget.timeline import alive, by_row, phase_peak
from tui.probe.tracker import Tracker
from tui.project.timeline import read

CHEAP = (
    "mixture of experts",
    "two-layer LSTM",
    "nn.TransformerEncoder ViT",
    "routed experts by index_add",
    "GAN with its own step",
    "channels-last ResNet",
    "weight_norm and spectral_norm",
    "Fourier operator, complex weights",
    "sparse graph convolution",
    "sparse embeddings",
    "gradient penalty, double backward",
    "per-sample gradients by torch.func",
    "Mixtral",
)
STEADY = ("forward", "backward", "step")


def traced(tmp_path, **more):
    """(table, timeline) of a traced run."""
    table = run_here("traced", journal=tmp_path / "t.jsonl", **more).table("traced")
    return table, read(tmp_path / "t.timeline.json")


def check(table, timeline, share=0.01):
    for name, phase in table["phases"].items():
        assert sum(phase["rows"].values()) == phase["requested_bytes"], name
        assert phase["rows"].get("unattributed", 0) <= share * phase["requested_bytes"], (name, phase["rows"])
    for name in {one.name for one in timeline.phases}:
        peaks = [phase_peak(timeline, one) for one in timeline.phases if one.name == name]
        event, size = max(peaks, key=lambda one: one[1])
        assert size == table["phases"][name]["requested_bytes"], name
        assert by_row(alive(timeline, event)) == table["phases"][name]["rows"], name


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_at_most_one_percent_of_a_models_peak_has_no_name(tmp_path, name):
    chosen = kind(name)
    if chosen.config:
        pytest.importorskip("transformers")
    check(*traced(tmp_path, **chosen.plan(tmp_path)))


def test_the_models_are_many_and_of_three_sources():
    assert len(KINDS) >= 30
    assert len({one.name for one in KINDS}) == len(KINDS)
    assert {one.of for one in KINDS} == {"family", "transformers", "plain torch"}


def own(tmp_path, text, **more):
    (tmp_path / "net.py").write_text(HEAD + text)
    return traced(tmp_path, source="net.py", folder=tmp_path, **more)


def made_in(timeline, phase, operator):
    """Modules in which ``operator`` made storages in the phases of that name, in order."""
    spans = [(one.first, one.last) for one in timeline.phases if one.name == phase]
    return [
        one.module
        for one in timeline.storages
        if one.operator == operator and any(first <= one.born < last for first, last in spans)
    ]


RECOMPUTED = """
from torch.utils.checkpoint import checkpoint

class Part(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 32))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.parts = nn.Linear(32, 32), nn.ModuleList(Part() for _ in range(3))

    def forward(self, x):
        x = self.start(x)
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=REENTRANT)
        return x

def build():
    return Net()

def batch(n):
    return torch.randn(n, 32)

def loss(model, batch):
    return model(batch).square().mean()
"""


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize(
    ("reentrant", "more"),
    [("True", {"accumulate": 2}), ("False", {"accumulate": 2}), ("False", {"precision": "bf16-autocast"})],
    ids=["reentrant", "not reentrant", "bf16"],
)
def test_a_checkpoint_of_the_users_own_keeps_no_activations_and_names_what_it_makes_again(
    tmp_path, reentrant, more
):
    table, timeline = own(tmp_path, RECOMPUTED.replace("REENTRANT", reentrant), micro=64, **more)
    check(table, timeline)
    again = made_in(timeline, "backward", "tanh")
    assert again == ["parts.2.1", "parts.1.1", "parts.0.1"] * more.get("accumulate", 1)
    # What goes into the parts and out of the last, and a state of the random numbers for each; no hidden layer.
    held = [one for one in alive(timeline, timeline.phases[0].last - 1) if one.row == "retained_activations"]
    assert sum(one.bytes for one in held) <= 4 * (4 * 64 * 32) + 3 * torch.get_rng_state().numel() + 8


TWICE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = nn.Sequential(nn.Linear(32, 32), nn.Tanh())
        self.again = self.outer
        self.calls = 0
        self.outer.register_forward_hook(self.count)

    def count(self, module, args, out):
        self.calls += 1
        return out * 2

    def forward(self, x):
        return self.again(self.outer(x))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 32)

def loss(model, batch):
    return model(batch).square().mean()
"""


def test_a_module_that_is_used_twice_has_one_path_and_a_hook_is_its_modules(tmp_path):
    table, timeline = own(tmp_path, TWICE, micro=16)
    check(table, timeline)
    assert made_in(timeline, "forward", "tanh") == ["outer.1", "outer.1"]
    assert made_in(timeline, "backward", "tanh_backward") == ["outer.1", "outer.1"]
    assert set(made_in(timeline, "forward", "mul")) <= {"outer", "Net"}


VIEWS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 32)
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.ones(64, 32)[:, :1])

    def forward(self, ids):
        x = self.table(ids)
        x[:, ::2].mul_(0.5)
        x = x.transpose(1, 2).contiguous().view(len(ids), 32, -1).transpose(1, 2)
        return self.head(x) * self.scale[0]

def build():
    return Net()

def batch(n):
    return torch.randint(0, 64, (n, 16))

def loss(model, batch):
    return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
"""


def test_tied_weights_count_once_and_a_view_holds_its_whole_storage(tmp_path):
    table, timeline = own(tmp_path, VIEWS, micro=8)
    check(table, timeline)
    rows = table["phases"]["forward"]["rows"]
    assert (rows["weights"], rows["buffers"]) == (4 * 64 * 32, 4 * 64 * 32)
    held = [one for one in alive(timeline, 0) if one.row == "buffers"]
    assert [(one.shape, one.bytes) for one in held] == [
        ("2048", 8192)
    ]  # the storage, not the view's 64 numbers
    assert [one.module for one in alive(timeline, 0) if one.row == "weights"] == ["table"]


OWN_BACKWARD = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

class Cubed(nn.Module):
    def forward(self, x):
        return Cube.apply(x)

def build():
    return nn.Sequential(nn.Linear(32, 64), Cubed(), nn.Linear(64, 1))

def batch(n):
    return torch.randn(n, 32)

def loss(model, batch):
    return model(batch).mean()

def step(run):
    # A loop as it may be written outside: the phases are not told.
    for batch in run.micro_batches:
        run.optimizer.zero_grad()
        found = model_loss(run.model, batch)
        found.backward()
        run.optimizer.step()
        run.losses.append(found.detach())

def model_loss(model, batch):
    return model(batch).mean()
"""


def test_a_function_with_its_own_backward_and_a_bare_loop_are_named_by_module(tmp_path):
    table, timeline = own(tmp_path, OWN_BACKWARD, micro=64)
    check(table, timeline)
    assert set(table["phases"]) >= {"forward"}
    wide = [
        one for one in timeline.storages if one.shape == "64x64" and one.operator == "mul" and one.born >= 0
    ]
    assert len(wide) == 5  # two products forward, three backward
    assert {one.module for one in wide} == {"1"}


def test_a_second_optimizer_of_a_bundle_has_its_state_in_the_optimizers_row(tmp_path):
    table, _ = traced(tmp_path, **kind("GAN with its own step").plan(tmp_path))
    rows = table["phases"]["step"]["rows"]
    counters = 4 * 8  # a step counter for each of eight parameters
    assert rows["optimizer_state"] == 2 * rows["weights"] + counters


def test_a_sparse_gradient_is_in_the_row_of_gradients(tmp_path):
    _, timeline = traced(tmp_path, **kind("sparse embeddings").plan(tmp_path))
    step = next(one for one in timeline.phases if one.name == "step")
    held = [one for one in alive(timeline, step.first) if one.row == "gradients"]
    # Indices and values of 256 users and of 2,048 items.
    assert sum(one.bytes for one in held) == (256 + 256 * 8) * (8 + 4 * 32)
    assert {one.module for one in held} == {"users", "items"}


def test_complex_weights_have_the_bytes_of_two_numbers(tmp_path):
    table, _ = traced(tmp_path, **kind("Fourier operator, complex weights").plan(tmp_path))
    assert table["phases"]["forward"]["rows"]["weights"] == 2 * 8 * 16 * 16 * 8 * 8 + 4 * (2 * 16 + 16 + 1)
    assert torch.zeros(1, dtype=torch.cfloat).itemsize == 8


RAGGED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 40, 32)

def loss(model, batch):
    rows = [one[: 8 + 2 * place] for place, one in enumerate(batch)]
    return model(torch.nested.nested_tensor(rows, layout=torch.jagged)).values().square().mean()
"""


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_ragged_batches_are_named_like_others(tmp_path):
    table, timeline = own(tmp_path, RAGGED, micro=8)
    check(table, timeline)
    event, _ = phase_peak(timeline, timeline.phases[0])
    rows = sum(8 + 2 * place for place in range(8))
    held = [one for one in alive(timeline, event) if one.bytes == 4 * rows * 128]
    assert {one.module for one in held} <= {"a", "Net"}
    assert held


def test_the_tracker_does_not_see_what_is_done_while_it_is_paused():
    tracker, inner = Tracker(torch.nn.Linear(1, 1)), Tracker(torch.nn.Linear(1, 1))
    with tracker:
        torch.zeros(3)
        with tracker.paused():
            torch.zeros(5)
        torch.zeros(7)
        with inner, tracker.paused():  # not the innermost mode: it must not end before what began within it
            torch.zeros(9)
    assert [label.shape for _, _, label in tracker.births] == [(3,), (7,), (9,)]
