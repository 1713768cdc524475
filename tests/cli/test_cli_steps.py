"""What a step concludes from measurements that ended as listed here; nothing is measured."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_shell import TINY

from tui.engine.context import Context, Options
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps import precision, probe
from tui.engine.steps.settings import build
from tui.probe.protocol import Failed, IterationDone
from tui.project.load import load
from tui.project.measured import PhasePeak, Precision, Probe, Reading

AT = datetime(2026, 12, 1, tzinfo=UTC)
MIB = 2**20


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path("tiny.toml")
    path.write_text(TINY)
    return path


def outcome(word: str = "done", **more) -> Outcome:
    return Outcome("m-1", word, more.pop("sentence", ""), AT, AT, "runs/m-1.jsonl", "runs/m-1.log", **more)


def traced() -> Outcome:
    phase = {"requested_bytes": 6, "rows": {"weights": 6}, "operator": "", "module": "", "micro_batch": 0}
    return outcome(results={"traced": {"phases": {"backward": phase}, "source": "record"}})


def done(index: int, kind: str) -> IterationDone:
    return IterationDone(index, kind, 1.0, 1.0, 4)


@pytest.mark.parametrize(
    ("iterations", "phase", "sentence"),
    [
        ([], "first.backward", "out of memory: iteration 1, backward, asked for 64 B"),
        ([done(0, "first")], "step", "out of memory: iteration 2, step, asked for 64 B"),
        ([done(0, "first"), done(3, "timed")], "step", "out of memory: step, asked for 64 B"),
        ([done(0, "first")], "validate", "out of memory: validate, asked for 64 B"),
    ],
)
async def test_a_batch_that_fits_only_while_it_is_traced_is_out_of_memory(
    project, iterations, phase, sentence
):
    failure = Failed("out-of-memory", "too much", "", "", phase, {"asked_bytes": 64})
    timed = outcome("out-of-memory", failure=failure, iterations=tuple(iterations))
    context = given(project, [traced(), timed])
    result = await probe.run(context)
    assert (result.outcome, result.code, result.text) == ("out-of-memory", 1, sentence)
    (saved,) = load(project).measured.probe.values()
    assert (saved.outcome, saved.asked_bytes, saved.alive) == ("out-of-memory", 64, {"weights": 6})
    assert saved.worst_phase == "backward"
    assert saved.samples_per_s is None


def given(project: Path, outcomes: list[Outcome], **options) -> Context:
    """A context whose measurements end as listed."""
    device = Device("cpu", "cpu", "CPU", 8 * 2**30, unknown={"others_used_bytes": "not read"})
    state = project.absolute().parent / "state"
    context = Context(project, Options(**options), "run-1", state, device, lambda e: None, lambda e: None)
    left = iter(outcomes)

    async def measure(plan, title, **more):
        return next(left)

    context.measure = measure
    return context


async def test_a_sweep_that_is_cut_short_says_what_is_saved(project):
    table = {
        "step_ms": [1.0] * 5, "samples_per_iteration": 8, "tokens_per_iteration": None, "allocated_trace": [],
        "warmup": 2, "first_ms": 1.0, "losses": [1.0], "loss_first": 1.0, "allocated_source": "",
        "others_cpu_ratio": None,
    }  # fmt: skip
    crashed = outcome("crashed", sentence="the probe child was ended by SIGSEGV")
    context = given(project, [traced(), outcome(results={"timed": table}), crashed], batches=(1, 2, 4))
    result = await probe.run(context)
    assert result.code == 4
    assert result.text == "the probe child was ended by SIGSEGV; the 1 of 3 batches before it are saved"
    assert [one.micro_batch for one in load(project).measured.probe.values()] == [1]


def test_a_batch_that_fits_only_without_the_reserve_is_a_negative_verdict(project):
    peak = PhasePeak(6, process_bytes=4060 * MIB)
    one = Probe(
        AT, "s", "e-1", "fp32", 4, 1, "fits-without-reserve", phases={"step": peak}, worst_phase="step",
        readings={"process": Reading(4060 * MIB, "", "")},
    )  # fmt: skip
    result = probe._said(load(project), one, "p-1")
    assert (result.code, result.text) == (1, "FITS ONLY WITHOUT THE RESERVE")


def test_a_loss_of_exactly_zero_is_a_loss(project):
    block = precision.Block("fp32", 0, "train")
    table = {
        "losses": [0.0], "validation_loss": 0.0, "step_ms": [], "gradients": {}, "skipped": 0, "effective": "",
        "samples_per_iteration": 4, "batch_ms": [],
    }  # fmt: skip
    runs = {dataclasses.replace(block, seed=seed): outcome(results={"train": table}) for seed in range(3)}
    _, noise = build(load(project).spec, ("fp32",), runs, {})
    assert (noise.validation, noise.training) == (0.0, 0.0)


async def test_a_setting_that_fails_is_not_traced_and_leaves_the_others(project):
    table = {
        "losses": [1.0] * 6, "validation_loss": 1.0, "step_ms": [1.0] * 3, "gradients": {}, "skipped": 0,
        "effective": "fp32 linear", "samples_per_iteration": 4, "batch_ms": [1.0] * 3,
    }  # fmt: skip
    failure = Failed("workload", "RuntimeError: no kernel for Half", "net.py:3", "", "forward", {})
    bad = outcome("failed", failure=failure, sentence="net.py:3: RuntimeError: no kernel for Half")
    good = outcome(results={"train": table})
    context = given(project, [good, bad, traced()], settings=("fp32", "fp16"))
    result = await precision.run(context)
    assert (result.code, result.text) == (0, "fp16 unusable")
    (saved,) = load(project).measured.precision.values()
    assert isinstance(saved, Precision)
    assert saved.settings["fp16"].why == "net.py:3: RuntimeError: no kernel for Half"
    assert saved.settings["fp32"].requested_bytes == 6
