"""Detached runs in processes of their own: started, found, watched, stopped and killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from children.helpers import PEAKMARK, forget_environment, is_running, pid_in, until

from tui.engine import runs
from tui.engine.follow import Seen, follow
from tui.engine.record import record_path
from tui.errors import ProjectError, RunError, UsageError
from tui.probe.protocol import (
    Finished,
    MeasurementEnded,
    MeasurementStarted,
    PhaseEntered,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    encode,
)

PROJECT = 'schema = 1\n[workload]\nsource = "mlp"\n'


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A project file; what is still running at the end of a test is ended."""
    forget_environment(monkeypatch, tmp_path)
    monkeypatch.setattr(runs, "command", lambda: [sys.executable, str(PEAKMARK)])
    (tmp_path / "mlp.toml").write_text(PROJECT)
    yield tmp_path / "mlp.toml"
    for run in runs.runs():
        runs.stop(run, 1.0)


async def started(project: Path, *steps: str, options: tuple[str, ...] = ()) -> runs.Run:
    return await asyncio.to_thread(runs.start, project, steps, options)


async def everything(run: runs.Run, from_start: bool = True) -> list[Seen]:
    return [seen async for seen in follow(run, from_start, poll_s=0.01)]


async def test_a_run_that_was_left_alone_is_found_again_with_its_end(project):
    run = await started(project, "params", "verify")
    await until(lambda: runs.find(run.id).ended is not None, "the end")
    await until(lambda: runs.find(run.id).alive is False, "the process to go")
    (found,) = runs.runs()
    assert (found.id, found.ended, found.alive) == (run.id, 0, False)
    assert found.project == project.resolve()
    assert found.steps == ("params", "verify")
    assert found.id.startswith("run-2")
    assert runs.run_of(project) is None


async def test_following_shows_both_journals_in_order(project):
    run = await started(project, "verify")
    seen = await asyncio.wait_for(everything(run), 20)
    assert [(type(one.event).__name__, one.measurement) for one in seen] == [
        ("RunStarted", None),
        ("StepStarted", None),
        ("MeasurementStarted", None),
        *[
            (name, f"{run.id}-verify")
            for name in (
                "Started",
                "PhaseEntered",
                "EnvironmentSeen",
                "CheckDone",
                "ReadingTaken",
                "ResultReady",
                "Finished",
            )
        ],
        ("MeasurementEnded", None),
        ("StepEnded", None),
        ("RunEnded", None),
    ]
    assert seen[0].event == RunStarted(run.id, run.pid, str(project.resolve()), ["verify"], "cpu")
    assert seen[2].event.journal == f"runs/{run.id}-verify.jsonl"
    assert seen[-1].event == RunEnded(0)


async def test_a_run_is_found_while_it_lasts_and_stopped_with_its_child(project):
    run = await started(project, "probe")
    child = await until(lambda: pid_in(project.parent / "child"), "the child")
    assert runs.run_of(project) == runs.find(run.id[:-1])
    assert runs.find(run.id).alive is True
    await asyncio.to_thread(runs.stop, run)
    assert not is_running(child)
    stopped = runs.find(run.id)
    assert (stopped.alive, stopped.ended) == (False, 128 + signal.SIGTERM)
    events = [one.event for one in await everything(run)]
    assert events[-3:] == [
        MeasurementEnded(f"{run.id}-probe", "cancelled", "stopped in phase backward"),
        StepEnded("probe", "cancelled", 0, "stopped in phase backward", f"{run.id}-probe"),
        RunEnded(143, "stopped by SIGTERM in step probe"),
    ]


async def test_stopping_a_run_that_has_ended_does_nothing(project):
    run = await started(project, "params")
    await until(lambda: runs.refresh(run).alive is False, "the end")
    runs.stop(runs.refresh(run))
    assert runs.find(run.id).ended == 0


async def test_a_runner_ended_by_sigkill_takes_its_child_along_and_frees_the_device(project):
    run = await started(project, "probe")
    child = await until(lambda: pid_in(project.parent / "child"), "the child")
    os.kill(run.pid, signal.SIGKILL)
    await until(lambda: not is_running(child), "the child to go")
    seen = await asyncio.wait_for(everything(run), 20)
    assert isinstance(seen[-2].event, PhaseEntered)
    assert seen[-1].event.code == 4
    assert seen[-1].event.text.startswith(f"run {run.id} was ended before it finished, and did not say why")
    again = await started(project, "verify")
    assert (await everything(again))[-1].event == RunEnded(0)


async def test_two_runs_cannot_have_one_device(project):
    first = await started(project, "probe")
    with pytest.raises(RunError) as caught:
        await started(project, "verify")
    assert caught.value.message.startswith(
        f"cpu is being measured by run {first.id} (uid {os.geteuid()}, pid {first.pid}, since "
    )
    assert caught.value.message.endswith(f"; wait, or: peakmark stop {first.id}")
    assert [run.id for run in runs.runs()] == [first.id]


async def test_runs_on_two_devices_go_side_by_side(project):
    await started(project, "probe")
    other = await started(project, "verify", options=("--device", "GPU-77d2"))
    assert (await everything(other))[-1].event == RunEnded(0)
    assert runs.runs()[0].id == other.id


async def test_a_run_that_measures_nothing_waits_for_nobody(project):
    await started(project, "probe")
    run = await started(project, "params")
    assert run.device == "none"
    assert (await everything(run))[-1].event == RunEnded(0)


async def test_a_run_that_cannot_begin_says_why_with_its_code(project):
    project.write_text("schema = 1\n[workload\n")
    with pytest.raises(RunError, match="not valid TOML") as caught:
        await started(project, "probe")
    assert caught.value.code == ProjectError.code
    with pytest.raises(RunError, match=r"there is no step dance; steps are params, verify, predict, probe"):
        await started(project, "dance")
    assert runs.runs() == []


