"""The largest batch on paper: lines through two traces, and the allocator's answer at any batch."""

from types import SimpleNamespace

import pytest

from probe.helpers import run_here
from tui.probe.allocator import CachingAllocator
from tui.probe.predict.affine import Lines, Traced, largest, without
from tui.probe.predict.search import Search
from tui.probe.predict.simulate import largest_reserved, simulate

MIB = 2**20


def traced(micro, fixed=3 * MIB, per_sample=MIB):
    """One block that stays, one that grows with the batch."""
    grown = per_sample * micro
    events = [(0, fixed), (1, grown), (1, -grown), (0, -fixed)]
    return Traced(micro, events, [(0, 4)], fixed + grown)


def reserved(micro):
    done = simulate(traced(micro).events, [(0, 4)], CachingAllocator())
    return largest_reserved(done.levels)


def test_sizes_at_another_batch_are_those_of_a_trace_of_it():
    lines = Lines.between(traced(4), traced(8))
    assert lines.at(23) == list(traced(23).events)
    assert lines.at(1) == list(traced(1).events)


def test_what_is_freed_in_one_go_is_freed_in_the_order_of_birth_and_scratch_is_left_out():
    events = [(0, 8), (1, 9), (2, 10), (3, 11), (3, -11), (2, -10), (0, -8), (4, 5), (1, -9)]
    assert without(events, [(0, 4), (4, 9)], {3}) == (
        [(0, 8), (1, 9), (2, 10), (0, -8), (2, -10), (3, 5), (1, -9)],
        [(0, 3), (3, 7)],
    )


def test_batches_that_do_not_run_the_same_operators_have_no_line():
    other = traced(8)
    assert Lines.between(traced(4), other._replace(events=other.events[:2])) is None
    assert Lines.between(traced(4), traced(4)) is None


@pytest.mark.parametrize("limit", [20 * MIB, 64 * MIB, 100 * MIB, 517 * MIB])
def test_the_answer_is_that_of_trying_every_batch(limit):
    found = largest(Lines.between(traced(2), traced(4)), limit, CachingAllocator, guess=4)
    tried = [micro for micro in range(1, 600) if reserved(micro) <= limit]
    assert found.micro == (max(tried) if tried else None)
    if found.micro is not None:
        assert reserved(found.micro) == found.reserved <= limit < found.next_reserved


def test_an_upper_bound_is_kept_and_nothing_above_it_is_said():
    found = largest(Lines.between(traced(2), traced(4)), 10_000 * MIB, CachingAllocator, upper=48)
    assert (found.micro, found.next_micro) == (48, None)


def test_nothing_fits_where_not_even_one_sample_does():
    found = largest(Lines.between(traced(2), traced(4)), MIB, CachingAllocator)
    assert found.micro is None


def test_a_workload_is_searched_in_a_few_traces_and_its_answer_is_one_of_them():
    args = {"layers": 2, "heads": 2, "width": 64, "vocab": 256, "context": 64}
    point = {"micro": 4, "accumulate": 1, "length": 64}
    asked = {"semantics": "cuda", "points": [point], "largest": {"reserved_limit_bytes": 256 * MIB}}
    events = run_here("predict", source="decoder", args=args, micro=4, length=64, extra={"predict": asked})
    found = events.table("predicted_largest")
    assert found["micro"] in found["traced"]
    assert len(found["traced"]) <= 5
    assert found["reserved_bytes"] <= 256 * MIB < found["next"]["reserved_bytes"]
    assert found["line"]["residual_max_bytes"] == 0


class Fake:
    """A point of ``traced``, of which one sample runs other operators."""

    def __init__(self, micro, bend=None):
        made = traced(micro, fixed=(3 if bend is None or micro < bend else 2) * MIB)
        self.events = list(made.events) if micro > 1 else [(0, 3 * MIB), (0, -3 * MIB)]
        self.intervals = [(0, len(self.events))]
        self.scratch = set()
        self.labelled = SimpleNamespace(record=SimpleNamespace(levels=lambda: [made.requested]))

    def simulate(self, allocator):
        return simulate(self.events, self.intervals, allocator)


def test_where_one_sample_runs_other_operators_the_lines_go_through_more_of_them():
    found = Search(1, Fake(1), Fake, 64 * MIB, CachingAllocator).run()
    tried = [micro for micro in range(2, 200) if reserved(micro) <= 64 * MIB]
    assert found["micro"] == max(tried)
    assert found["traced"][:3] == [1, 2, 4]
    assert found["line"] == {"fixed_bytes": 3 * MIB, "per_sample_bytes": MIB, "residual_max_bytes": 0}


def test_no_residual_is_said_of_two_points():
    found = Search(2, Fake(2), Fake, MIB, CachingAllocator).run()
    assert found["line"] is None or found["line"]["residual_max_bytes"] is None
