"""The what-if form: one thing changed, the ledger now and then, and the change taken into the project."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import sample
from app.fakes import FakeSource, opened, settle
from app.pages import laid
from app.test_app_predict import unmeasured
from tui.app.glyphs import ascii_line
from tui.app.page import Cursor
from tui.app.what_if_state import WhatIfState, form_lines
from tui.budget import what_if
from tui.errors import SaveError

GIB = 2**30


def larger() -> object:
    """The sample's prediction with one GiB more of activations."""
    one = sample.cuda_prediction(micro_batch=9)
    phases = {
        name: replace(
            peak,
            requested_bytes=peak.requested_bytes + GIB,
            allocated_bytes=None if peak.allocated_bytes is None else peak.allocated_bytes + GIB,
            reserved_bytes=None if peak.reserved_bytes is None else peak.reserved_bytes + GIB,
            rows={**peak.rows, "retained_activations": peak.rows.get("retained_activations", 0) + GIB},
        )
        for name, peak in one.phases.items()
    }
    return replace(one, phases=phases)


async def compared(app, pilot, *keys: str) -> list[str]:
    await pilot.press("3", "w", *keys)
    await settle(app, pilot)
    await app.workers.wait_for_complete()
    return (await settle(app, pilot)).split("\n")


async def test_the_form_lists_what_can_be_changed_with_its_value():
    app = opened(FakeSource(unmeasured()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "w")
        rows = (await settle(app, pilot)).split("\n")
        assert "○ WHAT IF" in rows[2]
        assert any(row.split() == ["batch", "8"] for row in rows)
        assert any(row.split() == ["reserve", "4096", "MiB"] for row in rows)
        await pilot.press("enter")
        assert " what if  batch=8" in await settle(app, pilot)
        await pilot.press("escape", "escape")
        assert "declared predicted" in await settle(app, pilot)


async def test_now_then_and_difference_stand_side_by_side():
    world = FakeSource(unmeasured(), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 40)) as pilot:
        rows = await compared(app, pilot, "enter", "backspace", "9", "enter")
        assert world.imagined == [("", "", False), ("", "", True)]
        assert "● FITS, by prediction  batch=9: 40.180 GiB to spare; now 41.180" in rows[2]
        assert any(row.startswith(" batch 8 becomes 9") for row in rows)
        row = next(row for row in rows if "retained activations" in row)
        assert row.split()[2:] == ["8.774", "9.774", "+1.000", "predicted"]
        row = next(row for row in rows if row.startswith("   weights"))
        assert row.split()[1:] == ["0.464", "0.464", "0", "predicted"]
        assert rows[rows.index(" -workload.batch.micro = 8") + 1] == " +workload.batch.micro = 9"
        await pilot.press("b")
        assert f"+{GIB:,}" in await settle(app, pilot)


async def test_u_takes_the_change_into_the_project():
    world = FakeSource(unmeasured(), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(app, pilot, "enter", "backspace", "9", "enter")
        await pilot.press("u")
        rows = (await settle(app, pilot)).split("\n")
        assert world.project.spec.workload.batch.micro == 9
        assert rows[22] == " written into the project: batch=9"
        assert app.project.spec.workload.batch.micro == 9


async def test_a_change_that_cannot_be_written_is_kept_and_said():
    world = FakeSource(unmeasured(), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(app, pilot, "enter", "backspace", "9", "enter")
        world.refused = SaveError("the file changed on disk", hint="load it again")
        await pilot.press("u")
        rows = (await settle(app, pilot)).split("\n")
        assert "the file changed on disk" in rows[2]
        assert world.accepted == []


async def test_a_wrong_change_stays_in_the_line_with_its_reason():
    app = opened(FakeSource(unmeasured()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "w", "end", "enter", *"batsh", "equals_sign", "9", "enter")
        shown = await settle(app, pilot)
        assert "batsh is not a key of the spec" in shown
        assert "did you mean batch?" in shown
        assert " what if  batsh=9" in shown
        await pilot.press("escape")
        assert "batsh" not in await settle(app, pilot)


async def test_a_second_change_is_added_and_the_same_key_is_changed_again():
    world = FakeSource(unmeasured(), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(app, pilot, "enter", "backspace", "9", "enter")
        await pilot.press("w", "down", "enter", "backspace", "2", "enter")
        await settle(app, pilot)
        await app.workers.wait_for_complete()
        shown = await settle(app, pilot)
        assert " batch 8 becomes 9" in shown
        assert " accumulate 4 becomes 2" in shown


async def test_what_cannot_be_predicted_leaves_the_declared_rows_and_the_reason():
    app = opened(FakeSource(unmeasured(), future="its step has a shape that depends on data"))
    async with app.run_test(size=(80, 24)) as pilot:
        rows = await compared(app, pilot, "enter", "backspace", "9", "enter")
        assert "? UNKNOWN, by prediction" in rows[2]
        assert "its step has a shape that depends on data" in "\n".join(rows)
        assert any(row.startswith("   weights") and "declared" in row for row in rows)


async def test_a_project_whose_python_is_not_allowed_is_not_predicted():
    world = FakeSource(unmeasured(), asked=("workload.py",), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        rows = await compared(app, pilot, "enter", "backspace", "9", "enter")
        assert world.imagined == [("", "", False)]
        assert "? UNKNOWN  batch=9: declared only; Esc p asks about its Python" in rows[2]


async def test_beside_a_measurement_on_the_cpu_the_change_is_predicted_for_the_cpu():
    world = FakeSource(sample.cpu(), future=larger())
    app = opened(world)
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(app, pilot, "enter", "backspace", "3", "enter")
        assert world.imagined[0][0] == "cpu"


def test_a_value_as_it_is_now_is_no_change():
    state = WhatIfState().with_change(what_if.Change("workload.batch.micro", 8, 9))
    assert [one.becomes for one in state.changes] == [9]
    assert state.with_change(what_if.Change("workload.batch.micro", 8, 8)).changes == ()


def test_samples_without_a_length_offer_none():
    assert "length" not in {one.name for one in form_lines(sample.cpu(), ())}


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=str)
@pytest.mark.parametrize("exact", [False, True])
async def test_the_comparison_fills_any_terminal(size, exact):
    world = FakeSource(unmeasured(), future=larger())
    change = what_if.Change("workload.batch.micro", 8, 9)
    found = await world.what_if(world.project.path, [change], "", "", True)
    for state in (WhatIfState((change,), choosing=False, found=found), WhatIfState((change,))):
        width, height = size
        made = laid(world.project, "ledger", width, height, Cursor(pane=2), exact=exact, what_if=state)
        assert len(made.lines) == size[1]
        assert max(line.cell_len for line in made.lines) <= size[0]
        assert all(ascii_line(line).plain.isascii() for line in made.lines)
        shown = "\n".join(line.plain for line in made.lines)
        assert (f"+{GIB:,}" if exact else "+1.000") in shown or state.found is None or height < 24
