import json
import pickle

import pytest
from memory_records import MIB, Recorder, event, segment, snapshot, traces

from tui.cli import main
from tui.commands.snapshot_document import Instant, document
from tui.probe import recorded
from tui.report.json_values import unexplained
from tui.report.snapshot_view import view
from tui.report.text_snapshot import snapshot_lines


def command(path, *words, as_json=False):
    return main(["snapshot", str(path), *(["--json"] if as_json else []), *words])


def lines(history, width, **more):
    return snapshot_lines(view(document(history, "dump.pickle", **more)), width)


def dump(path, value):
    path.write_bytes(pickle.dumps(value))
    return path


def two_kinds():
    """30 MiB from before the record; in it 20 MiB at train.py:7, 512 B more, then 20 MiB freed."""
    recorder = Recorder()
    recorder.malloc(1, 30 * MIB)
    recorder.begin()
    recorder.malloc(2, 20 * MIB)
    recorder.malloc(3, 500)
    recorder.free(2)
    return recorder.snapshot()


def test_people_get_peaks_the_event_what_was_alive_and_what_is_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command(dump(tmp_path / "dump.pickle", two_kinds())) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 allocations, 1 free, 3 segments, allocator defaults",
        "peak  requested 0.049 · allocated 0.049 · reserved 0.051 · cached 0.002 GiB",
        "at    event 3 of 6: 500 B in train.py:7 step",
        "allocated over events: █ all the time, ▒ at times; ─ reserved",
        "   52.0 MiB ────────────▒▒▒▒▒▒▒▒▒▒▒███████████████████████▒▒▒▒▒▒▒▒▒▒▒───────────",
        "                        ▒▒▒▒▒▒▒▒▒▒▒███████████████████████▒▒▒▒▒▒▒▒▒▒▒",
        "                        ▒▒▒▒▒▒▒▒▒▒▒███████████████████████▒▒▒▒▒▒▒▒▒▒▒",
        "            ████████████████████████████████████████████████████████████████████",
        "            ████████████████████████████████████████████████████████████████████",
        "            ████████████████████████████████████████████████████████████████████",
        "            ████████████████████████████████████████████████████████████████████",
        "          0 ████████████████████████████████████████████████████████████████████",
        "            0                                 ^ 3                              5",
        "alive (innermost frame)                                           GiB    blocks",
        "alive before recording began: the file has no stack             0.029         1",
        "train.py:7 step                                                 0.020         2",
        "  alive by size (most of them from)                               GiB    blocks",
        "   31,457,280 B alive before recording began                    0.029         1",
        "   20,971,520 B train.py:7 step                                 0.020         1",
        "          500 B train.py:7 step                                 <.001         1",
        "3 segments at the peak: 0.051 GiB · in use 0.049 · free 0.002",
        "of it 0.002 in split segments, which stay",
        "largest free block: 0 B for large requests · 2.0 MiB for those up to 1 MiB",
        "most free in segment     pool  blocks       MiB    in use     free  largest free",
        "0x10003200000           small       2       2.0       <.1      2.0       2.0 MiB",
        "2 other segments                    2      50.0      50.0        0           0 B",
        "largest free block at the end: 20.0 MiB of 22.0 MiB cached",
    ]


def test_programs_get_one_document_with_exact_bytes(tmp_path, capsys):
    assert command(dump(tmp_path / "dump.pickle", two_kinds()), as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["document"], found["peakmark"]) == (1, "snapshot", "0.1.0")
    assert found["peak"] == {
        "requested_bytes": 50 * MIB + 500,
        "requested_event_index": 3,
        "allocated_bytes": 50 * MIB + 512,
        "allocated_event_index": 3,
        "reserved_bytes": 52 * MIB,
        "reserved_event_index": 2,
        "cached_bytes": 2 * MIB - 512,
    }
    assert found["instant"]["frame"] == "train.py:7 step"
    assert sum(place["bytes"] for place in found["alive"]) == found["peak"]["requested_bytes"]
    assert found["placement"]["wrong_addresses_count"] == 0
    assert found["unknown"] == {"capacity_bytes": "no --capacity was given: nothing runs out"}


def quiet():
    return snapshot([event("snapshot", 0, 0)], [segment(1 << 40, [(2 * MIB, 512, "active_allocated")])])


def changed():
    taken = two_kinds()
    taken["allocator_settings"] = {"roundup_power2_divisions": {"1": 4}}
    return taken


def old():
    taken = two_kinds()
    del taken["allocator_settings"]
    for one in taken["device_traces"][0]:
        one["frames"] = []
    return taken


