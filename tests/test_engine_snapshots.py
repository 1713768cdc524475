import asyncio
import os
import pickle
import sys

import pytest
from memory_records import MIB, Recorder

from tui.engine import snapshots
from tui.errors import PeakmarkError, RunError


def dump(path, value):
    path.write_bytes(pickle.dumps(value))
    return path


def two_blocks():
    recorder = Recorder()
    recorder.begin()
    recorder.malloc(1, 3 * MIB)
    recorder.malloc(2, 5 * MIB)
    recorder.free(1)
    return recorder.snapshot()


async def test_a_file_is_read_in_a_process_of_its_own_with_its_replays(tmp_path):
    path = dump(tmp_path / "-a file.pickle", two_blocks())
    found = await snapshots.load(path, at="end", settings=["max_split_size_mb:64"], capacity=64 * MIB)
    assert (found.file, found.events, found.peak.requested) == ("-a file.pickle", 5, 8 * MIB)
    assert (found.at_figures.requested, [one.bytes for one in found.live]) == (5 * MIB, [5 * MIB])
    assert [one.settings for one in found.replays] == ["", "max_split_size_mb:64"]
    assert found.fragmentation.free == 15 * MIB


async def test_what_would_not_fit_is_an_answer_and_no_error(tmp_path):
    found = await snapshots.load(dump(tmp_path / "a.pickle", two_blocks()), capacity=10 * MIB)
    assert found.replays[0].failure is not None
    assert found.replays[0].failure.asked == 3 * MIB


async def test_what_is_wrong_with_a_file_comes_as_the_commands_own_sentence(tmp_path):
    path = dump(tmp_path / "a.pickle", {"segments": []})
    with pytest.raises(PeakmarkError) as caught:
        await snapshots.load(path)
    assert caught.value.code == 2
    assert caught.value.where == str(path)
    assert caught.value.message.startswith("is not a memory snapshot")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ended with signal 11 and no answer"),
        ("print('{}')", "ended with exit code 0 and no answer"),
        ("import sys; sys.exit('broken')", "exit code 1 and no answer; broken"),
    ],
    ids=["crash", "other document", "no document"],
)
async def test_a_reader_that_gives_no_answer_is_one_sentence(tmp_path, monkeypatch, code, said):
    monkeypatch.setattr(snapshots, "command", lambda: [sys.executable, "-c", code])
    with pytest.raises(RunError) as caught:
        await snapshots.load(tmp_path / "a.pickle")
    assert said in caught.value.sentence()


async def test_cancelling_ends_the_reader(tmp_path, monkeypatch):
    began = tmp_path / "began"
    code = f"import os, pathlib, time; pathlib.Path({str(began)!r}).write_text(str(os.getpid())); time.sleep(600)"
    monkeypatch.setattr(snapshots, "command", lambda: [sys.executable, "-c", code])
    loading = asyncio.ensure_future(snapshots.load(tmp_path / "a.pickle"))
    while not (began.exists() and began.read_text()):
        await asyncio.sleep(0.01)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    with pytest.raises(ProcessLookupError):
        os.kill(int(began.read_text()), 0)
