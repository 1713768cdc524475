"""Readings around the ledger, from what two children saw."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tui.engine.device import Device
from tui.engine.nvml_live import Look, Watched
from tui.engine.outcome import Outcome
from tui.engine.steps.around import device_after
from tui.engine.steps.readings import LATE, phases_of, readings_of
from tui.errors import RunError
from tui.probe.protocol import ReadingTaken

AT = datetime(2026, 12, 1, tzinfo=UTC)
PHASE = {"operator": "mm", "module": "", "micro_batch": 0}


def traced(requested: int, **more: int) -> Outcome:
    phase = {**PHASE, "requested_bytes": requested, "rows": {"weights": requested}, **more}
    table = {"phases": {"backward": phase}, "source": "allocation events"}
    return Outcome("m-1", "done", "", AT, AT, "runs/m-1.jsonl", "runs/m-1.log", results={"traced": table})


def timed(*readings: ReadingTaken) -> Outcome:
    return Outcome("p-1", "done", "", AT, AT, "runs/p-1.jsonl", "runs/p-1.log", readings=readings)


def reading(name: str, size: int) -> ReadingTaken:
    return ReadingTaken(name, "backward", size, "mallinfo2", "what malloc holds")


def test_a_heap_that_holds_the_peak_is_kept():
    children = traced(100), timed(reading("heap_reserved", 150))
    phases, worst = phases_of(*children, "cpu")
    assert (worst, phases["backward"].reserved_bytes) == ("backward", 150)
    found, _ = readings_of(children, phases, worst, "cpu", None, None, 0.02)
    assert found["heap_reserved"].bytes == 150


def test_a_heap_read_below_what_was_requested_is_unknown_and_says_why():
    children = traced(100), timed(reading("heap_reserved", 90), reading("process", 300))
    phases, worst = phases_of(*children, "cpu")
    assert phases["backward"].reserved_bytes is None
    found, _ = readings_of(children, phases, worst, "cpu", None, None, 0.02)
    assert (found["heap_reserved"].bytes, found["heap_reserved"].unknown) == (None, LATE)
    assert found["process"].bytes == 300


def test_the_replayed_record_comes_before_the_reading_of_another_process():
    children = (
        traced(100, allocated_bytes=512, reserved_bytes=2048),
        timed(reading("allocator_reserved", 4096)),
    )
    phases, _ = phases_of(*children, "cuda")
    assert (phases["backward"].allocated_bytes, phases["backward"].reserved_bytes) == (512, 2048)


GIB = 2**30
BEFORE = Device(
    "cuda",
    "GPU-1f0c",
    "H100",
    80 * GIB,
    others_used_bytes=5 * GIB,
    free_bytes=74 * GIB,
    driver_reserved_bytes=GIB,
)


def on_gpu(used: int, total: int = 79 * GIB, held: int = 9 * GIB, **more: Any) -> Outcome:
    """A timed child that saw so much of a device used, of a total that CUDA counts without the driver's part."""
    rows = (("device_used", used), ("device_total", total), ("allocator_reserved", held))
    readings = [ReadingTaken(name, "backward", size, "inside", name, "", size, 4.5) for name, size in rows]
    return replace(timed(*readings), **more)


def around(child: Outcome, before: Device | None = BEFORE, after: Device | None = BEFORE):
    children = traced(100), child
    phases, worst = phases_of(*children, "cuda", before)
    found, contended = readings_of(children, phases, worst, "cuda", before, after, 0.02)
    return found, contended, phases


def test_the_process_is_what_became_less_free_whatever_cuda_and_nvml_call_total():
    found, _, phases = around(on_gpu(15 * GIB))  # of 79 GiB: 64 are free, of 74 before
    assert found["process"].bytes == 10 * GIB
    assert phases["backward"].end_process_bytes == 10 * GIB
    sizes = {name: found[name].bytes for name in ("others", "driver_reserved", "device_used", "device_total")}
    assert sizes["device_used"] == 10 * GIB + sizes["others"] + sizes["driver_reserved"] == 16 * GIB
    assert sizes["device_total"] == 80 * GIB
    assert found["process"].at_s == 4.5


def test_a_driver_that_cannot_tell_others_apart_still_shows_the_process_by_difference():
    older = replace(
        BEFORE, others_used_bytes=None, driver_reserved_bytes=None, unknown={"others_used_bytes": "old"}
    )
    found, contended, _ = around(on_gpu(15 * GIB), older, older)
    assert found["process"].bytes == 10 * GIB
    assert (found["others"].bytes, found["others"].unknown, contended) == (None, "old", False)


def test_in_a_pid_namespace_the_process_is_known_by_difference_alone():
    """Case N02 of the reported faults: 3 MiB used before, 1,015 after, and pids of the host."""
    mib = 2**20
    before = replace(
        BEFORE, free_bytes=80 * GIB - 3 * mib, others_used_bytes=3 * mib, driver_reserved_bytes=0
    )
    seen = Watched([Look(0, processes={28290: 1012 * mib}, strangers=1)])
    child = on_gpu(1015 * mib, 80 * GIB, 640 * mib, watched=seen, pid=37)
    found, _, _ = around(child, before, before)
    assert found["process"].bytes == 1012 * mib
    assert found["process_nvml"].bytes is None
    assert found["process_nvml"].unknown.startswith("pid namespace")


def test_memory_that_others_gave_back_is_not_taken_from_the_process():
    found, _, _ = around(on_gpu(5 * GIB))  # 74 GiB are free, as before
    assert found["process"].bytes is None
    assert found["process"].unknown.endswith("others gave memory back")


def test_a_measurement_is_contended_when_others_hold_more_after_it_than_before():
    more = replace(BEFORE, others_used_bytes=7 * GIB)
    found, contended, _ = around(on_gpu(15 * GIB), after=more)
    assert contended
    assert (found["others"].bytes, found["others_after"].bytes) == (5 * GIB, 7 * GIB)
    assert not around(on_gpu(15 * GIB), after=replace(BEFORE, others_used_bytes=5 * GIB + 1))[1]


def test_a_measurement_is_contended_when_others_came_and_went():
    looks = [Look(place, processes={7: GIB, 8: size}) for place, size in enumerate((GIB, 9 * GIB, GIB))]
    _, contended, _ = around(on_gpu(15 * GIB, watched=Watched(looks), pid=7))
    assert contended


def test_a_device_that_is_lost_after_the_measurement_leaves_the_measurement():
    class Lost:
        device = BEFORE

        def device_now(self):
            raise RunError("GPU-1f0c is not on this machine: GPU is lost")

    after = device_after(Lost())  # pyright: ignore[reportArgumentType]
    found, contended, _ = around(on_gpu(15 * GIB), after=after)
    assert (found["process"].bytes, contended) == (10 * GIB, False)
    assert found["others_after"].unknown == "GPU-1f0c is not on this machine: GPU is lost"


def test_every_reading_that_is_unknown_has_a_reason_and_every_known_one_a_source():
    for before in (BEFORE, None, Device("cuda", "GPU-1f0c", "H100", None)):
        found, _, _ = around(on_gpu(15 * GIB), before, before)
        assert {"process", "process_nvml", "others", "others_after", "driver_reserved"} <= set(found)
        for name, one in found.items():
            assert one.meaning, name
            assert one.source if one.bytes is not None else one.unknown, name
