"""Level, peak and live set of a timeline of storages: values by hand, and sums that must hold for any timeline."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.budget.timeline import (
    alive,
    anchors,
    by_module,
    by_row,
    levels,
    moved,
    peak,
    phase_at,
    phase_peak,
    series,
    shared_phases,
    top,
)
from tui.errors import RunError
from tui.probe.protocol import REQUESTED_ROWS
from tui.project.timeline import Phase, Storage, Timeline, path_of, read


def storage(
    born, died, size, row="retained_activations", module="", operator="mm", shape="", dtype="float32"
):
    return Storage(born, died, size, row, module, operator, shape, dtype)


# Weights of 100 throughout; event 0 a batch of 10; the forward makes 40 and 20; the backward makes 50 and frees all.
STEP = Timeline(
    (Phase("forward", 0, 1, 3), Phase("backward", 0, 3, 7), Phase("step", None, 7, 7)),
    8,
    (
        storage(-1, None, 100, "weights", "fc"),
        storage(0, 7, 10, "input_batch"),
        storage(1, 5, 40, module="h.0.fc"),
        storage(2, 4, 20, module="h.1"),
        storage(3, 6, 50, "step_temporaries", "h.1.fc"),
    ),
)


def test_the_level_before_the_iteration_and_after_each_event():
    assert levels(STEP) == [100, 110, 150, 170, 220, 200, 160, 110, 100]


def test_the_peak_is_the_highest_instant_of_a_phase():
    assert peak(STEP) == (3, 220)
    assert [phase_peak(STEP, one) for one in STEP.phases] == [(2, 170), (3, 220), (6, 110)]


def test_what_is_higher_between_phases_is_no_peak():
    between = Timeline((Phase("forward", 0, 2, 3),), 3, (storage(0, 1, 900), storage(2, None, 5)))
    assert peak(between) == (2, 5)


def test_an_iteration_without_phases_has_the_level_it_began_with():
    assert peak(Timeline((), 0, (storage(-1, None, 7),))) == (-1, 7)


def test_events_lie_in_their_phase_or_in_none():
    assert [one and one.name for one in (phase_at(STEP, event) for event in (-1, 0, 1, 2, 3, 6, 7))] == [
        *(None, None, "forward", "forward", "backward", "backward", None)
    ]


def test_the_live_set_at_the_peak_by_row_and_by_module():
    found = alive(STEP, 3)
    assert by_row(found) == {
        "weights": 100,
        "input_batch": 10,
        "retained_activations": 60,
        "step_temporaries": 50,
    }
    tree = by_module(found)
    assert (tree.bytes, tree.count, tree.own) == (220, 5, 10)
    assert [(one.path, one.bytes, one.count, one.own) for one in tree.children] == [
        ("h", 110, 3, 0),
        ("fc", 100, 1, 100),
    ]
    assert [(one.path, one.bytes, one.own) for one in tree.children[0].children] == [
        ("h.1", 70, 20),
        ("h.0", 40, 0),
    ]
    assert tree.children[0].children[0].rows == {"retained_activations": 20, "step_temporaries": 50}


def test_equal_storages_of_repeated_layers_are_counted_together():
    layers = [storage(one, None, 8, module=f"h.{one}.mlp", shape="2x1") for one in range(3)]
    found = top([*layers, storage(4, None, 20, module="head"), storage(5, None, 8, module="h.0.attn")], 2)
    assert [(one.module, one.count, one.bytes) for one in found] == [("h.*.mlp", 3, 24), ("head", 1, 20)]


def test_storages_of_one_module_keep_its_number():
    twice = [storage(1, None, 8, module="h.3.mlp"), storage(2, None, 8, module="h.3.mlp")]
    assert [(one.module, one.count) for one in top(twice, 5)] == [("h.3.mlp", 2)]


ROW = st.sampled_from(REQUESTED_ROWS)
MODULE = st.sampled_from(["", "a", "a.0", "a.1.b", "c"])


@st.composite
def timelines(draw):
    events = draw(st.integers(1, 60))
    storages = []
    for _ in range(draw(st.integers(0, 30))):
        born = draw(st.integers(-1, events - 1))
        died = draw(st.none() | st.integers(born + 1, events)) if born < events - 1 else None
        died = None if died == events else died
        storages.append(storage(born, died, draw(st.integers(0, 1000)), draw(ROW), draw(MODULE)))
    cuts = sorted(draw(st.lists(st.integers(0, events), min_size=2, max_size=6)))
    phases = [Phase("forward", None, left, right) for left, right in pairwise(cuts)]
    return Timeline(tuple(phases), events, tuple(storages))


@given(timelines(), st.integers(1, 40))
def test_thinning_keeps_every_maximum_and_every_row(made, points):
    found = series(made, points)
    level = levels(made)
    assert [event for event, _ in found] == sorted({event for event, _ in found})
    for event, rows in found:
        assert rows == by_row(alive(made, event))
        assert sum(rows.values()) == level[event + 1]
    shown = {event: sum(rows.values()) for event, rows in found}
    assert max(shown.values()) == max(level)
    for phase in made.phases:
        event, size = phase_peak(made, phase)
        assert shown[event] == size
    assert len(found) <= points + 2 + len(made.phases)


@given(timelines(), st.integers(-1, 60))
def test_modules_rows_and_groups_hold_each_byte_once(made, event):
    found = alive(made, event)
    total = sum(one.bytes for one in found)
    tree = by_module(found)

    def check(branch):
        assert branch.bytes == branch.own + sum(child.bytes for child in branch.children)
        assert branch.bytes == sum(branch.rows.values())
        for child in branch.children:
            check(child)

    check(tree)
    assert tree.bytes == total == sum(by_row(found).values()) == sum(one.bytes for one in top(found, 99))


FILE = {
    "version": 1,
    "events": 2,
    "phases": [["forward", 0, 1, 2]],
    "strings": ["", "weights", "fc", "8x4", "float32"],
    "storages": [[-1, None, 128, 1, 2, 0, 3, 4]],
}


def test_a_file_is_read_as_the_child_wrote_it(tmp_path):
    (tmp_path / "t.timeline.json").write_text(json.dumps(FILE))
    assert read(tmp_path / "t.timeline.json") == Timeline(
        (Phase("forward", 0, 1, 2),), 2, (Storage(-1, None, 128, "weights", "fc", "", "8x4", "float32"),)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "not one that this version wrote"),
        ({"storages": [[-1, None, 128, 9, 2, 0, 3, 4]]}, "not one that this version wrote"),
        ({"storages": [[-1, None, 128, 2, 2, 0, 3, 4]]}, "not one that this version wrote"),
        ({"storages": [[5, None, 128, 1, 2, 0, 3, 4]]}, "not one that this version wrote"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, change, said):
    (tmp_path / "t.timeline.json").write_text(json.dumps({**FILE, **change}))
    with pytest.raises(RunError, match=said):
        read(tmp_path / "t.timeline.json")


def test_a_file_that_is_gone_or_broken_says_so(tmp_path):
    with pytest.raises(RunError, match="not on this machine any more"):
        read(tmp_path / "gone.timeline.json")
    (tmp_path / "t.timeline.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        read(tmp_path / "t.timeline.json")


def test_it_lies_beside_the_journal(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path))
    wanted = tmp_path / "runs" / "m-1.timeline.json"
    assert path_of("runs/m-1.jsonl") == path_of("runs/m-1.timeline.json") == wanted


def bare(*phases: Phase) -> Timeline:
    return Timeline(phases, phases[-1].last, ())


def test_an_instant_of_a_phase_is_the_same_share_of_that_phase_elsewhere():
    one = bare(Phase("forward", 0, 0, 100), Phase("backward", 0, 100, 120), Phase("step", None, 120, 130))
    other = bare(Phase("forward", 0, 2, 12), Phase("backward", 0, 12, 52), Phase("step", None, 52, 57))
    between = anchors(one, other)
    assert between == [(0, 0), (0, 2), (100, 12), (120, 52), (130, 57)]
    assert [moved(place, between) for place in (50, 100, 110, 120, 125, 130)] == [7, 12, 32, 52, 54, 57]
    back = anchors(other, one)
    assert [moved(place, back) for place in (7, 12, 32, 52)] == [50, 100, 110, 120]


def test_phases_of_one_timeline_alone_are_no_anchors():
    one = bare(Phase("forward", 0, 0, 4), Phase("backward", 0, 4, 8), Phase("step", None, 8, 9))
    other = bare(Phase("forward", 0, 0, 2), Phase("step", None, 2, 3))
    assert [mine.name for mine, _ in shared_phases(one, other)] == ["forward", "step"]
    assert anchors(one, other) == [(0, 0), (4, 2), (8, 2), (9, 3)]


def test_timelines_without_a_phase_in_common_are_laid_over_one_another_whole():
    assert [
        moved(place, anchors(bare(Phase("a", 0, 0, 10)), bare(Phase("b", 0, 0, 5)))) for place in (0, 4, 10)
    ] == [0, 2, 5]
