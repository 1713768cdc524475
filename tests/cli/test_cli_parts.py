"""Parts of the commands by themselves: progress lines, warnings, the demo's order, and what a step concludes."""

from __future__ import annotations

import dataclasses
import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_shell import TINY
from predictions import prediction

from tui.commands import new, predict, progress, steps
from tui.commands.ledger import ledger
from tui.commands.ledger_arguments import Shown
from tui.commands.output import Output
from tui.commands.progress import ProgressLines
from tui.commands.unverified import warning
from tui.engine.context import Options, interpreter, launch_prefix
from tui.errors import UsageError
from tui.probe.protocol import (
    MeasurementEnded,
    MeasurementStarted,
    Progress,
    StepEnded,
    StepStarted,
)
from tui.project import save
from tui.project.fingerprint import spec_hash
from tui.project.load import load
from tui.project.measured import Check, PhasePeak, Probe, Verify

AT = datetime(2026, 12, 1, tzinfo=UTC)
MIB = 2**20


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path("tiny.toml")
    path.write_text(TINY)
    return path


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    encoding = "utf-8"

    def __init__(self, live: bool) -> None:
        super().__init__()
        self.live = live

    def isatty(self) -> bool:
        return self.live


def shown(monkeypatch, clock, live: bool, events, quiet: bool = False) -> str:
    stream = Terminal(live)
    monkeypatch.setattr(sys, "stderr", stream)
    say = ProgressLines(Output(quiet=quiet))
    for at, event in events:
        clock[0] = at
        say(event)
    return stream.getvalue()


LONG = [
    (0.0, MeasurementStarted("p-1", "probe", "timed", "micro-batch 4, time", "runs/p-1.jsonl")),
    (4.0, Progress(0, 20, "timed iterations")),
    (9.0, Progress(5, 20, "timed iterations")),
    (14.0, Progress(10, 20, "timed iterations")),
    (24.0, MeasurementEnded("p-1", "done")),
    (24.0, StepEnded("probe", "fits", 0, "FITS", "p-1")),
]


def test_in_a_log_progress_is_a_line_now_and_then_with_elapsed_and_remaining_time(monkeypatch, clock):
    assert shown(monkeypatch, clock, False, LONG).splitlines() == [
        "  probe: micro-batch 4, time: 10 of 20 timed iterations, 14 s elapsed, 10 s remaining at this rate",
        "  probe: micro-batch 4, time  24 s",
        "probe: FITS",
    ]


def test_on_a_terminal_progress_is_redrawn_in_one_line_that_is_wiped_at_the_end(monkeypatch, clock):
    text = shown(monkeypatch, clock, True, LONG)
    assert "\r\x1b[K  probe: micro-batch 4, time: 5 of 20 timed iterations, 9.0 s elapsed, 15 s" in text
    assert text.endswith("\r\x1b[K  probe: micro-batch 4, time  24 s\nprobe: FITS\n")


def test_the_sentence_of_the_step_that_failed_is_left_to_the_error(monkeypatch, clock):
    failed = [
        (0.0, StepEnded("params", "disagree", 1, "they differ")),
        (0.0, StepEnded("verify", "failed", 2, "lstm.toml:7: no such key")),
        (0.0, StepEnded("probe", "cancelled", 4, "stopped; 1 of 3 is saved", "p-1")),
    ]
    assert shown(monkeypatch, clock, False, failed).splitlines() == [
        "params: they differ",
        "probe: stopped; 1 of 3 is saved",
    ]


def test_quiet_progress_says_nothing(monkeypatch, clock):
    assert shown(monkeypatch, clock, True, LONG, quiet=True) == ""


def test_a_terminal_that_has_gone_does_not_end_what_is_going_on(monkeypatch, clock):
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone(True))
    say = ProgressLines(Output())
    for _, event in LONG:
        say(event)


def verified(project: Path, outcome: str, spec: str = "") -> None:
    found = load(project)
    check = Check("step", "finite", "pass" if outcome == "verified" else "fail", "")
    one = Verify(AT, spec or spec_hash(found), "e-1", outcome, "fp32", 1.0, {"finite": check})
    id = f"v-{len(found.measured.verify)}"
    save.record(project, lambda old: dataclasses.replace(old, verify={**old.verify, id: one}))


def test_a_spec_that_was_never_verified_is_warned_of(project):
    assert warning(project) == "warning: this spec was never verified; first: peakmark verify tiny.toml"
    verified(project, "verified", "sha256:another1")
    assert "never verified" in warning(project)


def test_the_latest_verify_of_this_spec_decides(project):
    verified(project, "verified")
    assert warning(project) == ""
    verified(project, "failed")
    assert warning(project) == (
        "warning: Verify FAILED (v-1: finite): figures of this model are not to be relied on"
    )


def probed(project: Path, spec: str = "", **more) -> None:
    one = Probe(AT, spec or spec_hash(load(project)), "e-1", "fp32", 4, 2, **more)
    save.record(project, lambda old: dataclasses.replace(old, probe={f"p-{len(old.probe)}": one}))


def test_a_ledger_after_an_out_of_memory_exits_one_with_its_sentence(project, capsys):
    probed(project, outcome="out-of-memory", failure="out of memory: step")
    assert ledger(project, Shown(), Output()) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "DOES NOT FIT: out of memory: step."
    assert "STALE" not in said.out
    assert "has changed" not in said.err


