"""What is kept on the host: saved tensors, and weights, gradients and optimizer state under FSDP2 with one rank.

The CPU is the device here: the code is the one for a GPU, but nothing moves and nothing can be pinned.
"""

import os

import pytest
import torch
import torch.distributed as dist

from probe.helpers import DECODER, Events, plan, run_here
from tui.probe import checkpoint, offload
from tui.probe.faults import TaskError
from tui.probe.session import Session

SHARDED = {"weights": "host", "activations": "device", "shard_each": ["Block"]}
SAVED = {"weights": "device", "activations": "host", "shard_each": []}
OWN = """
import torch

class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(3, 4)

    def forward(self, x):
        return self.one(x)

def build():
    return Twice()

def batch(n, index):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(index))

"""


@pytest.fixture
def group():
    """Whatever process group a test makes is gone after it."""
    yield
    offload.close()
    assert not dist.is_initialized()


def session(placement=None, task="timed", **more):
    more.setdefault("source", "decoder")
    more.setdefault("args", DECODER if more["source"] == "decoder" else None)
    extra = {} if placement is None else {"placement": placement}
    return Session(plan(task, extra=extra, **more), Events())


def gradients(one):
    return {name: whole(value.grad) for name, value in one.model.named_parameters()}


def whole(tensor):
    return getattr(tensor, "_local_tensor", tensor).detach().clone()


def trained(one, steps=2):
    return [one.iterate_for_loss() for _ in range(steps)]


def test_saved_tensors_go_to_the_host_around_forward_and_loss_and_nowhere_else(monkeypatch):
    told = []

    class Told(torch.autograd.graph.saved_tensors_hooks):
        def __init__(self, pin_memory):
            self.pin_memory = pin_memory
            super().__init__(lambda one: one, lambda one: one)

        def __enter__(self):
            told.append("in, pinned" if self.pin_memory else "in")
            super().__enter__()

        def __exit__(self, *exc):
            told.append("out")
            super().__exit__(*exc)

    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", Told)
    one = session({**SAVED, "activations": "host-pinned"}, accumulate=2)
    forward = one.workload.loss
    monkeypatch.setattr(one.workload, "loss", lambda *args: (told.append("loss"), forward(*args))[1])
    one.observe(lambda phase, micro: told.append(phase))
    one.iterate()
    micro = ["forward", "in, pinned", "loss", "out", "backward"]
    assert told == [*micro, *micro, "step"]
    told.clear()
    one.validate()
    assert "in, pinned" not in told  # nothing is saved without gradients


@pytest.mark.parametrize(
    "more", [{}, {"checkpoint": ["Block"]}, {"accumulate": 2, "precision": "bf16-autocast"}]
)
def test_gradients_with_saved_tensors_on_the_host_are_those_without(more):
    here, away = session(**more), session(SAVED, **more)
    assert trained(here) == trained(away)
    found, right = gradients(away), gradients(here)
    assert found.keys() == right.keys()
    assert all(torch.equal(found[name], right[name]) for name in right)


def test_bytes_that_are_saved_on_the_host_are_those_that_autograd_saves(tmp_path):
    (tmp_path / "work.py").write_text(
        OWN + "def loss(model, batch): return (model(batch) * batch[:, :1]).sum()\n"
    )
    one = session(SAVED, source="work.py", folder=tmp_path, micro=5)
    assert one.offload.readings(one, "steady")[0].bytes is None
    one.iterate()
    (reading,) = one.offload.readings(one, "steady")
    # addmm saves its input, 5 x 3; the product saves the column, 5 x 1 (the batch itself needs no gradient).
    assert (reading.name, reading.bytes) == ("host_activations", 4 * (5 * 3 + 5))


def test_a_step_that_goes_another_way_has_no_bytes_and_the_reason(tmp_path):
    step = "def step(run):\n    for one in run.micro_batches:\n        run.backward(run.model(one).sum())\n"
    (tmp_path / "work.py").write_text(OWN + step + "    run.apply(run.optimizer)\n")
    one = session(SAVED, source="work.py", folder=tmp_path)
    one.iterate()
    (reading,) = one.offload.readings(one, "steady")
    assert (reading.bytes, reading.unknown) == (None, offload.UNSEEN)


