import json
import pickle

import pytest
from memory_records import MIB, Recorder, event, segment, snapshot, traces

from tui.commands.snapshot import document, lines
from tui.commands.snapshot import snapshot as command
from tui.errors import ProjectError
from tui.probe import recorded


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
    assert command(dump(tmp_path / "dump.pickle", two_kinds()), as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 allocations, 1 free, 3 segments, allocator defaults",
        "peak  requested 0.049 · allocated 0.049 · reserved 0.051 · cached 0.002 GiB",
        "at    event 3 of 6: 500 B in train.py:7 step",
        "alive (innermost frame)                                           GiB    blocks",
        "alive before recording began: the file has no stack             0.029         1",
        "train.py:7 step                                                 0.020         2",
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
    assert found["unknown"] == {}


def nulls(value, path=""):
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    here = [path] if value is None else []
    return here + [one for key, part in parts for one in nulls(part, f"{path}.{key}".lstrip("."))]


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
    found = document(recorded.read(make()))
    reasons = found.pop("unknown")
    assert sorted(reasons) == sorted(nulls(found))
    assert all(reasons.values())


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
    assert any(line.startswith(told) for line in lines(recorded.read(taken), 200))


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


@pytest.mark.parametrize("width", [48, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, lines(many_places(), width))) <= width


def test_lines_of_one_function_are_one_row_and_small_places_come_last_together():
    shown = list(lines(many_places(), 80))
    assert shown[4].split() == ["m1.py:10", "to", ":14", "f0", "0.005", "5"]
    assert shown[-2].split() == ["3", "other", "places", "0.003", "3"]


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
    with pytest.raises(ProjectError) as caught:
        command(path, as_json=True)
    assert (caught.value.sentence(), caught.value.code) == (f"{path}: {sentence}", 2)
    assert capsys.readouterr().out == ""


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path):
    with pytest.raises(ProjectError, match="no such file; write one with"):
        command(tmp_path / "none.pickle", as_json=False)
    with pytest.raises(ProjectError, match="is not a regular file"):
        command(tmp_path, as_json=False)


@pytest.mark.skipif(traces() is None, reason="the recorded traces are not here; PEAKMARK_TRACES names them")
def test_a_real_training_step_reads_as_documented(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    command(traces() / "lm_423m_train_ctx128.pickle", as_json=False)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == [
        "6,526 allocations, 6,305 frees, 377 segments, allocator defaults",
        "peak  requested 6.532 · allocated 6.544 · reserved 6.738 · cached 0.194 GiB",
        "at    event 9,966 of 19,136: 40,960,000 B in optimizer.py:80 step",
    ]
    assert [line.split()[-2] for line in shown[4:7]] == ["4.745", "1.576", "0.191"]
    assert shown[-1] == "largest free block at the end: 40.0 MiB of 398.9 MiB cached"
