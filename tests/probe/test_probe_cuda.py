"""The path for CUDA without a GPU: recorded histories, and the device against a stand-in for ``torch.cuda``."""

import resource
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from memory_records import MIB, Recorder, event, segment, snapshot, traces

from tui.probe import peaks, record_cuda, unpickle
from tui.probe.device import cuda, open_device
from tui.probe.faults import TaskError
from tui.probe.labels import Labelled

TRACES = traces()
GIB = 1 << 30


def by_hand():
    """2 MiB at the first address for 1..3 us, 1 MiB behind it from 2 us on."""
    at = 1 << 40
    events = [
        event("segment_alloc", at, 20 * MIB, us=1),
        event("alloc", at, 2 * MIB, us=1),
        event("alloc", at + 2 * MIB, 3 * MIB, us=2),
        event("free_requested", at, 2 * MIB, us=3),
        event("free_completed", at, 2 * MIB, us=3),
    ]
    blocks = [(2 * MIB, 0, "inactive"), (3 * MIB, 3 * MIB, "active_allocated"), (15 * MIB, 0, "inactive")]
    return snapshot(events, [segment(at, blocks)])


def test_a_snapshot_by_hand_becomes_a_record():
    record = record_cuda.from_snapshot(by_hand(), 0)
    assert [one.nbytes for one in record.allocations] == [2 * MIB, 3 * MIB]
    assert record.levels() == [2 * MIB, 5 * MIB, 3 * MIB]
    assert record.alive_at(1 << 40, 2000) == 0
    # The record has whole microseconds: an event of the mark's own microsecond is later.
    assert [record.event_at(ns) for ns in (1999, 2999, 3001)] == [0, 1, 2]


def test_allocated_and_reserved_peaks_are_laid_over_the_phases():
    marks = [
        (0, "build", None, None),
        (2500, "forward", 2, 0),
        (3900, "idle", 2, None),
        (9000, "end", None, None),
    ]
    found, why = record_cuda.outer_peaks(by_hand(), 0, marks)
    assert (found, why) == ([(2 * MIB, 20 * MIB), (5 * MIB, 20 * MIB), (5 * MIB, 20 * MIB)], "")


def test_a_history_that_cannot_be_replayed_gives_the_reason():
    broken = {**by_hand(), "segments": "none"}
    assert record_cuda.outer_peaks(broken, 0, [(0, "build", None, None)]) == (
        [],
        "the allocator's history cannot be replayed: segments is not a list",
    )


def test_the_traced_table_has_allocated_and_reserved_bytes_of_the_worst_micro_batch():
    recorder = Recorder()
    recorder.begin()
    recorder.malloc(1, 3 * MIB + 1)
    middle = len(recorder.events)
    recorder.malloc(2, 30 * MIB)
    recorder.free(2)
    made = recorder.snapshot()
    marks = [
        (0, "forward", peaks.STEADY, 0),
        (middle * 1000, "forward", peaks.STEADY, 1),
        (10**9, "idle", peaks.STEADY, None),
        (2 * 10**9, "end", None, None),
    ]
    labelled = Labelled(record_cuda.from_snapshot(made, 0), marks, [], [], None)
    source = record_cuda.CudaRecorder(0)
    source._snapshot = made
    model = torch.nn.Linear(1, 1)
    phase = peaks.table(labelled, SimpleNamespace(model=model), source, marks)["phases"]["forward"]
    assert (phase["requested_bytes"], phase["micro_batch"]) == (33 * MIB + 1, 1)
    assert (phase["allocated_bytes"], phase["reserved_bytes"]) == (33 * MIB + 512, 50 * MIB)
    assert sum(phase["rows"].values()) == phase["requested_bytes"]


@pytest.mark.skipif(TRACES is None, reason="the recorded traces are not here; PEAKMARK_TRACES names them")
def test_the_peak_of_a_recorded_attention_is_exact():
    name = "attention_forward_backward.pickle"
    wanted = next(
        one for one in tomllib.loads((TRACES / "expected.toml").read_text())["trace"] if one["file"] == name
    )
    taken = unpickle.load(TRACES / name)
    record = record_cuda.from_snapshot(taken, 0)
    value, place = record.peak(0, len(record.events))
    assert value == wanted["peak"]["requested"]
    assert place is not None
    outer, why = record_cuda.outer_peaks(taken, 0, [(0, "forward", 0, 0), (1 << 62, "end", None, None)])
    assert (outer, why) == ([(wanted["peak"]["allocated"], wanted["peak"]["reserved"])], "")