def test_sharded_over_one_rank_the_training_is_the_same_and_so_are_the_names(group):
    here, away = session(clip=0.1), session(SHARDED, clip=0.1)
    assert [name for name, _ in here.model.named_parameters()] == [
        name for name, _ in away.model.named_parameters()
    ]
    assert list(here.model.state_dict()) == list(away.model.state_dict())
    assert trained(here) == trained(away)
    found, right = gradients(away), gradients(here)
    assert all(torch.equal(found[name], right[name]) for name in right)
    for (_, one), (_, other) in zip(
        here.model.named_parameters(), away.model.named_parameters(), strict=True
    ):
        assert torch.equal(one, whole(other))


def test_every_class_of_shard_each_is_a_group_of_its_own_below_the_root(group):
    from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule

    one = session(SHARDED)
    sharded = [module for module in one.model.modules() if isinstance(module, FSDPModule)]
    assert sharded[0] is one.model
    assert len(sharded) == 1 + DECODER["layers"]
    policies = [module._get_fsdp_state()._fsdp_param_group.offload_policy for module in sharded]
    assert all(policy == CPUOffloadPolicy(pin_memory=False) for policy in policies)


@pytest.mark.parametrize(("where", "pinned"), [("host", False), ("host-pinned", True)])
def test_pinned_is_asked_of_torch_where_the_spec_says_so(group, monkeypatch, where, pinned):
    asked = []
    monkeypatch.setattr(
        "torch.distributed.fsdp.fully_shard",
        lambda module, mesh, offload_policy: asked.append((type(module).__name__, offload_policy.pin_memory)),
    )
    session({**SHARDED, "weights": where})
    assert [name for name, _ in asked] == ["Block", "Block", "Decoder"]
    assert {one for _, one in asked} == {pinned}


def test_gradients_that_are_kept_to_compare_with_are_plain_tensors(group, tmp_path):
    path = str(tmp_path / "g" / "gradients.pt")
    common = {"source": "decoder", "args": DECODER, "iterations": 2}
    run_here("train", extra={"placement": SHARDED, "write_gradients": path}, **common)
    here = run_here("train", extra={"compare_gradients": path}, **common)
    assert here.table("train")["gradients"]["error"] == 0.0


def test_what_rests_on_the_host_is_counted_apart(group):
    one = session(SHARDED)
    trained(one, 1)
    found = {reading.name: reading for reading in one.offload.readings(one, "steady")}
    size = 4 * sum(parameter.numel() for parameter in one.model.parameters())
    counters = 4 * len(list(one.model.parameters()))
    assert {name: reading.bytes for name, reading in found.items()} == {
        "host_weights": size,
        "host_gradients": size,
        "host_optimizer": 2 * size + counters,  # AdamW's two moments and its step counters
    }
    assert found["host_weights"].source.endswith("none pinned")


def test_a_checkpoint_of_sharded_weights_is_the_same_by_name_and_goes_on_the_same(group, tmp_path):
    one = session(SHARDED)
    trained(one)
    path = str(tmp_path / "saved" / "state.pt")
    checkpoint.save(one, path)
    expected = trained(one)
    again = session(SHARDED)
    checkpoint.load(again, path)
    assert list(torch.load(path, weights_only=True)["model"]) == list(session().model.state_dict())
    assert trained(again) == expected
    assert checkpoint.parameter_digest(again) == checkpoint.parameter_digest(one)


