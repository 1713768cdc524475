"""One run a device, also between users and after kill -9."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tui.engine import processes
from tui.engine.lock import DeviceLock
from tui.errors import RunError

ROOT = Path(__file__).parents[1]
HOLD = """
import sys, time
from tui.engine.lock import DeviceLock
with DeviceLock("GPU-1f0c", "run-b"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture
def holder():
    """Another process that holds GPU-1f0c until its standard input closes."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield other
        other.kill()


def test_a_device_that_another_process_holds_is_refused_with_its_facts(holder):
    with pytest.raises(RunError) as caught, DeviceLock("GPU-1f0c", "run-a"):
        pass
    since = time.strftime("%H:%M")
    said = caught.value.sentence()
    assert said.startswith(
        f"GPU-1f0c is being measured by run run-b (uid {os.geteuid()}, pid {holder.pid}, since "
    )
    assert said.endswith("); wait, or: peakmark stop run-b")
    assert len(said.split("since ")[1].split(")")[0]) == len(since)
    assert caught.value.code == 4


def test_another_device_is_free(holder):
    with DeviceLock("GPU-77d2", "run-a"):
        pass


def test_a_holder_ended_by_sigkill_frees_the_device_at_once(holder):
    holder.kill()
    holder.wait()
    with DeviceLock("GPU-1f0c", "run-a"):
        pass


def test_a_device_can_be_taken_again_after_it_was_given_back(folder):
    for run in ("run-a", "run-b"):
        with DeviceLock("cpu", run):
            assert json.loads((folder / f"cpu.{os.geteuid()}.holder").read_text())["run"] == run
    assert [path.name for path in folder.iterdir()] == ["cpu.lock"]


def test_one_process_cannot_take_a_device_twice():
    with (
        DeviceLock("cpu", "run-a"),
        pytest.raises(RunError, match="cpu is being measured by run run-a"),
        DeviceLock("cpu", "run-b"),
    ):
        pass


def test_a_device_is_given_back_when_its_block_fails():
    with pytest.raises(ZeroDivisionError), DeviceLock("cpu", "run-a"):
        raise ZeroDivisionError
    with DeviceLock("cpu", "run-b"):
        pass


def test_facts_of_a_dead_holder_are_not_told_of_the_living_one(holder, folder):
    stale = {"run": "run-old", "uid": os.geteuid(), "pid": holder.pid, "started": 1, "since": 0.0}
    (folder / f"GPU-1f0c.{os.geteuid()}.holder").write_text(json.dumps(stale))
    with (
        pytest.raises(RunError, match="by another process that cannot be seen from here; wait"),
        DeviceLock("GPU-1f0c", "run-a"),
    ):
        pass


def test_facts_that_claim_another_user_are_not_believed(holder, folder):
    path = folder / f"GPU-1f0c.{os.geteuid()}.holder"
    path.write_text(path.read_text().replace(f'"uid": {os.geteuid()}', '"uid": 4711'))
    with pytest.raises(RunError, match="cannot be seen from here"), DeviceLock("GPU-1f0c", "run-a"):
        pass


def test_everybody_may_use_the_folder_and_only_owners_remove_files(folder):
    old = os.umask(0o077)
    try:
        with DeviceLock("cpu", "run-a"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
            assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}
    finally:
        os.umask(old)


def test_a_lock_that_is_a_link_is_not_followed(folder, tmp_path):
    folder.mkdir()
    (tmp_path / "target").write_text("")
    (folder / "cpu.lock").symlink_to(tmp_path / "target")
    with pytest.raises(RunError, match="the lock of cpu cannot be taken"), DeviceLock("cpu", "run-a"):
        pass


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="must be a folder, not a link"), DeviceLock("cpu", "run-a"):
        pass


def test_a_lock_that_is_a_pipe_does_not_hang(folder):
    folder.mkdir()
    os.mkfifo(folder / "cpu.lock")
    with pytest.raises(RunError, match="must be an ordinary file"), DeviceLock("cpu", "run-a"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_lock_works_between_users(monkeypatch):
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        folder = Path(base) / "locks"
        monkeypatch.setenv("PEAKMARK_LOCKS", str(folder))
        code = """
import os
from tui.engine.lock import DeviceLock
from tui.errors import RunError
os.setgid(65534), os.setuid(65534)
try:
    with DeviceLock("GPU-1f0c", "run-other"):
        print("held")
except RunError as error:
    print(error)
"""

        def as_other_user() -> str:
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
            )
            return done.stdout.strip()

        with DeviceLock("GPU-1f0c", "run-a"):
            said = as_other_user()
        assert said.startswith("GPU-1f0c is being measured by run run-a (uid 0, ")
        assert said.endswith("; wait, or ask that user to stop it")
        assert as_other_user() == "held"
        with DeviceLock("GPU-1f0c", "run-b"):
            pass


def test_a_process_is_the_same_only_with_its_start_time():
    pid = os.getpid()
    started = processes.start_ticks(pid)
    assert started is not None
    assert processes.is_alive(pid, started)
    assert not processes.is_alive(pid, started + 1)
    assert not processes.is_alive(2**22 + 1, None)
