"""Real child processes, each ending in its own way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from children.helpers import PLAYER, is_running, pid_in, plan, play, until

from tui.engine import child, process, processes
from tui.engine.outcome import placed
from tui.errors import RunError
from tui.probe.protocol import Failed, Finished, PhaseEntered, ResultReady, Started


async def test_a_child_that_finishes_is_done_and_its_events_are_kept_in_order(tmp_path):
    outcome, seen = await play(tmp_path, "finishes")
    assert (outcome.word, outcome.sentence, outcome.returncode) == ("done", "", 0)
    assert [type(event).__name__ for event in seen] == [
        "Started",
        "PhaseEntered",
        "EnvironmentSeen",
        "CheckDone",
        "ReadingTaken",
        "ResultReady",
        "Finished",
    ]
    assert outcome.results == {"timed": {"step_ms": [1.0, 2.0]}}
    assert [check.key for check in outcome.checks] == ["finite"]
    assert [reading.bytes for reading in outcome.readings] == [4096]
    assert outcome.environment is not None
    assert outcome.environment.facts == {"torch": "2.13.0"}
    assert outcome.started <= outcome.ended
    assert outcome.malformed == 0


async def test_plan_log_and_journal_lie_in_one_folder(tmp_path):
    outcome, _ = await play(tmp_path / "runs", "finishes")
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["p-1.jsonl", "p-1.log", "p-1.plan.json"]
    assert outcome.log == str(tmp_path / "runs" / "p-1.log")


async def test_a_child_that_raises_crashed_and_its_last_words_are_quoted(tmp_path):
    outcome, _ = await play(tmp_path / "runs", "raises")
    assert outcome.word == "crashed"
    assert outcome.sentence == (
        "the probe child ended with exit code 1 in phase backward, without a result; "
        'it last printed "ValueError: a tensor is missing"; log: runs/p-1.log'
    )


@pytest.mark.parametrize("code", [7, 137, 247])
async def test_an_exit_code_is_reported_as_it_is(tmp_path, code):
    outcome, _ = await play(tmp_path / "runs", "exits_at_once", code=code)
    assert (outcome.word, outcome.returncode) == ("crashed", code)
    assert f"ended with exit code {code} before it entered a phase" in outcome.sentence


async def test_a_failure_that_the_child_explains_is_told_in_its_words(tmp_path):
    outcome, _ = await play(tmp_path, "fails")
    assert outcome.word == "failed"
    assert outcome.sentence == "workload.py:21: batch(n=8) gave 4 samples; return n of them"


async def test_out_of_memory_is_an_outcome_of_its_own(tmp_path):
    outcome, _ = await play(tmp_path, "runs_out_of_memory")
    assert outcome.word == "out-of-memory"
    assert outcome.failure is not None
    assert outcome.failure.details == {"asked_bytes": 4096}


async def test_a_child_ended_by_sigkill_says_signal_phase_and_log(tmp_path, monkeypatch):
    counts = iter([4, 4])
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: next(counts))
    outcome, _ = await play(tmp_path / "runs", "is_killed")
    assert (outcome.word, outcome.returncode, outcome.phase) == ("crashed", -9, "backward")
    assert outcome.sentence == (
        "the probe child was ended by SIGKILL in phase backward, not by peakmark; log: runs/p-1.log"
    )


async def test_where_a_timed_iteration_ended_is_not_said_finer_than_it_is_known(tmp_path):
    outcome, _ = await play(tmp_path, "is_killed", timing=True)
    assert "was ended by SIGKILL in a timed iteration, not by peakmark" in outcome.sentence


async def test_a_journal_that_was_removed_meanwhile_is_told_as_that(tmp_path):
    outcome, _ = await play(tmp_path / "runs", "loses_its_journal")
    assert (outcome.word, outcome.returncode) == ("crashed", 0)
    assert outcome.sentence.startswith("the journal of the probe child was removed while it ran, last seen ")
    assert outcome.sentence.endswith(f"is lost; leave {tmp_path / 'runs'} alone until a run has ended")


async def test_a_risen_count_of_out_of_memory_kills_is_named_as_the_likely_cause(tmp_path, monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: next(counts))
    outcome, _ = await play(tmp_path / "runs", "is_killed")
    assert (
        "the kernel's out-of-memory count rose by 1, so host memory is the likely cause" in outcome.sentence
    )


async def test_a_kill_where_the_kernels_count_cannot_be_read_is_only_possibly_for_want_of_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(processes, "out_of_memory_kills", lambda: None)
    outcome, _ = await play(tmp_path / "runs", "is_killed")
    assert (
        "possibly by the kernel for want of memory: its count of such kills cannot be read"
        in outcome.sentence
    )


async def test_a_segmentation_fault_is_named(tmp_path):
    outcome, _ = await play(tmp_path, "is_killed", signal=int(signal.SIGSEGV))
    assert outcome.returncode == -signal.SIGSEGV
    assert "was ended by SIGSEGV in phase backward, not by peakmark" in outcome.sentence


async def test_cancelling_ends_a_child_that_ignores_sigterm_and_everything_it_started(tmp_path):
    files = {key: str(tmp_path / key) for key in ("child", "grandchild", "outsider")}
    measuring = asyncio.create_task(play(tmp_path, "hangs", **files))
    await until(lambda: pid_in(tmp_path / "child"), "the child")
    pids = [pid_in(Path(path)) for path in files.values()]
    measuring.cancel()
    outcome, _ = await asyncio.wait_for(measuring, 10)
    assert outcome.word == "cancelled"
    assert outcome.returncode == -signal.SIGKILL
    await until(lambda: not any(map(is_running, pids)), "the grandchildren to go")
    assert not processes.group_is_alive(pids[0])


async def test_a_child_that_even_sigkill_does_not_end_is_told_and_not_waited_for(tmp_path, monkeypatch):
    files = {key: str(tmp_path / key) for key in ("child", "grandchild", "outsider")}
    measuring = asyncio.create_task(play(tmp_path, "hangs", **files))
    pid = await until(lambda: pid_in(tmp_path / "child"), "the child")
    with monkeypatch.context() as broken:
        broken.setattr(process, "KILLED_S", 0.1)
        broken.setattr(processes, "signal_group", lambda group, number: None)
        broken.setattr(processes, "signal_same", lambda pid, started, number: False)
        measuring.cancel()
        outcome, _ = await asyncio.wait_for(measuring, 10)
    assert outcome.returncode is None
    assert outcome.sentence.startswith(f"the probe child (pid {pid}) does not end, not even by SIGKILL")
    for path in files.values():
        os.kill(pid_in(Path(path)), signal.SIGKILL)
    await until(lambda: not is_running(pid), "the child to go")


async def test_what_a_stopped_child_still_says_is_kept(tmp_path):
    seen = []
    measuring = asyncio.create_task(
        child.measure(plan(tmp_path, "saves_when_stopped"), sys.executable, (), seen.append, boot=PLAYER)
    )
    await until(lambda: any(isinstance(event, PhaseEntered) for event in seen), "the first phase")
    measuring.cancel()
    outcome = await measuring
    assert (outcome.word, outcome.sentence) == ("cancelled", "stopped in phase backward")
    assert outcome.results == {"partial": {"iterations": 3}}
    assert seen[-1] == ResultReady("partial", {"iterations": 3})


async def test_a_second_cancellation_ends_the_child_at_once(tmp_path):
    files = {key: str(tmp_path / key) for key in ("child", "grandchild", "outsider")}
    hanging = plan(tmp_path, "hangs", **files)
    measuring = asyncio.create_task(
        child.measure(hanging, sys.executable, (), lambda event: None, boot=PLAYER, grace_s=60)
    )
    pid = await until(lambda: pid_in(tmp_path / "child"), "the child")
    measuring.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    measuring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(measuring, 10)
    await until(lambda: not is_running(pid), "the child to go")


async def test_a_child_cancelled_while_it_is_being_started_is_ended_too(tmp_path):
    measuring = asyncio.create_task(play(tmp_path, "waits", child=str(tmp_path / "child")))
    await asyncio.sleep(0)
    measuring.cancel()
    outcome, _ = await asyncio.wait_for(measuring, 10)
    assert outcome.word == "cancelled"
    assert outcome.returncode is not None


async def test_a_measurement_that_was_cancelled_leaves_its_task_usable(tmp_path):
    async def stop_and_go_on():
        await play(tmp_path, "waits", child=str(tmp_path / "child"))
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    task = asyncio.create_task(stop_and_go_on())
    await until(lambda: pid_in(tmp_path / "child"), "the child")
    task.cancel()
    assert await task == 0


async def test_megabytes_of_garbage_on_stdout_go_to_the_log_and_disturb_nothing(tmp_path):
    outcome, _ = await play(tmp_path, "prints_garbage")
    assert (outcome.word, outcome.malformed) == ("done", 0)
    assert os.path.getsize(outcome.log) > 4_000_000


async def test_a_last_line_without_its_end_is_no_event_and_not_malformed(tmp_path):
    outcome, seen = await play(tmp_path, "writes_half_a_line")
    assert (outcome.word, outcome.malformed, outcome.returncode) == ("crashed", 0, 0)
    assert [type(event) for event in seen] == [Started, PhaseEntered]


async def test_malformed_lines_are_counted_and_passed_over(tmp_path):
    outcome, seen = await play(tmp_path, "writes_nonsense")
    assert (outcome.word, outcome.malformed) == ("done", 2)
    assert isinstance(seen[-1], Finished)


async def test_a_grandchild_that_outlives_a_finished_child_is_ended(tmp_path):
    outcome, _ = await play(tmp_path, "leaves_a_grandchild", grandchild=str(tmp_path / "grandchild"))
    assert outcome.word == "done"
    pid = pid_in(tmp_path / "grandchild")
    await until(lambda: not is_running(pid), "the grandchild to go")


async def test_a_process_with_a_session_of_its_own_is_ended_with_a_finished_child(tmp_path):
    outcome, _ = await play(tmp_path, "leaves_an_outsider", outsider=str(tmp_path / "outsider"))
    assert outcome.word == "done"
    pid = pid_in(tmp_path / "outsider")
    await until(lambda: not is_running(pid), "the outsider to go")


async def test_a_child_that_closes_its_journal_crashed(tmp_path):
    outcome, _ = await play(tmp_path, "closes_its_journal")
    assert (outcome.word, outcome.returncode) == ("crashed", 3)
    assert "ended with exit code 3 in phase backward, without a result" in outcome.sentence


async def test_a_journal_on_a_full_disk_is_named_as_the_cause_and_stays_whole(tmp_path):
    outcome, seen = await play(tmp_path, "fills_the_disk")
    assert outcome.word == "crashed"
    assert "could not write its journal to the end in phase backward: is the disk of" in outcome.sentence
    assert len(seen) == 2
    assert Path(outcome.journal).read_bytes().endswith(b"\n")


async def test_an_interpreter_that_is_missing_is_named_with_its_line(tmp_path):
    missing = str(tmp_path / "python")
    with pytest.raises(RunError) as caught:
        await child.measure(
            plan(tmp_path, "finishes"), missing, (), lambda event: None, where=lambda key: "gpt.local.toml:2"
        )
    assert caught.value.sentence() == (
        f'gpt.local.toml:2: environment.python = "{missing}" does not exist; '
        f"correct it or delete the line to use {sys.executable}"
    )
    assert caught.value.code == 4


async def test_an_interpreter_that_may_not_be_executed_is_refused(tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\n")
    with pytest.raises(RunError, match="is not a program that may be executed"):
        await child.measure(plan(tmp_path, "finishes"), str(tmp_path / "python"), (), lambda event: None)


async def test_a_launch_prefix_that_fails_before_python_is_quoted(tmp_path):
    prefix = ("sh", "-c", "echo Unable to confirm allocation >&2; exit 1")
    with pytest.raises(RunError) as caught:
        await play(tmp_path, "finishes", launch=prefix)
    assert 'ended with 1 before Python started: "Unable to confirm allocation"' in caught.value.message
    assert 'environment.launch "sh -c' in caught.value.message


async def test_a_launch_prefix_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(RunError, match=r'environment.launch = "/no/such/srun" does not exist'):
        await play(tmp_path, "finishes", launch=("/no/such/srun", "--overlap"))


async def test_a_launch_prefix_that_works_measures_and_is_not_taken_for_the_parent(tmp_path):
    outcome, _ = await play(tmp_path, "shows_surroundings", launch=("env", "--"), keys=[])
    assert outcome.results["surroundings"]["parent"] == 0


async def test_a_signal_behind_a_launch_prefix_is_told_from_the_exit_code(tmp_path):
    prefix = ("sh", "-c", '"$@"; exit $?', "sh")
    outcome, _ = await play(tmp_path, "is_killed", launch=prefix)
    assert outcome.returncode == 137
    assert "was ended by SIGKILL in phase backward" in outcome.sentence


async def test_a_child_sees_the_users_environment_without_ours(tmp_path, monkeypatch):
    ours = str(Path(child.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", f"{ours}{os.pathsep}/users/own")
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    outcome, _ = await play(
        tmp_path, "shows_surroundings", keys=["PYTHONPATH", "PEAKMARK_STATE", "WANDB_MODE"]
    )
    seen = outcome.results["surroundings"]
    assert seen["environment"] == {
        "PYTHONPATH": "/users/own",
        "PEAKMARK_STATE": None,
        "WANDB_MODE": "offline",
    }
    assert seen["parent"] == os.getpid()
    assert seen["session"] is True


async def test_variables_for_the_child_alone_are_set_there(tmp_path):
    outcome = await child.measure(
        plan(tmp_path, "shows_surroundings", keys=["CUDA_VISIBLE_DEVICES"]),
        sys.executable,
        (),
        lambda event: None,
        boot=PLAYER,
        variables={"CUDA_VISIBLE_DEVICES": "GPU-1f0c"},
    )
    assert outcome.results["surroundings"]["environment"] == {"CUDA_VISIBLE_DEVICES": "GPU-1f0c"}


async def test_a_viewer_that_fails_takes_the_child_with_it(tmp_path):
    def fail(event):
        raise BrokenPipeError("the terminal is gone")

    waiting = plan(tmp_path, "waits", child=str(tmp_path / "child"))
    with pytest.raises(BrokenPipeError):
        await child.measure(waiting, sys.executable, (), fail, boot=PLAYER, grace_s=0.5)
    assert not is_running(pid_in(tmp_path / "child"))


async def test_a_journal_that_exists_already_is_not_taken_for_a_new_one(tmp_path):
    await play(tmp_path, "finishes")
    with pytest.raises(RunError, match="the journal of p-1 exists already"):
        await play(tmp_path, "finishes")


async def test_no_descriptor_is_left_open(tmp_path):
    await play(tmp_path, "finishes", name="p-0")
    before = set(os.listdir("/proc/self/fd"))
    await play(tmp_path, "finishes", name="p-1")
    with pytest.raises(RunError):
        await play(tmp_path, "finishes", name="p-2", launch=("/no/such/srun",))
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (Failed("workload", "workload.frozen names 'x', which matches nothing"), "p.toml:workload.frozen"),
        (
            Failed("unsupported", "workload.step.compile = true needs a compiler"),
            "p.toml:workload.step.compile",
        ),
        (Failed("workload", "workload.py:3: not valid Python"), ""),
        (Failed("workload", "build() gave int", where="workload.py:1"), "workload.py:1"),
        (Failed("internal", "workload.args broke us"), ""),
        (Failed("workload", "no such file"), ""),
    ],
)
def test_a_childs_sentence_about_a_key_says_where_the_key_stands(failure, where):
    assert placed(failure, lambda key: f"p.toml:{key}").where == where