def test_a_prediction_of_a_spec_that_has_changed_is_predicted_again_and_says_so_once(project, capsys):
    told = prediction("sha256:f0d2f0d2", allocator="expandable_segments:True")
    save.record(project, lambda old: dataclasses.replace(old, prediction={"f-0": told}))
    predict.show(project, Output())
    said = capsys.readouterr()
    assert (
        " ".join(said.out.split()).count(
            "STALE: the spec has changed since this was predicted (then f0d2, now "
        )
        == 1
    )
    assert "Next: peakmark predict tiny.toml --gpu 'NVIDIA H100 80GB HBM3' --alloc-conf" in " ".join(
        said.out.split()
    )
    assert said.err == ""
    predict.show(project, Output(json=True))
    assert "has changed since f-0 was predicted" in capsys.readouterr().err


def test_settings_of_the_allocator_that_torch_refuses_are_refused_before_anything_is_started(project):
    with pytest.raises(UsageError) as refused:
        predict.predict(project, Options(alloc_conf="expandable_segments:1"), Output())
    assert refused.value.sentence() == (
        "--alloc-conf: expandable_segments is True or False, spelled so, got 1"
    )
    assert not Path("state").exists()


def test_results_of_a_spec_that_has_changed_are_stale_on_both_streams(project, capsys):
    peak = PhasePeak(6, process_bytes=MIB, rows={"weights": 6})
    probed(project, "sha256:f0d2f0d2", outcome="fits", phases={"step": peak}, worst_phase="step")
    verified(project, "verified", "sha256:f0d2f0d2")
    now = spec_hash(load(project)).removeprefix("sha256:")[:4]
    for call, id, command in (
        (lambda: ledger(project, Shown(), Output()), "p-0", "probe"),
        (lambda: steps.show(project, "probe", Output()), "p-0", "probe"),
        (lambda: steps.show(project, "verify", Output()), "v-0", "verify"),
    ):
        call()
        said = capsys.readouterr()
        assert said.out.splitlines()[1].startswith("STALE: the spec has changed since this was measured")
        assert (
            f"warning: the spec has changed since {id} was measured (then f0d2, now {now}): "
            f"peakmark {command} tiny.toml measures it again"
        ) in said.err.splitlines()


def test_the_warning_comes_once_before_the_first_step_that_relies_on_it(project, capsys):
    seen = []
    warned = steps.Warned(project, Output(), seen.append)
    for name in ("params", "verify", "probe", "precision"):
        warned(StepStarted(name))
        warned(StepEnded(name, "done", 0))
    assert capsys.readouterr().err.count("\n") == 1
    assert len(seen) == 8


def test_the_first_step_without_a_result_is_what_failed():
    ended = steps.Ended(lambda event: None)
    for event in (StepEnded("params", "disagree", 1, "differ"), StepEnded("probe", "failed", 4, "crashed")):
        ended(event)
    error = ended.failed(4)
    assert error is not None
    assert (error.code, error.sentence()) == (4, "crashed")


def test_the_demo_runs_every_step_then_a_smaller_batch_and_ends_with_where_to_look(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    done = []

    def do(path, wanted, options, output, run_id=""):
        done.append((wanted, options.batches, options.accumulate))
        ended = steps.Ended(lambda event: None)
        for step in wanted:
            ended(StepEnded(step, "done", 0, "", f"{step[0]}-{len(done)}"))
        return 0, ended

    monkeypatch.setattr(new.steps, "do", do)
    monkeypatch.setattr(
        new, "ledger", lambda path, asked, output: output.lines([f"ledger of {asked.probe_id}"])
    )
    for _ in range(2):
        assert new.demo(Path("demo"), Options(), Output()) == 0
    first = capsys.readouterr()
    assert done[:2] == [
        (("params", "verify", "predict", "probe", "precision", "restore"), None, None),
        (("probe", "report"), (4,), 2),
    ]
    assert first.out.splitlines()[:4] == [
        "ledger of p-1",
        "",
        "report  demo/demo.md",
        "look    peakmark demo/demo.toml",
    ]
    assert "wrote demo/demo.toml" in first.err
    assert "demo/demo.toml exists: going on with it" in first.err


def test_programs_of_a_project_are_relative_to_its_folder_and_bare_names_are_not(project, tmp_path):
    local = Path("tiny.local.toml")
    local.write_text('[environment]\npython = "./venv/bin/python"\nlaunch = "tools/wrap --x a/b"\n')
    found = load(project)
    assert interpreter(found) == str(tmp_path / "venv/bin/python")
    assert launch_prefix(found) == [str(tmp_path / "tools/wrap"), "--x", "a/b"]
    local.write_text('[environment]\npython = "python3"\nlaunch = "srun --overlap"\n')
    assert interpreter(load(project)) == "python3"
    assert launch_prefix(load(project)) == ["srun", "--overlap"]
    local.unlink()
    assert (interpreter(load(project)), launch_prefix(load(project))) == (sys.executable, [])


def test_what_came_from_outside_moves_no_cursor(capsys):
    from tui.commands.output import Output

    Output().lines(["a\x1b[31mb\nc"])
    Output().talk("d\x1b]0;title\x07e")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("a [31mb c\n", "d ]0;title e\n")


def test_a_later_out_of_memory_is_not_outranked_by_an_earlier_fit():
    from dataclasses import replace

    from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC

    from tui.budget.choose import ledger_probe

    fits = CUDA_PROBE
    gone = replace(fits, outcome="out-of-memory", phases={}, worst_phase=None, failure="out of memory")
    measured = replace(CUDA, probe={"p-1": fits, "p-2": gone})
    assert ledger_probe(CUDA_SPEC, measured) == ("p-2", gone)
    stopped = replace(gone, outcome="cancelled")
    assert ledger_probe(CUDA_SPEC, replace(CUDA, probe={"p-1": fits, "p-2": stopped})) == ("p-1", fits)
