"""The module tree: folds, order, search, and how it looks, over a real layout and a very large one."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from app import sample
from app.fakes import FakeSource, opened, settle
from app.pages import laid
from tui.app import tree as t
from tui.app.glyphs import ascii_line
from tui.app.page import Cursor
from tui.project.modules import ModuleRow, Modules, ParameterRow

BLOCK = 7_087_872


def _row(path: str, cls: str, elements: int, own: int = 0, calls: int | None = 1) -> ModuleRow:
    return ModuleRow(path, cls, elements, own, elements, 4 * elements, 2, 0, calls)


def gpt2() -> Modules:
    """The layout of GPT-2: a block is 7,087,872 elements (attention 2,362,368, MLP 4,722,432, two norms)."""
    rows = [
        _row("", "GPT2LMHeadModel", 124_439_808),
        _row("transformer", "GPT2Model", 124_439_808),
        _row("transformer.wte", "Embedding", 38_597_376, 38_597_376),
        _row("transformer.wpe", "Embedding", 786_432, 786_432),
        _row("transformer.drop", "Dropout", 0),
        _row("transformer.h", "ModuleList", 12 * BLOCK, calls=0),
    ]
    for n in range(12):
        block = f"transformer.h.{n}"
        rows += [
            _row(block, "GPT2Block", BLOCK),
            _row(f"{block}.ln_1", "LayerNorm", 1536, 1536),
            _row(f"{block}.attn", "GPT2Attention", 2_362_368),
            _row(f"{block}.ln_2", "LayerNorm", 1536, 1536),
            _row(f"{block}.mlp", "GPT2MLP", 4_722_432),
        ]
    rows += [_row("transformer.ln_f", "LayerNorm", 1536, 1536), _row("lm_head", "Linear", 0)]
    wte = ParameterRow(
        "transformer.wte.weight", (50257, 768), "float32", 38_597_376, 4, True, True, ("lm_head.weight",)
    )
    return Modules(tuple(rows), (wte,))


def labels(tree: t.Tree) -> list[str]:
    return [tree.label(one) for one in tree.shown]


def at(tree: t.Tree, label: str) -> int:
    return labels(tree).index(label)


def test_equal_blocks_are_one_line_and_the_upper_levels_are_open():
    assert labels(t.grown(gpt2())) == [
        "model",
        "transformer",
        "wte",
        "wpe",
        "drop",
        "h",
        "h.0 to h.11",
        "ln_f",
        "lm_head",
    ]


def test_a_line_of_several_unfolds_into_each_and_folds_again():
    tree = t.grown(gpt2())
    row = at(tree, "h.0 to h.11")
    more = t.turned(tree, row)
    assert labels(more)[row + 1 : row + 13] == [str(n) for n in range(12)]
    assert labels(t.turned(more, row)) == labels(tree)
    inner = t.turned(more, row + 1)
    assert labels(inner)[row + 2 : row + 6] == ["ln_1", "attn", "ln_2", "mlp"]


def test_left_goes_out_and_right_goes_in():
    tree = t.grown(gpt2())
    tree, row = t.outward(tree, at(tree, "wpe"))
    assert labels(tree)[row] == "transformer"
    tree, row = t.outward(tree, row)
    assert labels(tree) == ["model", "transformer", "lm_head"]
    tree, row = t.inward(tree, row)
    tree, row = t.inward(tree, row)
    assert labels(tree)[row] == "wte"
    assert t.inward(tree, row) == (tree, row)


def test_each_order_sorts_the_rows_of_a_level_and_keeps_the_cursor_on_its_line():
    tree = t.grown(gpt2())
    row = at(tree, "ln_f")
    seen = {}
    for _ in t.ORDERS:
        seen[tree.order] = labels(tree)
        assert labels(tree)[row] == "ln_f"
        tree, row = t.resorted(tree, row)
    assert tree.order == "order"
    assert seen["elements"] == [
        "model",
        "transformer",
        "h",
        "h.0 to h.11",
        "wte",
        "wpe",
        "ln_f",
        "drop",
        "lm_head",
    ]
    assert seen["name"][:3] == ["model", "lm_head", "transformer"]


def test_search_unfolds_to_what_it_finds_forwards_and_backwards():
    tree = t.grown(gpt2())
    tree, row = t.found(tree, "H.3.MLP", 0)
    assert tree.row(tree.shown[row]).path == "transformer.h.3.mlp"
    tree, row = t.found(tree, "gpt2mlp", row)
    assert tree.row(tree.shown[row]).path == "transformer.h.4.mlp"
    tree, row = t.found(tree, "gpt2mlp", row, -1)
    assert tree.row(tree.shown[row]).path == "transformer.h.3.mlp"
    assert t.found(tree, "lstm", 0) is None


def test_a_tree_without_its_root_or_with_missing_parents_is_shown_all_the_same():
    rows = (_row("a.b", "A", 1), _row("a.b.c.d", "B", 1), _row("e", "C", 2))
    tree = t.grown(Modules(rows, ()))
    assert labels(tree) == ["a.b", "c.d", "e"]
    assert t.grown(Modules((), ())).shown == ()


def test_the_page_says_share_bytes_and_how_much_is_trained():
    made = laid(sample.cuda(), "spec", cursor=Cursor(pane=1, row=6), tree=t.grown(gpt2()))
    rows = [line.plain.rstrip() for line in made.lines]
    assert rows[2] == "  ● MODULES  124,439,808 elements in 68 modules, in the order of the model"
    assert rows[3].split() == ["module", "class", "elements", "share", "MiB", "trained"]
    assert rows[10].split()[:6] == ["►", "h.0", "to", "h.11", "12", "x"]
    assert "85,054,464 ████▊" in rows[10]
    assert rows[22] == " transformer.h.0 to transformer.h.11: 12 x 7,087,872 elements of GPT2Block"
    made = laid(sample.cuda(), "spec", cursor=Cursor(pane=1, row=2), tree=t.grown(gpt2()))
    assert made.lines[22].plain.startswith(
        " transformer.wte: weight 50257 x 768 float32, also lm_head.weight; called once"
    )
    frozen = [replace(row, trainable=row.elements // 2) for row in gpt2().modules]
    made = laid(sample.cuda(), "spec", cursor=Cursor(pane=1), tree=t.grown(Modules(tuple(frozen), ())))
    assert "50.0 %" in made.lines[4].plain


@pytest.mark.parametrize("size", [(60, 16), (64, 18), (80, 24), (120, 40), (200, 60)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
def test_the_tree_fills_any_terminal_and_keeps_its_columns_in_ascii(size, exact):
    tree = t.grown(gpt2())
    for row in range(-1, len(tree.shown)):
        made = laid(sample.cuda(), "spec", *size, Cursor(pane=1, row=row), tree=tree, exact=exact)
        assert len(made.lines) == size[1]
        assert max(line.cell_len for line in made.lines) <= size[0]
        assert all(len(ascii_line(line).plain) == line.cell_len for line in made.lines)
        assert row < 0 or made.cursor_y is not None


def test_fifty_thousand_modules_cost_only_the_lines_that_are_seen():
    rows = [_row("", "Model", 50_000), *(_row(f"m{n}.x", f"C{n}", 1) for n in range(50_000))]
    tree = t.grown(Modules(tuple(rows), ()))
    begin = time.perf_counter()
    tree = t.turned(tree, 0) if len(tree.shown) == 1 else tree
    assert len(tree.shown) == 50_001
    opened_s = time.perf_counter() - begin
    begin = time.perf_counter()
    for row in range(0, 50_000, 1000):
        made = laid(sample.cuda(), "spec", cursor=Cursor(pane=1, row=row), tree=tree)
        assert made.picks == 50_001
        assert made.cursor_y is not None
    moved_s = (time.perf_counter() - begin) / 50
    assert moved_s < 0.05
    assert opened_s < 2


def counted(tree: Modules | None, journal: str = "runs/m-1.jsonl") -> FakeSource:
    found = sample.cuda()
    inventory = replace(sample.inventory(), journal=journal)
    return FakeSource(replace(found, measured=replace(found.measured, inventory=inventory)), tree=tree)


async def test_t_opens_the_tree_and_goes_back_and_each_keeps_its_cursor():
    app = opened(counted(gpt2()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "down", "t")
        await app.workers.wait_for_complete()
        shown = await settle(app, pilot)
        assert "MODULES" in shown
        assert shown.split("\n")[22].startswith(" model: ")
        await pilot.press(*["down"] * 6, "right")
        assert "transformer.h.0 to transformer.h.11" in await settle(app, pilot)
        await pilot.press("o", "slash", *"h.3.attn", "enter")
        shown = await settle(app, pilot)
        assert "most elements first" in shown
        assert " transformer.h.3.attn: " in shown.split("\n")[22]
        await pilot.press("escape")
        assert app.screen.cursor.field == "workload.formula"
        assert "AGREES" in await settle(app, pilot)
        await pilot.press("t")
        assert " transformer.h.3.attn: " in await settle(app, pilot)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (counted(None), "the module tree of the last count is not on this machine any more; r counts"),
        (counted(gpt2(), ""), "the last count kept no module tree: r counts again"),
        (FakeSource(sample.empty()), "nothing was counted yet: r counts"),
    ],
    ids=["gone", "none kept", "not counted"],
)
async def test_without_a_tree_a_sentence_says_why(source, sentence):
    app = opened(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t", "enter", "o", "right", "n", "slash")
        await app.workers.wait_for_complete()
        shown = " ".join((await settle(app, pilot)).split())
        assert "○ EMPTY" in shown
        assert sentence in shown
