"""The app over the real project files and the real engine."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from app.terminal import Terminal
from tui.app.source import World
from tui.errors import ProjectError
from tui.project.paths import runs_folder

PROJECT = """
schema = 1
title = "a tiny network"

[workload]
source = "mlp"
args = { inputs = 8, hidden = [8], outputs = 2 }
formula = "mlp"

[workload.batch]
micro = 4

[environment]
device = "cpu"
"""
OWN = PROJECT.replace(
    'source = "mlp"\nargs = { inputs = 8, hidden = [8], outputs = 2 }', 'source = "mine.py"'
).replace('formula = "mlp"', 'formula = "none"')


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    path = tmp_path / "tiny.toml"
    path.write_text(PROJECT)
    return path


def opened(project: Path) -> Terminal:
    return Terminal([sys.executable, "-P", "-m", "tui", str(project)])


def test_the_world_loads_remembers_and_reports(project):
    world = World()
    loaded = world.load(project)
    assert world.fingerprint(loaded).startswith("sha256:")
    assert world.untrusted(loaded) == ()
    assert world.running(project) is None
    assert "a tiny network" in world.markdown(loaded)
    assert world.write_report(loaded).read_text() == world.markdown(loaded)
    world.opened(loaded)
    assert [title for title, _, _ in world.recent()] == ["a tiny network"]
    before = world.stamp(project)
    project.write_text(PROJECT + "\n")
    assert world.stamp(project) != before


def test_python_of_the_project_is_untrusted_until_allowed_and_again_when_it_changes(project):
    project.write_text(OWN)
    code = project.with_name("mine.py")
    code.write_text("def build(): ...\n")
    world = World()
    loaded = world.load(project)
    assert world.untrusted(loaded)[0].startswith("workload.source = mine.py   sha256 ")
    world.allow(loaded)
    assert world.untrusted(loaded) == ()
    code.write_text("def build(): 1\n")
    assert world.untrusted(loaded) != ()


def test_a_project_whose_python_is_missing_still_opens(project):
    project.write_text(OWN)
    world = World()
    loaded = world.load(project)
    assert world.fingerprint(loaded) == ""
    with pytest.raises(ProjectError):
        world.untrusted(loaded)


def test_a_run_outlives_an_app_that_is_killed_and_its_result_is_shown_again(project):
    with opened(project) as first:
        first.wait_for("EMPTY")
        first.press("r")
        deadline = time.monotonic() + 60
        while not list(runs_folder().glob("*.run.json")):
            assert time.monotonic() < deadline
            first.read(0.05)
        first.child.send_signal(signal.SIGKILL)
        first.child.wait()
    while World().running(project) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with opened(project) as again:
        again.wait_for("AGREES", limit_s=60)
        again.press("q")
        assert again.end() in (0, 1)
