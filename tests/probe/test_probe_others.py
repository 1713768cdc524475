"""What other processes take of the CPUs."""

import subprocess
import sys
import time

import pytest

from tui.probe import others


def test_own_time_does_not_count_as_others(monkeypatch):
    readings = iter([(1000.0, 400.0, 100.0), (1200.0, 560.0, 200.0)])
    monkeypatch.setattr(others, "_counters", lambda: next(readings))
    assert others.OthersShare().ratio() == pytest.approx(60 / 200)


def test_too_little_time_and_no_counters_give_none(monkeypatch):
    monkeypatch.setattr(others, "_counters", lambda: (1000.0, 400.0, 100.0))
    assert others.OthersShare().ratio() is None
    monkeypatch.setattr(others, "_counters", lambda: None)
    assert others.OthersShare().ratio() is None


def test_a_busy_neighbour_is_seen():
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        share = others.OthersShare()
        deadline = time.monotonic() + 20
        while (share.ratio() or 0.0) < 0.01 and time.monotonic() < deadline:
            pass
        assert (share.ratio() or 0.0) >= 0.01
    finally:
        busy.kill()
        busy.wait()
