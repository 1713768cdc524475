"""Saving that is refused: no space, no rights, somebody else at it; the file is as it was and a sentence says so."""

import errno
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from project_samples import USER, adding, probe, refuse

from tui.errors import SaveError
from tui.project import atomic, lock, save
from tui.project.load import load
from tui.project.measured import Measured, PhasePeak

ROOT = Path(__file__).parents[1]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "gpt.toml"
    found.write_text(USER)
    return found


def leftovers(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if one.name.endswith(".tmp")]


def python(code: str, *arguments: str | Path, **options) -> subprocess.Popen:
    """A process that runs ``code`` with this repository and the tests' samples to import."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


# --- when it cannot be written ------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "no space left on "),
        (errno.EDQUOT, "your quota on "),
        (errno.EACCES, "no permission to write"),
    ],
)
def test_a_refused_write_leaves_the_file_as_it_was(path, monkeypatch, call, number, reason):
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        original = os.open
        if call == "open":
            patched.setattr(
                atomic.os,
                "open",
                lambda name, *rest: refuse(number)() if ".tmp" in str(name) else original(name, *rest),
            )
        else:
            patched.setattr(atomic.os, call, refuse(number))
        with pytest.raises(SaveError) as caught:
            save.record(Path("gpt.toml"), adding("p-1"), kept_in="runs/p-1.jsonl")
    text = str(caught.value)
    assert text.startswith(f"gpt.toml could not be saved: {reason}")
    assert text.endswith(
        "; it is unchanged, the result is whole in runs/p-1.jsonl and is taken in by the next command"
    )
    assert caught.value.code == 5
    assert path.read_bytes() == before
    assert leftovers(path.parent) == []


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_really_full_leaves_the_file_as_it_was(path, small_disk):
    full = small_disk / "gpt.toml"
    full.write_text(USER)
    with pytest.raises(SaveError) as caught:
        save.record(full, adding("p-1", failure="x" * 100_000))
    assert f"could not be saved: no space left on {small_disk}; it is unchanged" in str(caught.value)
    assert full.read_text() == USER
    assert leftovers(small_disk) == []


def test_a_limit_on_file_sizes_leaves_the_file_as_it_was(path):
    code = """
import resource, sys
from pathlib import Path
from project_samples import adding
from tui.errors import SaveError
from tui.project import save
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    save.record(Path(sys.argv[1]), adding("p-1", failure="x" * 9000))
except SaveError as error:
    print(error)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    out, _ = python(code, path).communicate(timeout=30)
    assert "it would be larger than the limit on file sizes (ulimit -f); it is unchanged" in out
    assert path.read_text() == USER
    assert leftovers(path.parent) == []


REFUSED = """
import os, sys
from pathlib import Path
from project_samples import adding
from tui.errors import SaveError
from tui.project import save
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    save.record(Path(sys.argv[1]), adding("p-1"))
except SaveError as error:
    print(error)
"""