@pytest.mark.parametrize("make", [two_kinds, quiet, changed, old])
def test_every_null_has_its_reason(make):
    assert unexplained(document(recorded.read(make()))) == []


def test_reasons_say_what_is_the_matter():
    reasons = document(recorded.read(changed()))["unknown"]
    assert reasons["peak.allocated_bytes"] == (
        "the allocator settings are not the default ones (roundup_power2_divisions), "
        "so blocks were not followed"
    )
    assert document(recorded.read(quiet()))["unknown"]["instant.event_index"] == (
        "the peak was there before the first event"
    )
    assert "older torch" in document(recorded.read(old()))["unknown"]["settings"]


def test_what_is_unknown_prints_as_not_available_with_a_note():
    text = "\n".join(lines(recorded.read(changed()), 80))
    assert "allocated n/a · reserved 0.051 · cached n/a GiB" in text
    assert "allocator roundup_power2_divisions" in text
    assert "note  the allocator settings are not the default ones" in text


def test_an_old_record_without_settings_and_stacks_says_so():
    text = "\n".join(lines(recorded.read(old()), 80))
    assert "allocator settings not in the file" in text
    assert "recorded without a stack" in text


def test_a_record_in_which_nothing_rises_has_its_peak_at_the_start():
    assert "at    the start: nothing recorded rose above it" in lines(recorded.read(quiet()), 80)


def test_an_out_of_memory_is_shown_with_what_was_asked():
    taken = two_kinds()
    failed = {"action": "oom", "device_free": 5 * MIB, "size": 64 * MIB, "stream": 0, "time_us": 99}
    taken["device_traces"][0].append(failed)
    history = recorded.read(taken)
    assert "note  out of memory at event 6: 64.0 MiB asked, 5.0 MiB free on the device" in lines(history, 80)
    (told,) = document(history)["out_of_memory"]
    assert (told["event_index"], told["asked_bytes"], told["device_free_bytes"]) == (6, 64 * MIB, 5 * MIB)
    assert (told["largest_free_block_bytes"], told["free_blocks_bytes"]) == (20 * MIB, 22 * MIB - 512)
    assert told["cause"] == "capacity"
    why = "cause CAPACITY: the device has 5.0 MiB left for 64.0 MiB, with 22.0 MiB free in the cache"
    assert why in lines(history, 100)


def test_a_fragmented_cache_is_told_from_a_full_device():
    taken = two_kinds()
    failed = {"action": "oom", "device_free": 5 * MIB, "size": 22 * MIB, "stream": 0, "time_us": 99}
    taken["device_traces"][0].append(failed)
    told = "cause FRAGMENTATION: 22.0 MiB of the cache is free and 5.0 MiB beside it, enough for 22.0 MiB"
    assert any(line.startswith(told) for line in lines(recorded.read(taken), 120))


def many_places():
    names = ["a_rather_long_function_name_of_the_model" * 2, *(f"f{n}" for n in range(12))]
    events = [event("segment_alloc", 1 << 40, 20 * MIB)]
    for step, name in enumerate(names):
        for line in range(5 if step == 1 else 1):
            frames = ({"filename": f"m{step}.py", "line": 10 + line, "name": name},)
            address = (1 << 40) + (len(events) - 1) * 1049088
            events.append(event("alloc", address, MIB + 1 if step else MIB + 512, frames=frames))
    blocks = [(1049088, one["size"], "active_allocated") for one in events[1:]]
    blocks.append((20 * MIB - 1049088 * len(blocks), 0, "inactive"))
    return recorded.read(snapshot(events, [segment(1 << 40, blocks)]))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, lines(many_places(), width))) <= width


def test_lines_of_one_function_are_one_row_and_small_places_come_last_together():
    shown = lines(many_places(), 80)
    first = shown.index(next(line for line in shown if line.startswith("alive (innermost")))
    assert shown[first + 1].split() == ["m1.py:10", "to", ":14", "f0", "0.005", "5"]
    assert shown[first + 11].split() == ["3", "other", "places", "0.003", "3"]


def test_nothing_in_a_file_can_move_the_cursor():
    frame = {"filename": "a\x1b[2J.py", "line": 1, "name": "f\x1b]0;title\x07\n"}
    taken = snapshot([event("\x1b[1m", 0, 0), event("oom", 1, 1, frames=(frame,))], [])
    history = recorded.read(taken)
    assert history.events[1].frame == "a?[2J.py:1 f?]0;title??"
    assert history.notes == ["events of unknown kinds were passed over: ?[1m 1"]


