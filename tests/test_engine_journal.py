"""Journals that grow, tear, fill the disk and are read meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from tui.engine.journal import Journal, Reader, Turns, tail
from tui.probe.protocol import PhaseEntered, Progress, RunEnded, encode

ROOT = Path(__file__).parents[1]


def test_what_is_written_is_what_is_read(tmp_path):
    journal = Journal(tmp_path / "run.jsonl")
    events = [PhaseEntered("forward", 1), RunEnded(0)]
    for event in events:
        journal.add(event)
    journal.close()
    assert list(Reader(tmp_path / "run.jsonl").events()) == events


def test_a_journal_is_continued_not_overwritten(tmp_path):
    for code in (0, 1):
        journal = Journal(tmp_path / "run.jsonl")
        journal.add(RunEnded(code))
        journal.close()
    assert list(Reader(tmp_path / "run.jsonl").events()) == [RunEnded(0), RunEnded(1)]


def test_on_a_full_disk_the_torn_line_is_cut_off_and_the_reason_kept(tmp_path):
    path = tmp_path / "run.jsonl"
    code = f"""
import resource
from pathlib import Path
from tui.engine.journal import Journal
from tui.probe.protocol import RunEnded
journal = Journal(Path({str(path)!r}))
journal.add(RunEnded(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
journal.add(RunEnded(1, "x" * 200))
print(journal.lost)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
journal.add(RunEnded(2))
journal.close()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("No space left on device", "File too large")
    assert path.read_bytes().endswith(b"\n")
    assert list(Reader(path).events()) == [RunEnded(0)]


def test_a_file_that_does_not_exist_yet_has_no_events_and_then_has(tmp_path):
    reader = Reader(tmp_path / "run.jsonl")
    assert list(reader.events()) == []
    (tmp_path / "run.jsonl").write_bytes(encode(RunEnded(0)))
    assert list(reader.events()) == [RunEnded(0)]
    assert list(reader.events()) == []


def test_a_line_written_in_two_halves_is_one_event(tmp_path):
    path = tmp_path / "run.jsonl"
    line = encode(PhaseEntered("forward"))
    path.write_bytes(line[:20])
    reader = Reader(path)
    assert list(reader.events()) == []
    with path.open("ab") as handle:
        handle.write(line[20:])
    assert list(reader.events()) == [PhaseEntered("forward")]
    assert reader.malformed == 0


def test_a_character_cut_in_two_is_not_damaged(tmp_path):
    path = tmp_path / "run.jsonl"
    line = '{"v":1,"t":1,"event":"RunEnded","code":0,"text":"größer"}\n'.encode()
    cut = line.index("ö".encode()) + 1
    path.write_bytes(line[:cut])
    reader = Reader(path)
    assert list(reader.events()) == []
    path.write_bytes(line)
    assert list(reader.events()) == [RunEnded(0, "größer")]


def test_malformed_lines_are_counted_and_those_around_them_are_read(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(RunEnded(0)) + b'{"v":9}\n\n[' * 1 + b"\xff\n" + encode(RunEnded(1)))
    reader = Reader(path)
    assert list(reader.events()) == [RunEnded(0), RunEnded(1)]
    assert reader.malformed == 3


def test_a_line_that_never_ends_is_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(Reader, "LINE_BYTES", 1000)
    monkeypatch.setattr(Reader, "PIECE_BYTES", 100)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * 5000 + b"\n" + encode(RunEnded(0)))
    reader = Reader(path)
    assert list(reader.events()) == [RunEnded(0)]
    assert reader.malformed == 1


def test_an_iteration_that_is_left_early_loses_nothing(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(encode(RunEnded(code)) for code in range(3)))
    reader = Reader(path)
    assert next(reader.events()) == RunEnded(0)
    assert list(reader.events()) == [RunEnded(1), RunEnded(2)]


def test_reopening_goes_on_at_the_same_place(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(RunEnded(0)) + encode(RunEnded(1))[:10])
    reader = Reader(path)
    assert list(reader.events()) == [RunEnded(0)]
    path.write_bytes(encode(RunEnded(0)) + encode(RunEnded(1)))
    reader.reopen()
    assert len(list(reader.events())) + reader.malformed == 1


async def test_a_tail_yields_what_comes_and_ends_with_its_writer(tmp_path):
    path = tmp_path / "run.jsonl"
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    events = tail(Reader(path), ended, poll_s=0.01)
    first = asyncio.ensure_future(anext(events))
    path.write_bytes(encode(RunEnded(0)))
    assert await asyncio.wait_for(first, 5) == RunEnded(0)
    with path.open("ab") as handle:
        handle.write(encode(RunEnded(1)))
    ended.set_result(None)
    assert [event async for event in events] == [RunEnded(1)]


async def test_reading_a_long_journal_gives_others_their_turn(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(Progress(1, 2, "x" * 50)) * 5000)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended.set_result(None)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    began = time.monotonic()
    read = sum([1 async for _ in tail(Reader(path), ended)])
    took = time.monotonic() - began
    counting.cancel()
    assert read == 5000
    assert turns >= took / (2.5 * Turns.SLICE_S) - 1