async def test_a_viewer_that_comes_later_sees_only_what_is_new(project):
    run = await started(project, "probe")
    await until(lambda: pid_in(project.parent / "child"), "the child")
    journal = run.journal.with_name(f"{run.id}-probe.jsonl")
    await until(lambda: b"PhaseEntered" in journal.read_bytes(), "the phase")
    seen: list[Seen] = []
    async with aclosing(follow(run, from_start=False, poll_s=0.01)) as events:
        watching = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        with journal.open("ab") as handle:
            handle.write(encode(PhaseEntered("validate")))
        seen.append(await asyncio.wait_for(watching, 10))
    assert seen == [Seen(PhaseEntered("validate"), f"{run.id}-probe")]


async def test_a_viewer_that_comes_too_late_still_sees_the_end(project):
    run = await started(project, "params")
    await until(lambda: runs.refresh(run).ended is not None, "the end")
    assert [seen.event for seen in await everything(run, from_start=False)] == [RunEnded(0)]


async def test_catching_up_on_a_long_run_leaves_the_event_loop_free(project, tmp_path):
    run = await started(project, "params")
    await until(lambda: runs.refresh(run).alive is False, "the end")
    child = run.journal.with_name("long.jsonl")
    child.write_bytes(encode(PhaseEntered("forward", 1)) * 5000 + encode(Finished()))
    run.journal.write_bytes(
        encode(StepStarted("probe"))
        + encode(MeasurementStarted("long", "probe", "timed", "a long one", "runs/long.jsonl"))
        + encode(MeasurementEnded("long", "done"))
        + encode(RunEnded(0))
    )
    clock = asyncio.get_running_loop().time
    gaps: list[float] = []

    async def watch() -> None:
        last = clock()
        while True:
            await asyncio.sleep(0)
            gaps.append(clock() - last)
            last = clock()

    watching = asyncio.create_task(watch())
    seen = await everything(run)
    watching.cancel()
    assert len(seen) == 5000 + 1 + 4
    # The median, because the machine that tests run on is shared; a loop that never rests has a single gap.
    assert len(gaps) > 2
    assert sorted(gaps)[len(gaps) // 2] < 0.05


async def test_a_reused_process_id_is_not_taken_for_the_run(project):
    run = await started(project, "params")
    await until(lambda: runs.refresh(run).alive is False, "the end")
    path = record_path(run.id)
    record = json.loads(path.read_text())
    record["pid"] = os.getpid()
    path.write_text(json.dumps(record))
    found = runs.find(run.id)
    assert found.alive is False
    runs.stop(found)  # must not end this process


async def test_a_run_of_before_a_restart_of_the_machine_is_not_alive(project):
    run = await started(project, "probe")
    path = record_path(run.id)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "boot": "another"}))
    assert runs.find(run.id).alive is False
    path.write_text(json.dumps(record))


async def test_a_run_on_another_machine_is_neither_alive_nor_stopped(project):
    run = await started(project, "probe")
    path = record_path(run.id)
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "host": "node17"}))
    found = runs.find(run.id)
    assert found.alive is None
    with pytest.raises(RunError, match=f"run {run.id} is on node17, not on this machine"):
        runs.stop(found)
    assert runs.run_of(project) is None
    path.write_text(json.dumps(record))


def test_looking_for_a_run_that_is_not_there_says_how_to_list_them(project):
    with pytest.raises(UsageError, match="there is no run run-9; list them with: peakmark runs"):
        runs.find("run-9")


async def test_a_prefix_of_several_runs_is_refused(project):
    for _ in range(2):
        await started(project, "params")
    with pytest.raises(UsageError, match="run- begins the ids of 2 runs; write more of it"):
        runs.find("run-")


def test_records_that_cannot_be_read_are_passed_over(project):
    record_path("run-1").write_text("{")
    record_path("run-2").write_text('{"id": "run-2"}')
    assert runs.runs() == []


async def test_a_runner_that_ignores_sigterm_is_killed_after_the_grace(project, monkeypatch, tmp_path):
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import signal, sys, time\n"
        f"sys.path[:0] = [{str(Path(runs.__file__).parents[2])!r}]\n"
        "from pathlib import Path\n"
        "from tui.engine.record import announce\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "announce(sys.argv[6], Path(sys.argv[2]), [], 'cpu')\n"
        "time.sleep(120)\n"
    )
    monkeypatch.setattr(runs, "command", lambda: [sys.executable, str(stubborn)])
    run = await started(project, "probe")
    await asyncio.to_thread(runs.stop, run, 0.2)
    assert not is_running(run.pid)
    assert runs.find(run.id).ended is None


def test_the_real_command_does_not_take_a_package_of_our_name_from_the_current_folder(monkeypatch):
    monkeypatch.undo()
    assert runs.command() == [sys.executable, "-P", "-m", "tui"]


def test_a_record_that_makes_no_sense_is_passed_over(tmp_path, monkeypatch):
    import json
    import os

    from tui.engine import record
    from tui.engine.record import announce, read

    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path))
    run = announce("run-x", tmp_path / "p.toml", ("params",), "cpu")
    path = record.record_path(run.id)
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "started_at": 1e300}))
    assert read(path) is None
    path.unlink()
    os.mkfifo(path)
    assert read(path) is None


def test_no_name_stops_no_run():
    import pytest

    from tui.engine import runs
    from tui.errors import UsageError

    for nothing in ("", "  "):
        with pytest.raises(UsageError, match="no run is named"):
            runs.find(nothing)
