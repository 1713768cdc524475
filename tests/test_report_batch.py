"""What the report says of the batch, and that the project it prints can be run as it stands."""

from dataclasses import replace
from pathlib import Path

import pytest
from sample_project import CUDA, CUDA_SMALLER, CUDA_SPEC, FINGERPRINT

from tui.project.load import parse
from tui.project.model import BatchSpec, SchedulerSpec, Spec
from tui.report.batch_text import batch_semantics
from tui.report.conditions import assumptions
from tui.report.documents import Source
from tui.report.markdown import report_markdown
from tui.report.project_text import as_run, project_toml

FULL = replace(
    CUDA_SPEC,
    workload=replace(
        CUDA_SPEC.workload,
        frozen=("wte.*",),
        scheduler=SchedulerSpec("torch.optim.lr_scheduler.StepLR", {"step_size": 5}, 2),
        batch=replace(
            CUDA_SPEC.workload.batch,
            global_batch=32,
            dataset=1000,
            tokens="labels",
            weight_by="tokens",
            length_of="tokens",
        ),
    ),
)


def of_batch(spec: Spec, batch: BatchSpec) -> Spec:
    return replace(spec, workload=replace(spec.workload, batch=batch))


def test_the_report_says_what_the_batch_means():
    text = report_markdown(Source(FULL, CUDA, "gpt.toml", FINGERPRINT))
    for sentence in batch_semantics(FULL):
        assert f"* {sentence}" in text.replace("\\", "")
    assert "31 steps; the 8 left over are dropped" in text


def test_a_project_with_every_key_of_the_batch_is_printed_whole():
    assert parse(Path("gpt.toml"), project_toml(FULL).encode()).spec == FULL


@pytest.mark.parametrize("dataset", [1000, 20])
def test_the_project_of_another_batch_than_the_specs_can_be_loaded(dataset):
    batch = replace(FULL.workload.batch, dataset=dataset)
    probe = replace(CUDA_SMALLER, micro_batch=3, accumulate=8)
    ran = as_run(of_batch(FULL, batch), probe)
    assert parse(Path("gpt.toml"), project_toml(ran).encode()).spec == ran
    assert ran.workload.batch.global_batch == 24
    assert ran.workload.batch.dataset == (1000 if dataset == 1000 else None)


def test_what_was_measured_under_is_said():
    said = {one["what"]: one["value"] for one in assumptions(FULL, CUDA_SMALLER)}
    assert said["loss of micro-batches"] == "weighted by tokens"
    assert said["frozen parameters"] == "wte.*"
    assert said["scheduler"] == "torch.optim.lr_scheduler.StepLR"
    assert said["remainder of an epoch"] == "drop"
    assert {one["what"]: one["value"] for one in assumptions(CUDA_SPEC, CUDA_SMALLER)}["scheduler"] == "none"
