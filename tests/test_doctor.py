"""What doctor says of packages and processors."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from tui.commands import doctor
from tui.engine import host


@pytest.fixture
def answer(monkeypatch):
    """Lets an interpreter answer what a test says, without one being started."""

    def install(**more):
        seen = {
            "torch": "2.13.0",
            "cuda": None,
            "python": "3.11.7",
            "available": False,
            "pynvml": None,
            **more,
        }
        ran = SimpleNamespace(returncode=0, stdout=f"a line of its own\n{json.dumps(seen)}\n", stderr="")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: ran)

    return install


def test_a_retired_package_is_noted_once_and_is_not_wrong(answer):
    """Case N07 of the reported faults."""
    answer(pynvml="12.0.0")
    notes = [one for one in doctor._interpreter("python") if one.what == "pynvml"]
    (note,) = notes
    assert note.word == "note"
    assert note.text.startswith("retired package pynvml 12.0.0 present in python")
    answer()
    assert [one.what for one in doctor._interpreter("python")] == ["torch"]


def test_processors_that_are_not_allowed_are_said(monkeypatch):
    """Case D04: half of the machine's 208 would be 104 workers, where 23 processors are allowed."""
    monkeypatch.setattr("os.cpu_count", lambda: 208)
    monkeypatch.setattr(host, "cpus_allowed", lambda: 23)
    found = doctor._processors()
    assert (found.word, found.text.split(",")[0]) == ("note", "23 of 208 may be used at once")
