"""Folders outside the project, and the names of measurements."""

import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tui.errors import SaveError
from tui.project import ids, paths

NOON = datetime(2026, 12, 1, 14, 12, 3, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("PEAKMARK_STATE", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_settings_everything_is_below_the_home_folder(home):
    assert paths.state_folder() == home / ".local/state/peakmark"
    assert paths.runs_folder() == home / ".local/state/peakmark/runs"
    assert paths.config_folder() == home / ".config/peakmark"
    assert not paths.config_folder().exists()


def test_the_folders_that_are_made_are_for_their_user_alone():
    for folder in (paths.state_folder(), paths.runs_folder()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_xdg_folders_are_taken_when_they_are_absolute(home, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert paths.state_folder() == home / "s/peakmark"
    assert paths.config_folder() == home / ".config/peakmark"


def test_peakmarks_own_setting_wins(home, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "s"))
    monkeypatch.setenv("PEAKMARK_STATE", "~/mine")
    assert paths.state_folder() == home / "mine"


def test_a_folder_that_cannot_be_made_is_said_with_the_way_out(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("PEAKMARK_STATE", str(home / "file/inside"))
    with pytest.raises(SaveError) as caught:
        paths.state_folder()
    assert "the folder cannot be made: not a directory; set PEAKMARK_STATE to a folder" in str(caught.value)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    def no_home():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(SaveError, match="there is no home folder for this user; set PEAKMARK_STATE"):
        paths.state_folder()


def test_an_id_is_a_letter_the_time_in_utc_and_two_digits():
    there = NOON.astimezone(timezone(timedelta(hours=9)))
    stem, _, digits = ids.new_id("p", there).rpartition("-")
    assert stem == "p-20261201T141203"
    assert len(digits) == 2
    assert int(digits, 16) >= 0


def test_ids_of_one_second_are_unique_and_sort_as_they_were_made():
    made = [ids.new_id("v", NOON) for _ in range(600)]
    assert made == sorted(set(made))


def test_ids_of_later_seconds_sort_behind():
    made = [ids.new_id("c", NOON + timedelta(seconds=second)) for second in range(20)]
    assert made == sorted(made)


def test_an_id_that_is_taken_is_not_given_again():
    first = ids.new_id("r", NOON - timedelta(days=1))
    ids._issued.clear()  # as another process, which knows only what the file says
    taken = {f"{first[:-2]}{digits:02x}" for digits in range(256)}
    assert ids.new_id("r", NOON - timedelta(days=1), taken) not in taken