def test_verify_says_where_the_parts_are_and_what_cannot_be_checked(group, tmp_path):
    extra = {"placement": SHARDED, "checkpoint": str(tmp_path / "c" / "state.pt")}
    found = run_here("verify", source="decoder", args=DECODER, extra=extra)
    checks = {one.key: one for one in found if type(one).__name__ == "CheckDone"}
    assert checks["placement"].outcome == "pass"
    assert "of weights, gradients and optimizer state on the host" in checks["placement"].text
    assert (checks["gradients"].outcome, checks["deterministic"].outcome) == ("n/a", "pass")
    assert checks["gradients"].text == "weights that FSDP2 keeps on the host cannot be copied"


def test_the_timed_task_reports_what_is_on_the_host_and_leaves_no_group(group, tmp_path, monkeypatch):
    monkeypatch.setattr(offload.tempfile, "tempdir", str(tmp_path))
    both = {**SHARDED, "activations": "host"}
    found = run_here("timed", source="decoder", args=DECODER, iterations=2, extra={"placement": both})
    names = [one.name for one in found if getattr(one, "name", "").startswith("host_")]
    assert names[-4:] == ["host_weights", "host_gradients", "host_optimizer", "host_activations"]
    assert not dist.is_initialized()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("shard_each", [["Block"], []])
def test_weights_brought_for_the_layer_at_work_are_a_row_of_their_own(group, shard_each):
    placement = {"weights": "host", "activations": "host", "shard_each": shard_each}
    found = run_here("traced", source="decoder", args=DECODER, extra={"placement": placement})
    phases = found.table("traced")["phases"]
    sizes = {name: 4 * one.numel() for name, one in session().model.named_parameters()}
    blocks = sum(size for name, size in sizes.items() if name.startswith("blocks."))
    # One of the two blocks at a time, and the root's own, which stay from the forward to the backward.
    wanted = sum(sizes.values()) - (blocks // 2 if shard_each else 0)
    assert [phases[name]["rows"]["unsharded_weights"] for name in ("forward", "backward")] == [wanted, wanted]
    assert phases["step"]["rows"].get("unsharded_weights", 0) == 0
    assert all(sum(one["rows"].values()) == one["requested_bytes"] for one in phases.values())


@pytest.mark.parametrize(
    ("placement", "more", "sentence"),
    [
        (
            {**SHARDED, "shard_each": ["Layer"]},
            {},
            "placement.shard_each names Layer, which the model does not have",
        ),
        (SHARDED, {"precision": "fp16-autocast"}, "fp16-autocast scales gradients"),
        (
            SHARDED,
            {"compile": True},
            "workload.step.compile and a placement on the host are not measured together",
        ),
        (
            SAVED,
            {"compile": True},
            "workload.step.compile and a placement on the host are not measured together",
        ),
    ],
)
def test_what_was_never_seen_to_go_together_is_refused(group, placement, more, sentence):
    made = plan(
        "timed", "decoder", DECODER, extra={"placement": placement}, precision=more.get("precision", "fp32")
    )
    made.step["compile"] = "compile" in more
    with pytest.raises(TaskError) as caught:
        Session(made, Events())
    assert caught.value.sentence.startswith(sentence)
    assert caught.value.hint


def test_a_model_that_torch_cannot_shard_is_refused_with_its_reason(group, tmp_path):
    scalar = OWN.replace("torch.nn.Linear(3, 4)", "torch.nn.Parameter(torch.tensor(1.0))")
    (tmp_path / "work.py").write_text(scalar)
    with pytest.raises(TaskError, match="torch cannot keep this model's weights on the host: fully_shard: "):
        session({**SHARDED, "shard_each": []}, source="work.py", folder=tmp_path)


def test_a_workload_that_shards_itself_is_not_run_under_another_policy(group, tmp_path):
    (tmp_path / "work.py").write_text(OWN + "def shard(model, mesh): pass\n")
    with pytest.raises(TaskError, match="own shard"):
        session({**SHARDED, "shard_each": []}, source="work.py", folder=tmp_path)


def test_nothing_is_kept_on_the_host_where_nothing_is_asked_for():
    one = session()
    assert one.offload.readings(one, "steady") == []
    assert one.offload.home == "cpu"
    assert not dist.is_initialized()
