"""Results that wait beside the journals until their project has them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from project_samples import USER

from tui.project import pending
from tui.project.load import load
from tui.project.measured import Measured, Probe

AT = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path("gpt.toml")
    path.write_text(USER)
    return path


def test_a_waiting_result_goes_into_its_own_project_only(project):
    one = Probe(AT, "s", "e-1", "fp32", 4, 1, "fits")
    assert pending.put(project, "p-1", Measured(probe={"p-1": one})) == "runs/p-1.result.toml"
    assert pending.put(Path("other.toml"), "p-2", Measured(probe={"p-2": one})) == "runs/p-2.result.toml"
    assert pending.take_in(project) == ("p-1",)
    assert list(load(project).measured.probe) == ["p-1"]
    assert pending.take_in(project) == ()
    assert Path("state/runs/p-2.result.toml").exists()


def test_a_damaged_waiting_result_is_left_alone(project):
    pending.put(project, "p-1", Measured(probe={"p-1": Probe(AT, "s", "e-1", "fp32", 4, 1, "fits")}))
    kept = Path("state/runs/p-1.result.toml")
    kept.write_text(kept.read_text()[:-40] + "\n[")
    assert pending.take_in(project) == ()
    assert kept.exists()


def test_a_result_that_was_saved_waits_no_longer(project):
    pending.put(project, "p-1", Measured(probe={"p-1": Probe(AT, "s", "e-1", "fp32", 4, 1, "fits")}))
    pending.drop("p-1")
    pending.drop("p-1")
    assert pending.take_in(project) == ()
