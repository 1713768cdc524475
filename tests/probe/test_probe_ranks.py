"""What one of several ranks makes of the plan, and which failures are only those of being left alone."""

import os

import pytest

from probe.helpers import plan
from tui.probe import ranks_here
from tui.probe.device import open_device
from tui.probe.protocol import Failed
from tui.probe.ranks_agent import arguments
from tui.probe.ranks_freed import Settled
from tui.probe.ranks_group import Group


@pytest.fixture
def second(monkeypatch):
    """This process is rank 1, started by the agent 17."""
    for name, value in (
        ("RANK", "1"),
        ("LOCAL_RANK", "1"),
        (ranks_here.AGENT, "17"),
        ("CUDA_VISIBLE_DEVICES", ""),
    ):
        monkeypatch.setenv(name, value)


def several(**more):
    return plan("timed", journal="runs/m-1.jsonl", extra={"ranks": {"count": 2, "strategy": "ddp", **more}})


def test_a_rank_has_a_journal_of_its_own_and_holds_to_what_started_it(second):
    own = ranks_here.own(several())
    assert (own.journal, own.parent, own.device) == ("runs/m-1.rank1.jsonl", 17, "cpu")
    assert not ranks_here.is_agent(own)


def test_a_rank_sees_its_own_gpu_alone_and_torch_counts_it_from_0(second):
    own = ranks_here.own(several(devices=["GPU-1f0c", "GPU-2a00"]))
    assert own.device == "cuda:GPU-2a00"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-2a00"
    assert os.environ["LOCAL_RANK"] == "0"


def test_what_the_runner_starts_is_the_agent_and_one_rank_needs_none(monkeypatch):
    monkeypatch.delenv(ranks_here.AGENT, raising=False)
    assert ranks_here.is_agent(several())
    assert not ranks_here.is_agent(plan("timed"))
    assert ranks_here.own(plan("timed")) == plan("timed")


def test_a_launcher_of_a_job_around_is_no_rank_of_ours(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert ranks_here.rank(plan("timed")) == 0


def test_torchrun_is_told_by_arguments_and_tries_once():
    assert "--max-restarts=0" in arguments(4, "a plan.json")
    assert arguments(4, "a plan.json")[-1] == "a plan.json"
    assert "--nproc-per-node=4" in arguments(4, "a plan.json")


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4", "gone"),
        ("RuntimeError: Timed out waiting 3000ms for recv operation to complete", "late"),
        ("ValueError: row 7 is not there", None),
        ("ValueError: timeout must be positive", None),
    ],
)
def test_being_left_alone_is_no_failure_of_ones_own(sentence, why):
    assert ranks_here.told_of_others(Failed("internal", sentence)).details.get("secondary") == why


def test_out_of_memory_is_always_ones_own():
    failed = Failed("out-of-memory", "gloo: Connection closed by peer: cannot allocate memory")
    assert ranks_here.told_of_others(failed).details == {}


def test_only_the_last_micro_batch_reduces_gradients():
    group = Group(several(), open_device("cpu"))
    group.wrapped = type("Wrapped", (), {"require_backward_grad_sync": True})()
    told = []
    for micro in range(3):
        group.begin(micro == 2)
        told.append(group.wrapped.require_backward_grad_sync)
    assert told == [False, False, True]


def test_a_collective_lets_go_of_its_work_when_it_was_waited_for():
    class Work:
        def wait(self):
            return True

    settled = Settled(Work())
    assert settled.wait()
    assert settled.is_completed()
