"""Saving: results below the marker, whole or not at all, the hand-written part byte for byte as it was."""

import dataclasses
import errno
import json
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from predictions import prediction
from project_samples import START, USER, adding, probe, refuse, with_measured

from tui.errors import ProjectError, SaveError
from tui.probe.protocol import PHASES, REQUESTED_ROWS
from tui.project import atomic, save
from tui.project.decode import hints_of
from tui.project.encode import measured_text
from tui.project.load import load, parse
from tui.project.marker import MARKER
from tui.project.measured import Measured, Operating, PhasePeak, Precision, Setting
from tui.project.prediction import PredictedPeak


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "gpt.toml"
    found.write_text(USER)
    return found


# --- what is written ----------------------------------------------------------------------------


def test_a_result_is_added_below_a_marker_and_read_back(path):
    saved = save.record(path, adding("p-1"))
    assert saved.measured.probe == {"p-1": probe()}
    assert load(path).measured == saved.measured
    assert path.read_text().startswith(f"{USER}\n{MARKER}\n\n[measured.probe.p-1]\n")


def test_the_second_result_leaves_the_first_where_it_is(path):
    save.record(path, adding("p-1"))
    first = path.read_text()
    save.record(path, adding("p-2", second=1))
    assert path.read_text().startswith(first)
    assert list(load(path).measured.probe) == ["p-1", "p-2"]


def test_an_update_that_changes_nothing_writes_nothing(path):
    save.record(path, adding("p-1"))
    before = path.stat()
    assert save.record(path, lambda found: found).measured.probe
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    "user",
    [
        USER,
        USER.rstrip("\n"),
        USER.replace("\n", "\r\n"),
        USER + "\n# last words\n\n\n",
        "schema=1\r\nworkload.source='mlp' # mixed\n",
        USER + "# ünïcode \t \n",
    ],
    ids=["plain", "no last newline", "windows", "blank lines", "mixed", "unicode"],
)
def test_the_hand_written_part_stays_byte_for_byte(path, user):
    path.write_bytes(user.encode())
    save.record(path, adding("p-1"))
    once = path.read_bytes()
    save.record(path, adding("p-2", second=1))
    twice = path.read_bytes()
    above = once.partition(MARKER.encode())[0]
    assert above.startswith(user.encode())
    assert not above[len(user.encode()) :].strip()
    assert twice.partition(MARKER.encode())[0] == above


def test_a_windows_file_stays_one(path):
    path.write_bytes(USER.replace("\n", "\r\n").encode())
    save.record(path, adding("p-1"))
    written = path.read_bytes()
    assert written.count(b"\r\n") == written.count(b"\n")


