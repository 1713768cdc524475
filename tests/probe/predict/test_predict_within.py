"""What the allocator does within a limit: it empties its cache, or says where it gives up and why."""

from types import SimpleNamespace

import pytest

from probe.helpers import run_here
from tui.probe.allocator import CachingAllocator
from tui.probe.allocator_settings import parse
from tui.probe.predict import within
from tui.probe.predict.simulate import simulate

MIB, GIB = 2**20, 2**30
SMALL = {"layers": 2, "heads": 2, "width": 64, "vocab": 256, "context": 64}


class Fake:
    """A point in which a block of 30 MiB is freed before one of 10 MiB a sample is made, twice."""

    scratch = frozenset()

    def __init__(self, micro):
        grown = 10 * MIB * micro
        once = [(30 * MIB), -(30 * MIB), grown, -grown]
        self.events = [(2 * turn + at // 2, size) for turn in (0, 1) for at, size in enumerate(once)]
        self.intervals = [(0, 4), (4, 8)]
        intervals = [SimpleNamespace(iteration=turn, phase="forward", micro=0) for turn in (0, 2)]
        self.names = ["first.forward", "forward"]
        one = SimpleNamespace(op="aten::mm")
        self.labelled = SimpleNamespace(
            intervals=intervals,
            labels=[SimpleNamespace(module="head")] * 4,
            record=SimpleNamespace(allocations=[one] * 4),
        )

    def simulate(self, allocator):
        return simulate(self.events, self.intervals, allocator)


def table(micro, capacity):
    point = Fake(micro)
    free = point.simulate(CachingAllocator())
    return within.tables(point, free, [capacity], CachingAllocator, True)[0]


def test_within_what_it_reserves_anyway_nothing_is_emptied():
    # 30 and 50 MiB have a segment each, and the next iteration finds both
    found = table(5, 80 * MIB)
    assert (found["retries"], found["reserved_bytes"], found["out_of_memory"]) == (0, 80 * MIB, None)


def test_within_less_the_cache_is_emptied_in_every_iteration():
    # 50 MiB take the place of 30 once; from then on the 50 MiB block serves both
    found = table(5, 60 * MIB)
    assert (found["retries"], found["steady_retries"], found["out_of_memory"]) == (1, 0, None)
    assert found["reserved_bytes"] <= 60 * MIB


def test_what_is_more_than_the_capacity_is_said_with_phase_operator_and_cause():
    failed = table(5, 40 * MIB)["out_of_memory"]
    assert (failed["phase"], failed["operator"], failed["module"]) == ("first.forward", "mm", "head")
    assert (failed["asked_bytes"], failed["allocated_bytes"], failed["rule"]) == (50 * MIB, 0, "capacity")


def test_what_would_fit_if_the_free_bytes_were_in_one_piece_is_fragmentation():
    point = Fake(5)
    # blocks of 13 MiB keep two segments of 24 MiB from being given back; 22 MiB are free, in two pieces
    sizes = [24, 24, -24, -24, 13, 13, 22]
    ids = [0, 1, 0, 1, 2, 3, 4]
    point.events = [(id, size * MIB) for id, size in zip(ids, sizes, strict=True)]
    point.intervals = [(0, 7)]
    point.labelled.labels *= 2
    point.labelled.record.allocations *= 2
    allocator = CachingAllocator(48 * MIB)
    done = simulate(point.events, point.intervals, allocator)
    assert within.failure(point, done)["rule"] == "fragmentation"
    assert within.failure(point, done)["largest_free_block_bytes"] == 11 * MIB


@pytest.mark.parametrize("best", [0, 1])
def test_the_largest_that_runs_when_the_cache_is_emptied_is_that_of_trying_every_one(best):
    limit = 95 * MIB
    points = {1: Fake(1), 2: Fake(2)}
    found = within.Emptying(points, Fake, limit, CachingAllocator, best).run()
    tried = [micro for micro in range(1, 60) if table(micro, limit)["out_of_memory"] is None]
    assert (found["micro"], found["next"]) == (max(tried), max(tried) + 1) == (9, 10)
    assert found["retries"] == 1
    assert found["reserved_bytes"] <= limit


def test_a_bound_of_the_batch_is_kept():
    found = within.Emptying({1: Fake(1), 2: Fake(2)}, Fake, 95 * MIB, CachingAllocator, 2, 4).run()
    assert (found["micro"], found["next"]) == (4, None)


def test_points_that_are_not_alike_find_nothing():
    other = Fake(2)
    other.events += [(4, MIB), (4, -MIB)]
    other.intervals = [(0, 4), (4, 10)]
    assert within.Emptying({1: Fake(1), 2: other}, Fake, 95 * MIB, CachingAllocator, 0).run() is None


@pytest.mark.parametrize(
    ("settings", "total", "limit"),
    [
        ("", 80 * GIB, 60 * GIB),
        ("per_process_memory_fraction:0.5", 80 * GIB, 40 * GIB),
        ("per_process_memory_fraction:0.9", 80 * GIB, 60 * GIB),
        ("per_process_memory_fraction:0.5", None, 60 * GIB),
    ],
)
def test_a_share_of_the_memory_is_of_the_whole_device(settings, total, limit):
    made = parse(settings)
    allocator = CachingAllocator(within.capacity_under(made, 60 * GIB, total), settings=made)
    assert allocator.limit == pytest.approx(limit, abs=1)


def test_a_workload_is_told_of_within_every_limit_that_was_asked_for():
    limits = [at * 2 * MIB for at in range(1, 60)]
    asked = {
        "semantics": "cuda",
        "capacity_bytes": limits,
        "points": [{"micro": 4, "accumulate": 1, "length": 64}],
    }
    more = {"source": "decoder", "args": SMALL, "micro": 4, "length": 64, "extra": {"predict": asked}}
    found = run_here("predict", **more).table("predicted")
    natural = max(phase["reserved_bytes"] for phase in found["phases"].values())
    assert found["out_of_memory"] is None
    assert [one["capacity_bytes"] for one in found["within"]] == limits
    failed = [one for one in found["within"] if one["out_of_memory"] is not None]
    runs = [one for one in found["within"] if one["out_of_memory"] is None]
    assert failed
    assert all(one["reserved_bytes"] <= one["capacity_bytes"] for one in runs)
    assert all(one["retries"] == 0 for one in runs if one["capacity_bytes"] >= natural)
    assert all(one["out_of_memory"]["operator"] for one in failed if one["out_of_memory"]["phase"] != "build")
    assert max(one["capacity_bytes"] for one in failed) < min(one["capacity_bytes"] for one in runs)
