"""Predictions in the project file: kept beside measurements, checked like them, and old ones moved out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tui.errors import ProjectError
from tui.project import save
from tui.project.calibration import Calibration
from tui.project.fingerprint import spec_hash, stale
from tui.project.load import load
from tui.project.measured import Measured
from tui.project.prediction import PredictedPeak, Prediction

AT = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
ID = "f-20261201T140000-a3"
PROJECT = """\
schema = 1
[workload]
source = "mlp"
args = { inputs = 4, hidden = [8], outputs = 2 }
"""
PEAK = PredictedPeak(
    requested_bytes=30,
    allocated_bytes=1024,
    reserved_bytes=2097152,
    rows={"weights": 10, "gradients": 20},
    operator="mm",
    module="0",
    micro_batch=0,
    end_requested_bytes=30,
)


def prediction(spec: str, at: datetime = AT) -> Prediction:
    return Prediction(
        at, spec, "fp32", 8, 1, "2.13.0", "cuda", target="H100 80GB HBM3", worst_phase="backward",
        phases={"backward": PEAK}, ranges={"cudnn_workspace": (0, 512)}, assumptions=("optimizer: foreach",),
    )  # fmt: skip


@pytest.fixture
def path(tmp_path) -> Path:
    file = tmp_path / "tiny.toml"
    file.write_text(PROJECT)
    return file


def put(path: Path, found: Measured) -> None:
    save.record(
        path, lambda measured: replace(measured, prediction=found.prediction, calibration=found.calibration)
    )


def test_a_prediction_and_a_calibration_are_read_as_they_were_saved(path):
    spec = spec_hash(load(path))
    found = Measured(
        prediction={ID: prediction(spec)},
        calibration={"e-7c1f": Calibration(AT, "p-1", "H100", "2.13.0", 600 << 20, driver="570.124.06")},
    )
    put(path, found)
    after = load(path).measured
    assert (after.prediction, after.calibration) == (found.prediction, found.calibration)


def test_a_prediction_is_stale_when_the_spec_has_changed(path):
    put(path, Measured(prediction={ID: prediction(spec_hash(load(path)))}))
    assert not stale(load(path).measured.prediction[ID].spec, load(path))
    path.write_text(path.read_text().replace("hidden = [8]", "hidden = [16]"))
    assert stale(load(path).measured.prediction[ID].spec, load(path))


def test_predicted_rows_that_were_edited_are_refused(path):
    put(path, Measured(prediction={ID: prediction("sha256:1")}))
    path.write_text(path.read_text().replace("weights = 10", "weights = 11"))
    with pytest.raises(ProjectError, match=r"rows sum to 31, requested_bytes says 30.*predict again"):
        load(path)