class Evil:
    def __reduce__(self):
        return print, ("ran",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty; write it with torch.cuda.memory._dump_snapshot"),
        (
            pickle.dumps(Evil()),
            "asks to load builtins.print, which no memory snapshot needs; refused, nothing of it was run",
        ),
        (pickle.dumps(two_kinds())[:-9], "ends in the middle: it was cut off; copy it again"),
        (
            pickle.dumps(snapshot([], [])),
            "holds no recorded events; call torch.cuda.memory._record_memory_history() before the part that "
            "matters",
        ),
    ],
    ids=["empty", "function", "cut off", "no events"],
)
def test_a_file_of_another_kind_is_one_sentence(tmp_path, capsys, content, sentence):
    path = tmp_path / "dump.pickle"
    path.write_bytes(content)
    assert command(path, as_json=True) == 2
    said = capsys.readouterr()
    assert said.err == f"peakmark: {path}: {sentence}\n"
    assert json.loads(said.out)["document"] == "error"


def test_a_file_whose_nesting_would_end_the_process_is_one_sentence(tmp_path, capsys):
    path = tmp_path / "dump.pickle"
    path.write_bytes(b"\x80\x04})" + b"\x85" * 300_000 + b"K\x01s.")  # a tuple in a tuple in ... as a key
    assert command(path) == 2
    said = capsys.readouterr().err
    shallow_stack = "is nested more deeply than any memory snapshot; refused"
    assert (
        shallow_stack in said or "is not a memory snapshot" in said
    )  # the second where the stack is that large
    assert said.count("\n") == 1


def test_many_tuples_side_by_side_are_read(tmp_path, capsys):
    taken = two_kinds()
    taken["more"] = [(n, n) for n in range(1000, 30_000)]
    assert command(dump(tmp_path / "dump.pickle", taken)) == 0
    assert "2 allocations" in capsys.readouterr().out


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path, capsys):
    assert command(tmp_path / "none.pickle") == 2
    assert "no such file; write one with" in capsys.readouterr().err
    assert command(tmp_path) == 2
    assert "is not a regular file" in capsys.readouterr().err


