"""Figures that were measured on real CUDA devices and published, predicted to the byte without one."""

import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "bench"))
import prediction
import prediction_cuda

from published.jobs import JOBS, rows

ROWS = rows()
CHEAP = [name for name, job in JOBS.items() if job.cheap]


@pytest.mark.parametrize("name", CHEAP)
def test_a_published_peak_is_predicted_to_the_byte(name):
    found = prediction_cuda.predict(name, ROWS[name])
    assert found.why == ""
    assert found.predicted.keys() == ROWS[name]["measured"].keys()
    for quantity, measured in ROWS[name]["measured"].items():
        assert abs(found.predicted[quantity] - measured) <= ROWS[name]["rounding_bytes"], quantity


def test_every_published_figure_is_eligible_or_says_why_not_and_every_job_is_of_one_that_is():
    assert all(row["eligible"] or row["why"] for row in ROWS.values())
    assert set(JOBS) == {name for name, row in ROWS.items() if row["eligible"]}
    assert set(prediction_cuda.causes()) | set(prediction_cuda.causes("corrected")) <= set(JOBS)


def test_a_figure_that_differs_without_an_explanation_is_counted_and_not_hidden():
    row = {"measured": {"allocated": 1000}, "rounding_bytes": 5, "confidence": "high", "looked_at": "no"}
    found = prediction_cuda.Found("x", row, {"allocated": 1006})
    known = {"x": prediction_cuda.UNEXPLAINED + ": six bytes"}
    told = prediction_cuda.told(found, known, {"x": "a table of its own"})
    assert told.startswith("unexplained: six bytes; the program was corrected")
    row["eligible"] = True
    page = "\n".join(prediction_cuda.page([prediction_cuda.Found("x", row, {"allocated": 1006})]))
    assert "1 of them were predicted, 0 not, and 1 differ without an explanation" in page


def test_an_error_within_the_last_digit_of_a_figure_counts_as_none():
    row = {"measured": {"allocated": 1000}, "rounding_bytes": 5, "confidence": "high", "looked_at": "no"}
    assert prediction_cuda.Found("x", row, {"allocated": 1005}).error("allocated") == 0
    assert prediction_cuda.Found("x", row, {"allocated": 1006}).error("allocated") == pytest.approx(0.006)
    assert prediction_cuda.cause(prediction_cuda.Found("x", row, {"allocated": 1006}), {}) == "unexplained"


def test_a_part_that_takes_too_long_is_named_and_the_others_are_made(monkeypatch, tmp_path):
    monkeypatch.setattr(prediction, "PAGE", tmp_path / "page.md")
    slow = {"a": lambda: signal.raise_signal(signal.SIGALRM), "b": lambda: ["## Quick", "", "all of it"]}
    monkeypatch.setattr(prediction, "PARTS", slow)
    monkeypatch.setattr(sys, "argv", ["prediction.py", "--limit", "7"])
    before = signal.getsignal(signal.SIGALRM)
    assert prediction.main() == 0
    page = (tmp_path / "page.md").read_text()
    assert "did not finish within 7 s" in page
    assert "all of it" in page
    assert signal.getsignal(signal.SIGALRM) is before