@pytest.fixture
def public():
    """A folder that every user can reach, with a project in it; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "gpt.toml").write_text(USER)
        (folder / "gpt.toml").chmod(0o666)
        yield folder
        folder.chmod(0o755)


def without_rights(folder: Path, monkeypatch) -> str:
    """What saving says to a user who is not root."""
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o777)
        monkeypatch.setenv("PEAKMARK_STATE", state)
        return python(REFUSED, folder / "gpt.toml", cwd=folder).communicate(timeout=30)[0]


def test_a_folder_without_permission_leaves_the_file_as_it_was(public, monkeypatch):
    public.chmod(0o555)
    said = without_rights(public, monkeypatch)
    assert f"gpt.toml could not be saved: no permission to write in {public}; it is unchanged" in said
    assert (public / "gpt.toml").read_text() == USER


def test_a_file_that_is_read_only_is_not_replaced(public, monkeypatch):
    public.chmod(0o777)
    (public / "gpt.toml").chmod(0o444)
    assert "could not be saved: the file is read-only; it is unchanged" in without_rights(public, monkeypatch)
    assert (public / "gpt.toml").read_text() == USER


def test_a_file_that_became_invalid_is_left_alone(path):
    path.write_text(USER + "oops\n")
    with pytest.raises(SaveError) as caught:
        save.record(path, adding("p-1"), kept_in="runs/p-1.jsonl")
    assert "not valid TOML" in str(caught.value)
    assert "it is unchanged, the result is whole in runs/p-1.jsonl" in str(caught.value)
    assert path.read_text() == USER + "oops\n"


def test_a_file_that_is_gone_is_not_made_again(path):
    path.unlink()
    with pytest.raises(SaveError, match="no such file"):
        save.record(path, adding("p-1"))
    assert not path.exists()


def test_a_result_that_does_not_add_up_is_not_written(path):
    wrong = {"backward": PhasePeak(31, rows={"weights": 30})}
    with pytest.raises(SaveError, match="rows sum to 30, requested_bytes says 31"):
        save.record(path, adding("p-1", phases=wrong))
    assert path.read_text() == USER


# --- several writers ----------------------------------------------------------------------------


def editing(path: Path, times: int):
    """An update during which an editor saves the file, ``times`` times."""
    left = iter(range(times))

    def update(found: Measured) -> Measured:
        if (number := next(left, None)) is not None:
            path.write_text(USER.replace("micro = 8", f"micro = {number + 20}"))
        return adding("p-1")(found)

    return update


def test_an_edit_during_a_save_is_kept_together_with_the_result(path):
    saved = save.record(path, editing(path, 1))
    assert saved.spec.workload.batch.micro == 20
    assert load(path).measured.probe == {"p-1": probe()}


def test_a_file_that_keeps_changing_is_never_overwritten(path):
    with pytest.raises(atomic.ChangedOnDisk) as caught:
        save.record(Path("gpt.toml"), editing(path, 9), kept_in="runs/p-1.jsonl")
    assert str(caught.value) == (
        "gpt.toml changed on disk since it was read; not overwritten; "
        "the result is in runs/p-1.jsonl: run again to take both"
    )
    assert "micro = 22" in path.read_text()
    assert leftovers(path.parent) == []


def test_processes_that_save_at_once_lose_nothing(path):
    code = """
import sys
from pathlib import Path
from project_samples import adding
from tui.project import save
for number in range(5):
    save.record(Path(sys.argv[1]), adding(f"p-{sys.argv[2]}{number}"))
"""
    writers = [python(code, path, name) for name in "abc"]
    assert [writer.wait(timeout=30) for writer in writers] == [0, 0, 0]
    for writer in writers:
        writer.stdout.close()
    assert sorted(load(path).measured.probe) == [f"p-{name}{number}" for name in "abc" for number in range(5)]


def test_a_lock_that_is_held_is_waited_for_and_its_holder_named(path, monkeypatch):
    code = """
import sys
from pathlib import Path
from tui.project.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = python(code, path, stdin=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == "held\n"
        monkeypatch.setattr(lock, "WAIT_S", 0.05)
        with pytest.raises(SaveError) as caught:
            save.record(Path("gpt.toml"), adding("p-1"))
        assert f"gpt.toml is being saved by another peakmark (pid {holder.pid}); it is unchanged" in str(
            caught.value
        )
        holder.stdin.close()
        holder.wait(timeout=10)
    assert save.record(path, adding("p-1")).measured.probe


def test_a_holder_that_is_killed_leaves_no_lock_behind(path):
    code = """
import os, sys
from pathlib import Path
from tui.project.lock import hold
with hold(Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""
    holder = python(code, path)
    with holder:
        assert holder.wait(timeout=10) == -9
    with lock.hold(path, 0):
        pass


def test_a_state_folder_on_a_full_disk_only_loses_the_holders_name(path, monkeypatch):
    monkeypatch.setattr(lock.os, "pwrite", refuse(errno.ENOSPC))
    assert save.record(path, adding("p-1")).measured.probe


def test_a_state_folder_that_cannot_be_written_is_said(path, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "locks").write_text("")
    with pytest.raises(SaveError) as caught:
        save.record(Path("gpt.toml"), adding("p-1"))
    assert str(caught.value).startswith("gpt.toml could not be locked and is unchanged: ")
    assert path.read_text() == USER