def test_another_instant_has_its_own_live_set_and_segments(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", two_kinds())
    command(path, "--at", "end", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["at"]["what"], found["at"]["event_index"], found["at"]["requested_bytes"]) == (
        "end",
        5,
        30 * MIB + 500,
    )
    assert sum(one["bytes"] for one in found["alive"]) == sum(one["bytes"] for one in found["alive_by_size"])
    assert found["fragmentation"] == {
        "segments_count": 3,
        "reserved_bytes": 52 * MIB,
        "active_bytes": 30 * MIB + 512,
        "free_bytes": 22 * MIB - 512,
        "split_free_bytes": 2 * MIB - 512,
        "whole_free_bytes": 20 * MIB,
        "largest_free_small_bytes": 2 * MIB - 512,
        "largest_free_large_bytes": 20 * MIB,
    }
    assert found["segments"][0]["free_bytes"] == 20 * MIB
    command(path, "--at", "1")
    shown = capsys.readouterr().out
    assert "at    event 1 of 6: 20,971,520 B in train.py:7 step" in shown
    assert "then  requested 0.049 · allocated 0.049 · reserved 0.049 GiB" in shown
    assert "alive after event 1 (innermost frame)" in shown


@pytest.mark.parametrize("word", ["6", "-1", "x", "1.5", "peaks"])
def test_an_instant_that_the_record_lacks_is_one_sentence(tmp_path, capsys, word):
    assert command(dump(tmp_path / "dump.pickle", two_kinds()), f"--at={word}") == 2
    said = f"peakmark: --at is peak, end or an event's number from 0 to 5, got {word!r}\n"
    assert capsys.readouterr().err == said


def test_the_segments_of_a_record_by_other_rules_are_known_at_its_end_alone():
    history = recorded.read(changed())
    assert document(history)["segments"] is None
    assert "only the end is in the file" in document(history)["unknown"]["segments"]
    assert len(document(history, at=Instant("end", 5))["segments"]) == 3
    text = " ".join(lines(history, 80))
    assert "segments at the peak: n/a, the allocator settings are not the default ones" in text
    assert "requested over events" in text


def growing():
    """Each step asks 2 MiB more than the last and frees the step before: blocks of old sizes stay in the cache."""
    recorder = Recorder()
    recorder.begin()
    for step in range(10):
        recorder.malloc(step, (40 + 2 * step) * MIB)
        if step:
            recorder.free(step - 1)
    return recorder.snapshot()


def test_settings_are_compared_with_the_defaults_in_a_table(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", growing())
    assert (
        command(path, "--alloc-conf", "expandable_segments:True", "--alloc-conf", "max_split_size_mb:64") == 0
    )
    shown = capsys.readouterr().out.splitlines()
    first = shown.index(next(line for line in shown if line.startswith("replayed")))
    rows = [line.split() for line in shown[first + 1 : first + 5]]
    assert rows[0][:3] == ["as", "recorded", "0.479"]
    assert rows[1] == ["defaults", "0.479", "0.111", "0", "no", "proved"]  # 40 + 42 + ... + 58 MiB
    assert rows[2] == ["expandable_segments:True", "0.176", "0.111", "0", "no", "source"]  # 9 pages
    assert [row[0] for row in rows[3:]] == ["max_split_size_mb:64"]
    assert "rules proved: default: proved by recorded traces" in shown
    assert "rules source: from source, not yet verified" in shown


def test_what_would_have_run_out_is_a_verdict_and_its_exit_code(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", growing())
    assert command(path, "--capacity", "130MiB") == 0
    assert "FITS 130.0 MiB with the defaults: 126.0 MiB reserved" in capsys.readouterr().out  # 40 + 42 + 44
    assert command(path, "--capacity", "113MiB") == 1  # the last two are 56 + 58 MiB
    said = " ".join(capsys.readouterr().out.split())
    assert "DOES NOT FIT 113.0 MiB with the defaults: event 35 asked 58.0 MiB in train.py:7 step with" in said
    assert "56.0 MiB reserved, 56.0 MiB of it allocated; the largest free block was 0 B" in said


def test_one_of_the_settings_asked_for_that_holds_is_enough(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", growing())
    words = ("--capacity", str(115 * MIB), "--alloc-conf", "expandable_segments:True")  # in pages: 100 MiB
    assert command(path, *words, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    plain, other = found["replays"]
    assert (plain["settings"], plain["out_of_memory"]) == ("", {})
    assert plain["basis"] == "from source, not yet verified"  # it had to give back and ask again
    assert plain["memory_stats"]["reserved_bytes.all.peak"] == plain["peak_reserved_bytes"]
    assert plain["memory_stats"]["num_alloc_retries"] == plain["retries_count"] > 0
    assert other["out_of_memory"]["asked_bytes"] == 46 * MIB  # three pages of 20 MiB beside the same three
    assert found["capacity_bytes"] == 115 * MIB
    assert command(path, *words, "--alloc-conf", "max_split_size_mb:64") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--alloc-conf", "expandable_segment:True"], "did you mean expandable_segments?"),
        (["--alloc-conf", "backend:cudaMallocAsync"], "backend:cudaMallocAsync cannot be simulated"),
        (["--capacity", "6G"], "could mean two sizes"),
        (["--capacity", "0"], "must be more than nothing"),
        (["--top", "0"], "must be a whole number, 1 or more"),
    ],
)
def test_words_that_mean_nothing_are_one_sentence(tmp_path, capsys, words, said):
    assert command(dump(tmp_path / "dump.pickle", growing()), *words) == 2
    text = capsys.readouterr().err
    assert said in text
    assert text.count("\n") == 1


def test_plain_is_one_figure_a_line_and_ascii_has_no_other_character(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", two_kinds())
    command(path, "--plain")
    shown = capsys.readouterr().out.splitlines()
    assert f"peak.requested_bytes {50 * MIB + 500}" in shown
    command(path, "--ascii")
    text = capsys.readouterr().out
    assert text.isascii()
    assert "allocated over events: # all the time, = at times; - reserved" in text


def test_more_rows_are_shown_when_asked_for(tmp_path, capsys):
    path = dump(tmp_path / "dump.pickle", two_kinds())
    command(path, "--top", "1")
    shown = capsys.readouterr().out
    assert "1 other place " in shown
    assert "2 other sizes" in shown


@pytest.mark.skipif(traces() is None, reason="the recorded traces are not here; PEAKMARK_TRACES names them")
def test_a_real_training_step_reads_as_documented(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command(traces() / "lm_423m_train_ctx128.pickle")
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == [
        "6,526 allocations, 6,305 frees, 377 segments, allocator defaults",
        "peak  requested 6.532 · allocated 6.544 · reserved 6.738 · cached 0.194 GiB",
        "at    event 9,966 of 19,136: 40,960,000 B in optimizer.py:80 step",
    ]
    first = shown.index(next(line for line in shown if line.startswith("alive (innermost")))
    assert [line.split()[-2] for line in shown[first + 1 : first + 4]] == ["4.745", "1.576", "0.191"]
    assert shown[-1] == "largest free block at the end: 40.0 MiB of 398.9 MiB cached"
