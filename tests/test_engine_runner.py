"""What the runner makes of its steps, in this process; its signals and its death are in test_engine_runs."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from pathlib import Path

import pytest
from children.helpers import PLAYER, forget_environment, pid_in, plan, until

from tui.engine import runner, runs
from tui.engine.context import Context, Options, StepResult
from tui.engine.device import Device
from tui.engine.journal import Reader
from tui.errors import RunError, SaveError, UsageError
from tui.probe.protocol import CheckDone, MeasurementEnded, RunEnded, StepEnded
from tui.project import paths

PROJECT = 'schema = 1\n[workload]\nsource = "mlp"\n'


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    forget_environment(monkeypatch, tmp_path)
    (tmp_path / "mlp.toml").write_text(PROJECT)
    return tmp_path / "mlp.toml"


async def go(project: Path, *steps: str, device_id: str = "cpu") -> tuple[int, list]:
    """Run the steps; the code and every event that was shown."""
    seen: list = []
    kind = "cpu" if device_id == "cpu" else "cuda"
    held = Device(kind, device_id, "a device", 2**30)
    code = await runner.run(project, steps, Options(), seen.append, find_device=lambda *_: held)
    return code, seen


def ends(name, **result):
    async def step(context: Context) -> StepResult:
        return StepResult(**result)

    return name, step


def raises(name, error):
    async def step(context: Context) -> StepResult:
        raise error

    return name, step


async def test_steps_are_done_in_order_and_the_last_event_is_the_end(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *ends("verify", outcome="verified", text="VERIFIED", result_id="v-1"))
    monkeypatch.setitem(runner.STEPS, *ends("report", outcome="done"))
    code, seen = await go(project, "verify", "report")
    assert code == 0
    names = [type(event).__name__ for event in seen]
    assert names == ["RunStarted", "StepStarted", "StepEnded", "StepStarted", "StepEnded", "RunEnded"]
    assert seen[2] == StepEnded("verify", "verified", 0, "VERIFIED", "v-1")


async def test_a_run_that_a_full_disk_cannot_record_says_where(project, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(runner, "announce", full)
    with pytest.raises(RunError, match="the run cannot be recorded: no space left on device") as caught:
        await go(project, "verify")
    assert caught.value.where == str(paths.runs_folder())


async def test_what_is_shown_is_what_is_journalled(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *ends("verify", outcome="verified"))
    _, seen = await go(project, "verify")
    (run,) = runs.runs()
    assert list(Reader(run.journal).events()) == seen
    assert run.ended == 0


async def test_a_run_goes_on_after_a_negative_verdict_and_returns_its_code(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *ends("probe", outcome="does-not-fit", code=1, text="DOES NOT FIT"))
    monkeypatch.setitem(runner.STEPS, *ends("report", outcome="done"))
    code, seen = await go(project, "probe", "report")
    assert code == 1
    assert seen[-1] == RunEnded(1, "DOES NOT FIT")
    assert [event.step for event in seen if isinstance(event, StepEnded)] == ["probe", "report"]


async def test_a_run_stops_at_the_first_step_that_could_not_be_done(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *raises("probe", RunError("no interpreter", hint="name one")))
    monkeypatch.setitem(runner.STEPS, *ends("report", outcome="done"))
    code, seen = await go(project, "probe", "report")
    assert code == 4
    assert seen[-2:] == [
        StepEnded("probe", "failed", 4, "no interpreter; name one"),
        RunEnded(4, "no interpreter; name one"),
    ]


async def test_a_step_that_cannot_save_ends_with_its_own_code(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *raises("probe", SaveError("no space left")))
    code, _ = await go(project, "probe")
    assert code == 5


async def test_a_fault_of_a_step_is_a_sentence_and_its_traceback_goes_to_stderr(project, monkeypatch, capsys):
    monkeypatch.setitem(runner.STEPS, *raises("probe", ZeroDivisionError("division by zero")))
    code, seen = await go(project, "probe")
    assert code == 4
    assert seen[-1].text == (
        "step probe failed by a fault of peakmark's own: ZeroDivisionError: division by zero"
    )
    assert "Traceback" in capsys.readouterr().err


async def test_an_unknown_step_is_refused_before_anything_is_recorded(project):
    with pytest.raises(
        UsageError, match="there is no step dance; steps are params, verify, predict, probe, precision"
    ):
        await go(project, "dance")
    assert runs.runs() == []


async def test_a_step_measures_with_the_projects_interpreter_and_keeps_its_outcomes(project, monkeypatch):
    async def step(context: Context) -> StepResult:
        first = await context.measure(plan(context.state / "runs", "finishes", "p-1"), "one", boot=PLAYER)
        context.say(CheckDone("finite", "numerics", "finite", "pass", "2.0"))
        second = await context.measure(plan(context.state / "runs", "fails", "p-2"), "two", boot=PLAYER)
        assert [first, second] == context.outcomes
        assert context.load().spec.workload.source == "mlp"
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    code, seen = await go(project, "probe")
    assert code == 0
    assert [event for event in seen if isinstance(event, MeasurementEnded)] == [
        MeasurementEnded("p-1", "done"),
        MeasurementEnded("p-2", "failed", "workload.py:21: batch(n=8) gave 4 samples; return n of them"),
    ]
    (run,) = runs.runs()
    journalled = [type(event).__name__ for event in Reader(run.journal).events()]
    assert "ResultReady" not in journalled
    assert "CheckDone" in journalled


@pytest.mark.parametrize(("device_id", "visible"), [("cpu", ""), ("GPU-1f0c", "GPU-1f0c")])
async def test_a_child_sees_the_devices_of_the_run_alone(project, monkeypatch, device_id, visible):
    async def step(context: Context) -> StepResult:
        looking = plan(context.state / "runs", "shows_surroundings", "p-1", keys=["CUDA_VISIBLE_DEVICES"])
        outcome = await context.measure(looking, "looks around", boot=PLAYER)
        return StepResult(str(outcome.results["surroundings"]["environment"]["CUDA_VISIBLE_DEVICES"]))

    monkeypatch.setitem(runner.STEPS, "probe", step)
    _, seen = await go(project, "probe", device_id=device_id)
    assert seen[-2].outcome == visible


async def test_a_missing_interpreter_is_told_with_the_line_of_the_local_file(project, monkeypatch):
    project.with_name("mlp.local.toml").write_text('[environment]\npython = "/no/such/python"\n')

    async def step(context: Context) -> StepResult:
        await context.measure(plan(context.state / "runs", "finishes", "p-1"), "one", boot=PLAYER)
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    code, seen = await go(project, "probe")
    assert code == 4
    where = project.with_name("mlp.local.toml")
    assert seen[-1].text.startswith(
        f'{where}:2: environment.python = "/no/such/python" does not exist; correct'
    )
    assert [type(event).__name__ for event in seen][-3:] == ["MeasurementEnded", "StepEnded", "RunEnded"]


async def test_sigterm_lets_the_step_save_and_measures_nothing_more(project, monkeypatch):
    saved = []

    async def step(context: Context) -> StepResult:
        waiting = plan(context.state / "runs", "waits", "p-1", child=str(project.parent / "child"))
        outcome = await context.measure(waiting, "waits", boot=PLAYER)
        saved.append(outcome.word)
        await context.measure(plan(context.state / "runs", "finishes", "p-2"), "never", boot=PLAYER)
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    monkeypatch.setitem(runner.STEPS, *ends("report", outcome="done"))
    running = asyncio.create_task(go(project, "probe", "report"))
    await until(lambda: pid_in(project.parent / "child"), "the child")
    os.kill(os.getpid(), signal.SIGTERM)
    code, seen = await asyncio.wait_for(running, 20)
    assert (code, saved) == (143, ["cancelled"])
    assert seen[-1] == RunEnded(143, "stopped by SIGTERM in step probe")
    assert [event.id for event in seen if isinstance(event, MeasurementEnded)] == ["p-1"]


async def test_a_step_that_is_not_measuring_is_stopped_too(project, monkeypatch):
    begun = asyncio.Event()

    async def step(context: Context) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    running = asyncio.create_task(go(project, "probe"))
    await begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
    code, seen = await asyncio.wait_for(running, 20)
    assert code == 130
    assert seen[-2] == StepEnded("probe", "cancelled", 130, "stopped before it was done")


async def test_a_hangup_that_was_ignored_from_the_start_stays_ignored(project, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def step(context: Context) -> StepResult:
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(10):  # where the event loop would notice
            await asyncio.sleep(0)
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    try:
        code, _ = await go(project, "probe")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert code == 0


async def test_a_run_whose_task_is_cancelled_still_writes_its_end(project, monkeypatch):
    begun = asyncio.Event()

    async def step(context: Context) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        return StepResult("done")

    monkeypatch.setitem(runner.STEPS, "probe", step)
    running = asyncio.create_task(go(project, "probe"))
    await begun.wait()
    running.cancel()
    code, seen = await asyncio.wait_for(running, 20)
    assert code == 143
    assert isinstance(seen[-1], RunEnded)


async def test_a_viewer_that_fails_does_not_lose_the_end_of_the_journal(project, monkeypatch):
    monkeypatch.setitem(runner.STEPS, *ends("probe", outcome="done"))

    def fail(event):
        raise BrokenPipeError("the terminal is gone")

    held = Device("cpu", "cpu", "a device", 1)
    with pytest.raises(BrokenPipeError):
        await runner.run(project, ["probe"], Options(), fail, find_device=lambda *_: held)
    (run,) = runs.runs()
    assert run.ended == 4


async def test_the_steps_of_the_package_are_found_by_their_names():
    assert list(runner.STEPS) == ["params", "verify", "predict", "probe", "precision", "restore", "report"]