def test_the_mode_is_kept(path):
    path.chmod(0o640)
    save.record(path, adding("p-1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_stays_one_and_its_file_is_saved(path, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to(path.name)
    save.record(link, adding("p-1"))
    assert link.is_symlink()
    assert "p-1" in load(path).measured.probe


def test_unknown_is_left_out_and_its_reason_stays(path):
    reason = {"process_bytes": "hidden in this container"}
    save.record(path, adding("p-1", unknown=reason))
    text = path.read_text()
    assert "process_bytes = " in text
    assert "worst_phase" not in text
    assert "readings" not in text
    assert load(path).measured.probe["p-1"].unknown == reason


def test_a_figure_that_is_nan_becomes_unknown_with_that_reason(path):
    saved = save.record(
        path, adding("p-1", loss_last=float("nan"), loss_first=float("inf"), unknown={"x": "y"})
    )
    found = saved.measured.probe["p-1"]
    assert found.loss_last is found.loss_first is None
    assert found.unknown == {"loss_first": "it was inf", "loss_last": "it was nan", "x": "y"}


def test_times_are_utc_and_numbers_stand_on_one_line():
    text = measured_text(Measured(probe={"p-1": probe(step_ms=(1.5, 2.0, float("nan")))}))
    assert "\nat = 2026-12-01T14:12:03Z\n" in f"\n{text}"
    assert "\nstep_ms = [1.5, 2.0, nan]\n" in text


def test_losses_that_diverged_stay_where_they_are(path):
    setting = Setting("fp16", "done", losses=(3.0, float("nan"), 1.0), distance=float("nan"))
    comparison = Precision(
        START, "sha256:4be1aaaa", "e-1", "fp32", 3, 1, 8, "done", settings={"fp16": setting}
    )
    saved = save.record(path, lambda found: dataclasses.replace(found, precision={"c-1": comparison}))
    found = saved.measured.precision["c-1"].settings["fp16"]
    assert [str(one) for one in found.losses] == ["3.0", "nan", "1.0"]
    assert (found.distance, found.unknown) == (None, {"distance": "it was nan"})


def test_text_that_looks_like_a_number_array_stays_text(path):
    text = "= [\n    1,\n]\nx = 2026-12-01 14:12:03+00:00"
    assert save.record(path, adding("p-1", failure=text)).measured.probe["p-1"].failure == text


def test_half_of_a_surrogate_pair_does_not_lose_the_result(path):
    assert save.record(path, adding("p-1", failure="caf\udce9")).measured.probe["p-1"].failure == "caf?"


# --- any result ---------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def rows():
    return st.dictionaries(st.sampled_from(REQUESTED_ROWS), st.integers(0, 2**40), max_size=3)


def strategy(hint, name=""):
    """Values of a type hint of the measured part."""
    if hint in (PhasePeak, PredictedPeak):
        return st.builds(hint, st.just(0), rows=rows()).map(
            lambda peak: dataclasses.replace(peak, requested_bytes=sum(peak.rows.values()))
        )
    if dataclasses.is_dataclass(hint):
        return st.builds(hint, **{key: strategy(one, key) for key, one in hints_of(hint).items()})
    plain = {
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: texts,
        bool: st.booleans(),
        type(START): st.datetimes(START.replace(tzinfo=None), timezones=st.just(START.tzinfo)),
    }
    if hint in plain:
        return plain[hint]
    inner = hint.__args__
    if hint.__class__.__name__ == "UnionType":
        return st.none() | strategy(inner[0])
    if hint.__origin__ is tuple:
        return st.lists(strategy(inner[0]), max_size=3).map(tuple)
    if name == "shapes":
        return st.dictionaries(
            st.sampled_from(["scalar int64", "8x8 float32 frozen"]), st.integers(1, 99), max_size=2
        )
    keys = st.sampled_from(PHASES) if name == "phases" else texts
    return st.dictionaries(keys, strategy(inner[1]), max_size=2)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(strategy(Measured))
def test_any_result_reads_back_as_it_was(found):
    assert parse(Path("gpt.toml"), with_measured(measured_text(found)).encode()).measured == found


# --- what stays in the file ---------------------------------------------------------------------


def test_the_latest_fifty_stay_and_older_ones_go_to_the_history(path):
    many = {f"p-{number:02}": probe(number) for number in range(53)}
    kept = save.record(path, lambda found: dataclasses.replace(found, probe=many)).measured.probe
    assert list(kept) == [f"p-{number:02}" for number in range(3, 53)]
    lines = [json.loads(line) for line in (path.parent / "gpt.history.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["id"]) for line in lines] == [
        ("probe", "p-00"),
        ("probe", "p-01"),
        ("probe", "p-02"),
    ]
    assert lines[0]["table"]["at"] == "2026-12-01T14:12:03Z"
    assert lines[0]["table"]["phases"]["backward"]["rows"] == {"weights": 10, "gradients": 20}


def test_what_the_operating_configuration_refers_to_stays(path):
    operating = Operating("p-00", "v-1", "sha256:4be1aaaa", "e-7c1f", START, fallback="p-02")
    many = {f"p-{number:02}": probe(number) for number in range(53)}
    kept = save.record(
        path, lambda found: dataclasses.replace(found, probe=many, operating={"o-1": operating})
    ).measured.probe
    assert len(kept) == 52
    assert "p-01" not in kept


def predicted(second, micro=8, **changes):
    return prediction(
        "sha256:4be1aaaa",
        **{"at": probe(second).at, "micro_batch": micro, "journal": f"f-{second}", **changes},
    )


def test_the_latest_prediction_of_each_batch_and_device_stays(path):
    many = {
        "f-0": predicted(0), "f-1": predicted(1, 16), "f-2": predicted(2, target="NVIDIA L4"),
        "f-3": predicted(3, allocator="expandable_segments:True"), "f-4": predicted(4), "f-5": predicted(5, 16),
    }  # fmt: skip
    kept = save.record(path, lambda found: dataclasses.replace(found, prediction=many)).measured.prediction
    assert list(kept) == ["f-2", "f-3", "f-4", "f-5"]
    lines = [json.loads(line) for line in (path.parent / "gpt.history.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["id"]) for line in lines] == [("prediction", "f-0"), ("prediction", "f-1")]


def test_twenty_predictions_stay_or_all_that_one_child_made(path):
    many = {f"f-{at:02}": predicted(at, at + 1) for at in range(23)}
    kept = save.record(path, lambda found: dataclasses.replace(found, prediction=many)).measured.prediction
    assert list(kept) == [f"f-{at:02}" for at in range(3, 23)]
    table = {f"f-{at}": predicted(at, at + 1, journal="f-100") for at in range(100, 130)}
    kept = save.record(path, lambda found: dataclasses.replace(found, prediction=table)).measured.prediction
    assert kept.keys() == table.keys()


def test_a_failed_save_leaves_the_history_as_it_was(path, monkeypatch):
    history = path.parent / "gpt.history.jsonl"
    history.write_text('{"kind": "probe"}\n')
    many = {f"p-{number:02}": probe(number) for number in range(53)}
    monkeypatch.setattr(atomic.os, "replace", refuse(errno.ENOSPC))
    with pytest.raises(SaveError):
        save.record(path, lambda found: dataclasses.replace(found, probe=many))
    assert history.read_text() == '{"kind": "probe"}\n'
    assert path.read_text() == USER


# --- new files ----------------------------------------------------------------------------------


def test_a_new_file_is_written_and_never_over_another(path):
    new = path.with_name("new.toml")
    assert save.create(new, USER).spec.workload.batch.micro == 8
    assert new.read_text() == USER
    with pytest.raises(ProjectError, match="exists already and was not overwritten; choose another name"):
        save.create(new, USER)


def test_a_new_file_that_would_be_wrong_is_not_written(path):
    with pytest.raises(ProjectError, match="at least 1"):
        save.create(path.with_name("new.toml"), USER.replace("micro = 8", "micro = 0"))
    assert not path.with_name("new.toml").exists()


def test_a_new_file_that_cannot_be_written_leaves_nothing(path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(atomic.os, "fsync", refuse(errno.ENOSPC))
        with pytest.raises(SaveError, match=r"no space left on .*; it was not created"):
            save.create(path.with_name("new.toml"), USER)
    assert not path.with_name("new.toml").exists()
    with pytest.raises(SaveError, match="there is no folder nowhere"):
        save.create(Path("nowhere/new.toml"), USER)