class FakeEvent:
    """An event that the device has passed once the clock of the stand-in is beyond it."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        FakeCuda.queued += 1
        self.at = FakeCuda.queued

    def query(self):
        return self.at <= FakeCuda.done

    def elapsed_time(self, other):
        assert other.query(), "read before the device has passed it"
        return float(other.at - self.at)


class FakeCuda:
    """The parts of ``torch.cuda`` that the device uses."""

    Event = FakeEvent
    queued = done = synchronised = 0

    def __init__(self):
        type(self).queued = type(self).done = type(self).synchronised = 0
        self.uuids = ["1f0c0000-aaaa", "77d20000-bbbb"]
        self.reserved = self.fraction = self.chosen = None
        self.peaks = {"requested": 100, "allocated": 512, "reserved": 2 * MIB, "inactive_split": 5 * MIB}
        self.now = {"requested": 80, "allocated": 512, "reserved": 2 * MIB, "inactive_split": 3 * MIB}
        self.pinned = {"allocated_bytes.peak": 8 * MIB, "allocated_bytes.current": 4 * MIB}
        self.integrated = False

    def is_available(self):
        return True

    def device_count(self):
        return len(self.uuids)

    def get_device_properties(self, index):
        return SimpleNamespace(
            uuid=self.uuids[index],
            name="H100",
            total_memory=80 * GIB,
            major=9,
            minor=0,
            is_integrated=self.integrated,
        )

    def set_device(self, index):
        self.chosen = index

    def synchronize(self, index=None):
        type(self).synchronised += 1
        type(self).done = type(self).queued

    def mem_get_info(self, index):
        return 60 * GIB, 80 * GIB

    def memory_allocated(self, index):
        return 77

    def memory_stats(self, index):
        peaks = {f"{name}_bytes.all.peak": value for name, value in self.peaks.items()}
        return peaks | {f"{name}_bytes.all.current": value for name, value in self.now.items()}

    def host_memory_stats(self):
        return self.pinned

    def memory_reserved(self, index):
        return self.now["reserved"]

    def max_memory_reserved(self, index):
        return self.peaks["reserved"]

    def reset_peak_memory_stats(self, index):
        self.peaks = dict.fromkeys(self.peaks, 0)

    def set_per_process_memory_fraction(self, fraction, index):
        self.fraction = fraction


@pytest.fixture
def fake(monkeypatch):
    made = FakeCuda()
    monkeypatch.setattr(cuda.torch, "cuda", made)
    monkeypatch.setattr(cuda.torch.version, "cuda", "12.6")
    monkeypatch.setattr(cuda.torch, "device", lambda kind, index: (kind, index))
    return made


def test_the_device_is_the_one_whose_uuid_was_named(fake):
    assert open_device("cuda:GPU-77d20000-bbbb").index == fake.chosen == 1
    assert open_device("cuda").index == 0


def test_a_device_that_torch_does_not_see_is_named_with_those_it_does(fake):
    with pytest.raises(TaskError) as caught:
        open_device("cuda:GPU-9aa0")
    assert (
        caught.value.sentence
        == "device GPU-9aa0 is not among those torch sees (1f0c0000-aaaa, 77d20000-bbbb)"
    )


def test_a_slice_is_the_one_device_that_its_process_sees(fake, monkeypatch):
    fake.uuids = ["1f0c0000-aaaa"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c1d")
    device = open_device("cuda:MIG-5c1d")
    assert (device.index, device.facts()[0]["device_id"]) == (0, "MIG-5c1d")


def test_readings_say_bytes_and_where_they_were_read(fake):
    found = {one.name: one for one in open_device("cuda").readings("forward")}
    assert {name: (one.bytes, one.end) for name, one in found.items() if name != "host_rss"} == {
        "requested": (100, 80),
        "tensor_allocated": (512, 512),
        "allocator_reserved": (2 * MIB, 2 * MIB),
        "inactive_split": (5 * MIB, 3 * MIB),
        "device_used": (20 * GIB, 20 * GIB),
        "device_total": (80 * GIB, None),
        "pinned": (8 * MIB, 4 * MIB),
    }
    assert found["requested"].source == "memory_stats requested_bytes.all.peak"
    assert all(one.meaning and one.at_s for one in found.values())


def test_the_host_memory_of_the_process_is_a_reading_beside_the_device(fake):
    device = open_device("cuda")
    device.reset_peaks()
    ballast = bytearray(64 * MIB)
    one = next(one for one in device.readings("forward") if one.name == "host_rss")
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    assert one.bytes >= one.end > 64 * MIB
    assert abs(one.end - resident) < 16 * MIB
    del ballast


def test_pinned_bytes_that_cannot_be_had_are_unknown_with_the_reason(fake, monkeypatch):
    def refuse():
        raise RuntimeError("no host allocator")

    monkeypatch.setattr(fake, "host_memory_stats", refuse)
    one = open_device("cuda").readings("forward")[-1]
    assert (one.name, one.bytes, one.unknown) == ("pinned", None, "host_memory_stats: no host allocator")
    monkeypatch.setattr(fake, "host_memory_stats", None)
    assert open_device("cuda").readings("forward")[-1].unknown.endswith("does not count pinned memory")


def test_a_gpu_that_shares_the_hosts_memory_has_no_reading_of_what_is_used(fake):
    fake.integrated, fake.uuids = True, [""]
    device = open_device(f"cuda:{cuda.INTEGRATED}")
    used = next(one for one in device.readings("forward") if one.name == "device_used")
    assert (used.bytes, used.unknown) == (None, cuda.NO_USED)
    assert device.facts()[0]["device_id"] == cuda.INTEGRATED


def test_a_statistic_that_this_torch_lacks_is_unknown_with_the_reason(fake):
    del fake.peaks["requested"]
    one = open_device("cuda").readings("forward")[0]
    assert (one.bytes, one.unknown) == (None, "this torch keeps no requested_bytes.all.peak")


def test_resetting_the_peaks_hides_no_high_water_of_reserved(fake):
    device = open_device("cuda")
    fake.peaks["reserved"] = 9 * MIB
    device.reset_peaks()
    fake.peaks["reserved"] = 4 * MIB  # segments were given back meanwhile
    (reading,) = device.high_water("steady")
    assert (reading.name, reading.phase, reading.bytes) == ("allocator_reserved", "steady", 9 * MIB)


def test_the_limit_is_a_share_of_the_whole_device_and_never_above_it(fake):
    device = open_device("cuda")
    assert device.limit(20 * GIB) == 20 * GIB
    assert fake.fraction == 0.25
    device.limit(79 * GIB, 2 * GIB)
    assert fake.fraction == 1.0


def test_the_cap_leaves_room_for_the_context_which_is_no_memory_of_the_allocator(fake):
    device = open_device("cuda")  # 60 of 80 GiB are free, 2 MiB are reserved
    context = 600 * MIB
    assert device.limit(20 * GIB, 0, 60 * GIB + context + 2 * MIB) == 20 * GIB - context
    assert fake.fraction == (20 * GIB - context) / (80 * GIB)
    # What is no context, because others came or went meanwhile, changes nothing.
    assert device.limit(20 * GIB, 0, 70 * GIB) == device.limit(20 * GIB, 0, 50 * GIB) == 20 * GIB


def test_the_stopwatch_reads_events_that_were_passed_and_waits_once(fake):
    watch = open_device("cuda").stopwatch()
    for _ in range(3):
        watch.begin()
        watch.end()
    assert watch.finished() == []
    FakeCuda.done = 4
    assert watch.finished() == [1.0, 1.0]
    assert FakeCuda.synchronised == 0
    assert watch.finish() == [1.0]
    assert FakeCuda.synchronised == 1


def test_facts_are_those_of_the_card(fake):
    facts, unknown = open_device("cuda").facts()
    assert (facts["device"], facts["device_id"], facts["capability"]) == ("H100", "GPU-1f0c0000-aaaa", "9.0")
    assert facts["device_total_bytes"] == 80 * GIB
    assert unknown["driver"] == "read by NVML, outside this process"


def test_a_torch_without_cuda_is_told_what_to_do():
    if torch.version.cuda is None:
        with pytest.raises(TaskError) as caught:
            open_device("cuda")
        assert "is built without CUDA" in caught.value.sentence
    with pytest.raises(TaskError, match="neither cpu nor cuda"):
        open_device("tpu")
