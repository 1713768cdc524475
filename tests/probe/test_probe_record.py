"""Pairing, the record of allocations, and the rows of its bytes: values by hand, no process, no device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.probe import align
from tui.probe.allocations import Record
from tui.probe.labels import Labelled, Registration
from tui.probe.tracker import Label

ENTRIES = st.lists(st.integers(0, 10_000), min_size=1, max_size=60, unique=True)


@given(ENTRIES, st.lists(st.tuples(st.integers(0, 60), st.integers(20_000, 30_000)), max_size=12))
def test_entries_inserted_into_a_copy_leave_the_rest_paired(entries, inserted):
    copy = list(entries)
    for place, value in inserted:
        copy.insert(min(place, len(copy)), value)
    pairs = align.pair(entries, copy)
    assert all(entries[mine] == copy[theirs] for mine, theirs in pairs)
    assert pairs == sorted(set(pairs))
    if not inserted:
        assert pairs == [(place, place) for place in range(len(entries))]


@given(ENTRIES, st.integers(0, 60), st.lists(st.integers(20_000, 30_000), min_size=1, max_size=40))
def test_one_stretch_inserted_into_a_copy_pairs_every_other_entry(entries, place, stretch):
    place = min(place, len(entries))
    copy = [*entries[:place], *stretch, *entries[place:]]
    found = {mine for mine, _ in align.pair(entries, copy)}
    assert found == set(range(len(entries)))


def test_entries_that_only_one_side_has_are_passed_over():
    assert align.pair("abcdefg", "abXcdefg") == [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    assert align.pair("", "abc") == []


# 100 B at A for 10..40, 50 B at B from 20 on, then 30 B at A again from 50 on
ROWS = [
    (10, 0xA, 100, "mm", None),
    (20, 0xB, 50, "", None),
    (40, 0xA, -100, "", None),
    (50, 0xA, 30, "", None),
]


def test_a_block_lives_from_its_birth_to_its_free():
    record = Record(ROWS)
    assert [(one.nbytes, one.born, one.died) for one in record.allocations] == [
        (100, 0, 2),
        (50, 1, None),
        (30, 3, None),
    ]
    assert record.levels() == [100, 150, 50, 80]


def test_an_address_that_is_used_again_is_another_block():
    record = Record(ROWS)
    assert [record.alive_at(0xA, t) for t in (9, 10, 39, 45, 50, 99)] == [None, 0, 0, None, 2, 2]
    assert record.alive_at(0xC, 50) is None


def test_rows_in_any_order_are_sorted_by_time():
    assert Record(ROWS[::-1]).levels() == [100, 150, 50, 80]


def test_frees_of_blocks_from_before_the_record_are_counted_and_change_nothing():
    record = Record([(5, 0xF, -70, "", None), *ROWS])
    assert (record.unknown_frees, record.levels()) == (1, [100, 150, 50, 80])


@pytest.mark.parametrize(
    ("first", "last", "peak"),
    [(0, 4, (150, 1)), (2, 4, (150, None)), (3, 4, (80, 3)), (4, 4, (80, None)), (0, 0, (0, None))],
)
def test_the_peak_of_an_interval_counts_what_was_there_before_it(first, last, peak):
    assert Record(ROWS).peak(first, last) == peak


def test_what_is_alive_after_an_event():
    record = Record(ROWS)
    assert [record.alive_after(event) for event in (-1, 1, 2, 3)] == [[], [0, 1], [1], [1, 2]]


def test_a_coarse_clock_counts_the_events_of_a_step_as_later_than_a_mark_in_it():
    record = Record([(1000, 0xA, 8, "", None), (2000, 0xB, 8, "", None)], resolution_ns=1000)
    assert [record.event_at(t) for t in (999, 1500, 2001, 3000)] == [0, 0, 1, 2]


def label(row=None, op="mm", module="fc", phase="forward"):
    return Label(row, op, module, phase)


def labelled(rows, marks, registered=(), births=(), tracked=1):
    return Labelled(Record(rows), marks, [Registration(*one) for one in registered], list(births), tracked)


MARKS = [(0, "forward", 1, 0), (100, "backward", 1, 0), (200, "step", 1, None), (300, "end", None, None)]


def test_what_is_registered_wins_over_the_tracker():
    found = labelled(
        [(10, 1, 64, "mm", 12)],
        MARKS,
        [(90, 1, "weights", "fc.weight")],
        [(11, 1, label("step_temporaries"))],
    )
    assert (found.rows, found.names) == (["weights"], ["fc.weight"])


def test_made_in_a_forward_and_alive_after_it_is_a_retained_activation():
    rows = [(10, 1, 64, "mm", 12), (20, 2, 32, "mm", 22), (50, 2, -32, "", None), (150, 1, -64, "", None)]
    found = labelled(rows, MARKS, births=[(11, 1, label()), (21, 2, label())])
    assert found.rows == ["retained_activations", "step_temporaries"]


def test_made_in_a_backward_or_a_step_is_a_step_temporary():
    rows = [(110, 1, 64, "mm", 112), (210, 2, 32, "div", 212), (250, 2, -32, "", None)]
    found = labelled(rows, MARKS, births=[(111, 1, label(phase="backward")), (211, 2, label(phase="step"))])
    assert found.rows == ["step_temporaries"] * 2


def test_a_certain_row_of_the_tracker_is_taken_and_the_later_surer_one_wins():
    births = [(11, 1, label()), (20, 1, label("step_temporaries")), (30, 1, label())]
    assert labelled([(10, 1, 64, "mm", 12)], MARKS, births=births).rows == ["step_temporaries"]


def test_unseen_and_gone_within_one_operator_is_scratch():
    assert labelled([(10, 1, 64, "conv", 20), (15, 1, -64, "", None)], MARKS).rows == ["operator_scratch"]


def test_unseen_and_outliving_its_operator_is_unattributed():
    assert labelled([(10, 1, 64, "conv", 20), (150, 1, -64, "", None)], MARKS).rows == ["unattributed"]
    assert labelled([(10, 1, 64, "conv", 20)], MARKS).rows == ["unattributed"]


def test_unseen_because_no_operator_made_it_goes_by_its_lifetime():
    rows = [(5, 2, 8, "conv", 7), (6, 2, -8, "", None), (10, 1, 64, "", None), (150, 1, -64, "", None)]
    assert labelled(rows, MARKS).rows == ["operator_scratch", "retained_activations"]
    # a record that names no operators at all says nothing by naming none here
    assert labelled(rows[2:], MARKS).rows == ["unattributed"]


def test_unseen_and_passing_in_a_step_is_a_step_temporary():
    assert labelled([(210, 1, 64, "x", None), (220, 1, -64, "", None)], MARKS).rows == ["step_temporaries"]


def test_storages_that_the_allocator_did_not_make_are_kept_apart():
    found = labelled([(10, 1, 64, "mm", 12)], MARKS, [(90, 0x99, "weights", "mapped")])
    assert (found.outside, found.rows) == ({0x99: ("weights", "mapped")}, ["unattributed"])


def test_labels_are_carried_to_an_untracked_iteration_by_order_and_size():
    tracked = [(10, 1, 64, "mm", 12), (20, 2, 32, "relu", 22)]
    later = [(t + 1000, address + 10, size, op, end + 1000) for t, address, size, op, end in tracked]
    extra = (1005, 99, 7, "copy", 1500)  # the other iteration alone makes it, and it goes within its operator
    marks = [
        *MARKS[:1],
        (100, "idle", 1, None),
        (1000, "forward", 2, 0),
        (1100, "backward", 2, 0),
        (1200, "end", None, None),
    ]
    births = [(11, 1, label()), (21, 2, label("step_temporaries", op="relu"))]
    found = labelled([*tracked, extra, (1006, 99, -7, "", None), *later], marks, births=births)
    assert found.rows == [
        "retained_activations",
        "step_temporaries",
        "operator_scratch",
        "retained_activations",
        "step_temporaries",
    ]


def test_without_a_tracked_iteration_lifetimes_decide():
    rows = [(10, 1, 64, "mm", 12), (20, 2, 8, "mm", 25), (22, 2, -8, "", None), (110, 3, 16, "mm", 112)]
    found = labelled(rows, MARKS, tracked=None)
    assert found.rows == ["retained_activations", "operator_scratch", "step_temporaries"]
    assert found.after_last_birth() == (80, {"retained_activations": 64, "step_temporaries": 16})


def test_where_the_record_names_no_operator_its_time_tells_scratch():
    # A clock of microseconds: the block made at 10.6 us, in the operator of 10.5 to 14 us, is recorded at 10 us.
    rows = [(10_000, 1, 64, "a.py:1 f", None), (12_000, 1, -64, "", None), (10_000, 2, 8, "a.py:1 f", None)]
    marks = [(0, "forward", 1, 0), (100_000, "end", None, None)]
    spans = [(2_000, 9_000), (10_500, 14_000), (20_000, 21_000)]
    found = Labelled(Record(rows, 1000), marks, [], [], 1, spans)
    assert found.rows == ["operator_scratch", "unattributed"]


def test_a_kept_block_of_a_librarys_size_is_its_workspace():
    rows = [(10, 1, 4096, "mm", None), (20, 2, 4096, "mm", None), (30, 2, -4096, "", None)]
    found = Labelled(Record(rows), MARKS, [], [], 1, workspaces=frozenset({4096}))
    assert found.rows == ["library_workspaces", "unattributed"]


PROGRAM = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 1 << 40), st.sampled_from(["", "mm"])), max_size=40
)


@given(PROGRAM, st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)))
def test_rows_add_up_to_requested_at_the_peak_of_every_phase(program, seen, registered):
    rows, living, births, known = [], set(), [], []
    for step, (address, size, op) in enumerate(program):
        t = step * 7 + 1
        freed = address in living
        living ^= {address}
        rows.append((t, address, -size if freed else size, "" if freed else op, None if freed else t + 20))
        if step in seen and not freed:
            births.append((t + 1, address, label()))
        if step in registered:
            known.append((t + 2, address, "gradients", ""))
    found = labelled(rows, MARKS, known, births)
    for interval in found.intervals:
        value, parts, _ = found.peak(interval)
        assert sum(parts.values()) == value


def _without_operator_bounds():
    """Two iterations of a CUDA-like record: a kept workspace, one scratch block inside the operator, one result."""
    rows = [(5, 0x9, 8_519_680, "", None)]
    for start in (100, 200):  # iteration 0 is untracked, iteration 1 is tracked
        rows += [
            (start + 10, 0x1, 64, "", None),
            (start + 20, 0x1, -64, "", None),
            (start + 22, 0x2, 32, "", None),
            (start + 60, 0x2, -32, "", None),
        ]
    return Record(rows)


def test_scratch_is_told_by_the_time_of_its_operator_where_the_record_has_no_operators():
    marks = [(1, "forward", 0, 0), (190, "forward", 1, 0), (290, "end", None, None)]
    births = [(223, 0x2, Label(None, "mm", "head", "forward"))]
    record = _without_operator_bounds()
    labelled = Labelled(record, marks, [], births, 1, [(205, 225)], frozenset({8_519_680}))
    assert [labelled.rows[index] for index in range(5)] == [
        "library_workspaces",
        "operator_scratch",
        "step_temporaries",
        "operator_scratch",
        "step_temporaries",
    ]
    assert labelled.peak(labelled.intervals[0]) == (
        8_519_680 + 64,
        {"library_workspaces": 8_519_680, "operator_scratch": 64},
        1,
    )


def test_a_block_of_a_workspaces_size_that_is_freed_again_is_none():
    record = Record([(10, 0x9, 8_519_680, "", None), (20, 0x9, -8_519_680, "", None)])
    marks = [(1, "forward", 0, 0), (30, "end", None, None)]
    labelled = Labelled(
        record, marks, [], [(2, 0x8, Label(None, "mm", "", "forward"))], 1, [], frozenset({8_519_680})
    )
    assert labelled.rows == ["unattributed"]


def test_what_the_workloads_file_made_and_keeps_counts_with_the_batch():
    marks = [(1, "load", None, None), (50, "build", None, None), (100, "end", None, None)]
    rows = [(5, 1, 800, "randint", 7), (10, 2, 64, "randint", 12), (30, 2, -64, "", None)]
    found = Labelled(Record(rows), marks, [], [], 1)
    assert found.rows == ["input_batch", "input_batch"]
    assert found.peak(found.intervals[1])[1] == {"input_batch": 800}
