"""Readings around the ledger, from what two children saw."""

from datetime import UTC, datetime

from tui.engine.outcome import Outcome
from tui.engine.steps.readings import LATE, phases_of, readings_of
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
