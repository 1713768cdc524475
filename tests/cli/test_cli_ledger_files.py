"""``peakmark ledger --csv``, ``--markdown``, ``--bytes`` and ``--verbose``: every column, exact, and what it is of."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_shell import TINY

from tui.commands.ledger import ledger
from tui.commands.ledger_arguments import Shown
from tui.commands.output import Output
from tui.errors import SaveError, UsageError
from tui.project import save
from tui.project.measured import PhasePeak, Probe, Reading
from tui.report.json_values import unexplained
from tui.report.ledger_csv import COLUMNS

FILE = {
    "version": 1,
    "events": 6,
    "phases": [["forward", 0, 0, 2], ["backward", 0, 2, 4], ["step", None, 4, 6]],
    "strings": ["", "weights", "step_temporaries", "fc", "mm", "_foreach_sqrt", "1048576", "float32", "sqrt"],
    "storages": [
        [-1, None, 4096, 1, 3, 0, 0, 7],
        [4, None, 2097152, 2, 0, 5, 6, 7],
        [5, None, 1048576, 2, 0, 8, 6, 7],
    ],
}
"""A weight, and in the step a list of 2 MiB and a temporary of 1 MiB that is no list's."""
TEMPORARIES = 3145728


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state" / "runs").mkdir(parents=True)
    (tmp_path / "state" / "runs" / "m-1.timeline.json").write_text(json.dumps(FILE))
    path = Path("tiny.toml")
    path.write_text(TINY)
    peak = PhasePeak(4096 + TEMPORARIES, rows={"weights": 4096, "step_temporaries": TEMPORARIES})
    one = Probe(
        datetime(2026, 12, 1, tzinfo=UTC), "s", "e-1", "fp32", 4, 1, "fits", phases={"step": peak},
        worst_phase="step", readings={"process": Reading(2**28, "VmHWM", "RSS", "step")},
        timeline="runs/m-1.timeline.json",
    )  # fmt: skip
    save.record(path, lambda measured: dataclasses.replace(measured, probe={"p-1": one}))
    return path


def table(text):
    return {one["row"]: one for one in csv.DictReader(io.StringIO(text))}


def test_the_csv_has_every_column_of_every_row_in_exact_bytes(project, capsys):
    ledger(project, Shown(csv=Path("out.csv")), Output())
    assert "wrote out.csv" in capsys.readouterr().err
    rows = table(Path("out.csv").read_text())
    assert tuple(rows["weights"]) == COLUMNS
    assert rows["weights"]["measured_bytes"] == "4096"
    assert rows["step_temporaries"]["measured_bytes"] == str(TEMPORARIES)
    assert rows["step_temporaries/foreach lists"]["measured_bytes"] == "2097152"
    assert rows["step_temporaries/foreach lists"]["kind"] == "part"
    assert rows["requested"]["kind"] == "sum"
    for one in rows.values():
        for column in ("predicted", "measured"):
            figure = one[f"{column}_bytes"] or (column == "predicted" and one["predicted_low_bytes"])
            assert bool(figure) != bool(one[f"{column}_unknown"]), one


def test_a_dash_writes_to_stdout_instead_of_the_text_and_only_one_may(project, capsys):
    ledger(project, Shown(csv=Path("-")), Output())
    assert capsys.readouterr().out.startswith("row,kind,label,residence,declared_bytes")
    with pytest.raises(UsageError, match=r"--csv - and --markdown - all ask for stdout"):
        ledger(project, Shown(csv=Path("-"), markdown=Path("-")), Output())
    with pytest.raises(UsageError, match=r"--csv - and --json all ask"):
        ledger(project, Shown(csv=Path("-")), Output(json=True))


def test_the_markdown_has_exact_bytes_origins_and_reasons(project, capsys):
    ledger(project, Shown(markdown=Path("-")), Output())
    page = capsys.readouterr().out.splitlines()
    assert "| step temporaries |  | 3,145,728 |" in page
    assert "| · foreach lists |  | 2,097,152 |" in page
    assert any(line.startswith("| **process** |") and "VmHWM" in line for line in page)
    assert any("not known because" in line for line in page)
    assert page[-1].startswith("**")


def test_a_file_that_cannot_be_written_is_one_sentence_and_its_code(project):
    with pytest.raises(SaveError) as told:
        ledger(project, Shown(csv=Path("missing/out.csv")), Output())
    assert told.value.code == 5
    assert "missing" in told.value.sentence()


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_exact_bytes_fit_the_terminal_and_are_the_rows_own(project, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    ledger(project, Shown(exact=True, verbose=True), Output())
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= int(width) for line in lines)
    (row,) = (line for line in lines if line.startswith("step temporaries"))
    assert "3,145,728" in row
    (part,) = (line for line in lines if line.startswith(" foreach lists"))
    assert "2,097,152" in part


def test_temporaries_are_one_line_until_a_phase_or_verbose_unfolds_them(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ledger(project, Shown(), Output())
    text = capsys.readouterr().out
    assert "step temporaries: foreach lists 2.00 MiB, temporaries of the optimizer 1.00 MiB" in " ".join(
        text.split()
    )
    assert "\n foreach lists" not in text
    ledger(project, Shown(verbose=True), Output())
    text = capsys.readouterr().out
    assert "\n foreach lists" in text
    assert "1048576 float32 by _foreach_sqrt" in text


def test_json_has_the_temporaries_and_explains_what_it_lacks(project, capsys):
    ledger(project, Shown(), Output(json=True))
    found = json.loads(capsys.readouterr().out)
    assert unexplained(found) == []
    assert [(one["cause"], one["measured_bytes"]) for one in found["temporaries"]] == [
        ("foreach lists", 2097152),
        ("temporaries of the optimizer", 1048576),
    ]
    assert found["unknown"]["reconciliation"].startswith("nothing of the same batch")
    assert found["host"] == []
