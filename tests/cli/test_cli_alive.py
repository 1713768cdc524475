"""``peakmark ledger --alive``: what is alive at the peak, from the file that the traced child left."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_shell import TINY

from tui.commands.ledger import ledger
from tui.commands.ledger_arguments import Shown
from tui.commands.output import Output
from tui.project import save
from tui.project.measured import PhasePeak, Probe, Reading
from tui.report.json_values import unexplained

FILE = {
    "version": 1,
    "events": 4,
    "phases": [["forward", 0, 0, 2], ["backward", 0, 2, 4], ["step", None, 4, 4]],
    "strings": ["", "weights", "retained_activations", "h.0.fc", "h.1.fc", "mm", "8x4", "float32"],
    "storages": [
        [-1, None, 4096, 1, 3, 0, 6, 7],
        [-1, None, 4096, 1, 4, 0, 6, 7],
        [0, 3, 1024, 2, 3, 5, 6, 7],
        [1, 2, 2048, 2, 4, 5, 6, 7],
    ],
}
"""Two weights of 4 KiB throughout, and activations of 1 and 2 KiB: 11 KiB at the end of the forward."""

SEEN = Reading(2**28, "VmHWM", "RSS", "forward")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state" / "runs").mkdir(parents=True)
    (tmp_path / "state" / "runs" / "m-1.timeline.json").write_text(json.dumps(FILE))
    path = Path("tiny.toml")
    path.write_text(TINY)
    peak = PhasePeak(11264, rows={"weights": 8192, "retained_activations": 3072})
    one = Probe(
        datetime(2026, 12, 1, tzinfo=UTC), "s", "e-1", "fp32", 4, 1, "fits", phases={"forward": peak},
        worst_phase="forward", readings={"process": SEEN}, timeline="runs/m-1.timeline.json",
    )  # fmt: skip
    save.record(path, lambda measured: dataclasses.replace(measured, probe={"p-1": one}))
    return path


def test_modules_and_storages_follow_the_ledger_the_largest_first(project, capsys):
    ledger(project, Shown(alive=8), Output())
    lines = capsys.readouterr().out.splitlines()
    (start,) = (place for place, line in enumerate(lines) if line.startswith("alive at the peak"))
    assert lines[start] == "alive at the peak of the steady forward, micro-batch 1: 0.01 MiB in 4 storages"
    cells = [" ".join(line.split()) for line in lines[start + 1 :]]
    assert cells == [
        "by module, MiB own share modules",
        "h.*.fc 0.01 100.0 % 2",
        "largest storages, MiB together share count",
        "weights: h.*.fc 8x4 float32 0.01 72.7 % 2",
        "retained activations: h.1.fc 8x4 float32 mm 2 KiB 18.2 % 1",
        "retained activations: h.0.fc 8x4 float32 mm 1 KiB 9.1 % 1",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_rows_beyond_those_asked_for_are_counted(project, capsys):
    ledger(project, Shown(alive=1), Output())
    assert capsys.readouterr().out.splitlines()[-1] == "and 2 more: --alive 3"


def test_it_is_of_the_phase_that_is_asked_for_and_only_in_json_otherwise(project, capsys):
    ledger(project, Shown(), Output())
    assert "alive" not in capsys.readouterr().out
    ledger(project, Shown(phase="forward"), Output(json=True))
    document = json.loads(capsys.readouterr().out)
    alive = document["alive"]
    assert (alive["phase"], alive["requested_bytes"], alive["storages_count"]) == ("forward", 11264, 4)
    assert [(one["module"], one["bytes"], one["own_bytes"]) for one in alive["modules"]] == [
        ("", 11264, 0),
        ("h", 11264, 0),
        ("h.1", 6144, 0),
        ("h.1.fc", 6144, 6144),
        ("h.0", 5120, 0),
        ("h.0.fc", 5120, 5120),
    ]
    assert (
        sum(one["bytes"] for one in alive["storages"]) == sum(one["bytes"] for one in alive["rows"]) == 11264
    )
    assert [path for path in unexplained(document) if path.startswith("alive")] == []


def test_a_timeline_that_is_gone_is_said_and_the_ledger_stands(project, capsys, tmp_path):
    (tmp_path / "state" / "runs" / "m-1.timeline.json").unlink()
    ledger(project, Shown(alive=8), Output())
    out = " ".join(capsys.readouterr().out.split())
    assert "= requested" in out
    assert "alive n/a: " in out
    assert "the timeline of this measurement is not on this machine any more" in out
    ledger(project, Shown(), Output(json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["alive"] is None
    assert "not on this machine any more" in document["unknown"]["alive"]


def test_a_measured_run_tells_what_was_alive(whole_run):
    shell, _ = whole_run
    alive = shell("ledger", "tiny.toml", "--json").document["alive"]
    assert alive["requested_bytes"] == sum(one["bytes"] for one in alive["rows"])
    assert alive["storages"][0]["shape"]
    done = shell("ledger", "tiny.toml", "--alive", "2")
    assert "alive at the peak of the steady" in done.out
    assert done.out.splitlines()[-1].startswith("and ")


def test_every_reading_is_listed_when_it_is_asked_for(project, capsys):
    ledger(project, Shown(), Output())
    assert "readings  " not in capsys.readouterr().out
    ledger(project, Shown(readings=True), Output())
    assert "readings  process              256.00 MiB  forward: VmHWM" in capsys.readouterr().out
