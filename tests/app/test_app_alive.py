"""The table of what is alive at the peak: levels, folds, views, order and search."""

from __future__ import annotations

from app import timelines
from app.test_app_timeline import shown, state
from tui.app import alive as a
from tui.budget import timeline as of
from tui.project.timeline import Storage


def storage(module: str, size: int, row: str = "retained_activations", shape: str = "4x4") -> Storage:
    return Storage(0, None, size, row, module, "mm", shape, "float32")


def labels(made: a.Alive) -> list[str]:
    return [item.node.label for item in made.shown]


def decoder() -> a.Alive:
    timeline = timelines.decoder()
    event = of.peak(timeline)[0]
    return a.table(of.alive(timeline, event), event)


def test_the_rows_of_a_level_add_up_to_the_one_above_and_all_to_the_peak():
    made = decoder()
    assert made.bytes == 14_773_325_824
    left = list(made.forests["module"])
    assert sum(node.bytes for node in left) == made.bytes
    while left:
        node = left.pop()
        assert sum(node.rows.values()) == node.bytes
        if node.inner:
            assert sum(one.bytes for one in node.inner) == node.bytes
            assert sum(one.count for one in node.inner) == node.count
            left += node.inner
    for view in ("category", "tensor"):
        assert sum(node.bytes for node in made.forests[view]) == made.bytes


def test_repeated_layers_are_one_line_and_the_largest_modules_are_open():
    assert labels(decoder())[:6] == ["transformer", "h", "*.mlp", "*.attn", "*.ln_1", "*.ln_2"]


def test_numbered_modules_that_hold_nothing_stay_apart():
    made = a.table([storage("net.0", 8), storage("net.2", 4), storage("net.2", 4)], 0)
    made = a.turned(made, 0) if len(made.shown) == 1 else made
    assert labels(made) == ["net", "0", "2"]
    assert [item.node.count for item in made.shown] == [3, 1, 2]


def test_what_belongs_to_a_numbered_layer_itself_is_that_of_the_layers():
    made = a.table([storage("h.0", 1), storage("h.1", 1), storage("h.0.fc", 5), storage("h.1.fc", 5)], 0)
    node = made.forests["module"][0]
    assert (node.label, node.bytes) == ("h", 12)
    assert {one.label: one.bytes for one in node.inner} == {"*.fc": 10, "4x4 float32": 2}


def test_a_module_that_only_holds_another_is_no_line_of_its_own():
    made = a.table([storage("model.body.fc", 5), storage("model.body.norm", 1)], 0)
    assert made.forests["module"][0].label == "model.body"


def test_folding_leaves_the_line_and_unfolding_brings_the_same_back():
    made = decoder()
    folded = a.turned(made, 0)
    assert labels(folded)[:2] == ["transformer", "loss"]
    assert labels(a.turned(folded, 0)) == labels(made)
    inner, row = a.inward(made, 0)
    assert (inner, row) == (made, 1)
    outer, row = a.outward(made, 2)
    assert (outer, labels(outer)[row]) == (made, "h")
    outer, row = a.outward(a.turned(made, 1), 1)
    assert labels(outer)[row] == "transformer"


def test_each_order_sorts_and_keeps_the_cursor_on_its_line():
    made, row = a.resorted(decoder(), 2)
    assert made.order == "count"
    assert labels(made)[row] == "*.mlp"
    made, row = a.resorted(made, row)
    assert made.order == "name"
    assert labels(made)[:2] == ["8x1024 int64", "cublas"]
    assert labels(made)[row] == "*.mlp"


def test_the_views_go_round():
    made = decoder()
    category = a.reviewed(made)
    assert labels(category)[0] == "retained activations"
    tensor = a.reviewed(category)
    assert (labels(tensor)[0], tensor.shown[0].node.what) == ("8x1024x768 bfloat16", "transformer.h.*.mlp")
    assert labels(a.reviewed(tensor)) == labels(made)


def test_search_unfolds_to_what_it_finds_and_goes_on():
    made, row = a.found(a.turned(decoder(), 0), "ln_2", 0)
    assert labels(made)[row] == "*.ln_2"
    made, after = a.found(made, "ln_2", row)
    assert after == row + 1
    assert a.found(made, "lstm", 0) is None


def test_of_very_many_tensors_the_smaller_ones_are_one_line():
    made = a.table([storage("fc", 1000 - n, shape=f"{n}") for n in range(900)], 0)
    node = made.forests["module"][0]
    assert len(node.inner) == 301
    assert node.inner[-1].what == "600 kinds"
    assert sum(one.bytes for one in node.inner) == made.bytes


def test_the_pane_says_share_bytes_and_the_rows_of_the_cursor():
    rows = shown(pane=2, row=2, made=state())
    assert "● PEAK  13.759 GiB requested, backward of micro-batch 2" in rows[2]
    assert rows[4].split() == ["module", "mostly", "tensors", "GiB", "share"]
    assert rows[7].split()[:5] == ["►", "*.mlp", "activations", "48", "4.981"]
    assert rows[22].startswith(" transformer.h.*.mlp: retained activations 4,441,767,936, ")
    assert any(row.split() == ["=", "requested", "208", "13.759"] for row in rows)
    exact = shown(pane=2, row=0, made=state(), exact=True)
    assert any("14,773,325,824" in row for row in exact)


def test_tensors_that_differ_in_their_operator_alone_say_it():
    one = Storage(0, None, 8, "step_temporaries", "head", "mm", "4x4", "float32")
    other = Storage(0, None, 8, "step_temporaries", "head", "add", "4x4", "float32")
    third = Storage(0, None, 8, "step_temporaries", "head", "add", "2x2", "float32")
    made = a.table([one, other, third], 0)
    (head,) = made.forests["module"]
    found = sorted((node.label, node.what) for node in head.inner)
    assert found == [
        ("2x2 float32", "step temporaries"),
        ("4x4 float32", "add"),
        ("4x4 float32", "mm"),
    ]
