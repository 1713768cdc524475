"""The ledger: its columns, folds, bar and verdict."""

from __future__ import annotations

import re
from dataclasses import replace

from app import sample
from app.pages import laid, text, with_probe
from tui.app.page import Cursor
from tui.app.views import budget_bar, figures, ledger_columns
from tui.app.views.ledger import ledger_of
from tui.budget import ledger as budget
from tui.budget.ledger import Ledger
from tui.budget.rows import Row as LedgerRow
from tui.project import model as s


def test_wider_adds_columns_and_never_moves_those_before():
    small = text(sample.cuda(), "ledger", 80, 40).split("\n")
    large = text(sample.cuda(), "ledger", 120, 40).split("\n")
    for one, other in zip(small[8:30], large[8:30], strict=True):
        assert other.startswith(one[:64].rstrip())


def test_taller_unfolds_rows_in_place():
    small, large = text(sample.cuda(), "ledger", 80, 24), text(sample.cuda(), "ledger", 80, 40)
    assert "6 more at 0" in small
    assert "   unsharded weights " in large
    assert "   context, kernels, NCCL" in large


def test_the_cpu_ledger_has_the_rows_of_the_heap():
    shown = text(sample.cpu(), "ledger")
    assert "▼ = heap reserved" in shown
    assert "▼ = host total" in shown
    assert "allocator-reserved" not in shown


def test_the_bar_is_the_whole_device():
    made = ledger_of(sample.cuda(), None)
    parts = budget_bar.parts_of(made)
    assert parts is not None
    assert sum(parts.values()) == 85_520_809_984
    assert len(budget_bar.budget_bar(made, 80, figures.GIB)[0].plain) == 79


def test_one_byte_of_a_part_has_a_cell_in_the_bar():
    assert budget_bar._cells([1, 10**12, 0], 10) == [1, 9, 0]


def test_rows_that_differ_from_the_reading_leave_the_verdict_unknown():
    probe = sample.cuda_probe()
    broken = replace(probe.phases["backward"], rows={"weights": 1})
    project = with_probe(sample.cuda(), replace(probe, phases={**probe.phases, "backward": broken}))
    shown = text(project, "ledger", 80, 24)
    assert "? UNKNOWN  rows sum to 1 B" in shown
    assert "14,773,325,823" in shown
    assert "are in no row" in shown


def test_another_sum_that_fails_is_said_below_and_leaves_the_verdict():
    probe = sample.cuda_probe()
    low = replace(probe.phases["backward"], reserved_bytes=7)
    project = with_probe(sample.cuda(), replace(probe, phases={**probe.phases, "backward": low}))
    rows = text(project, "ledger", 80, 24).split("\n")
    assert "● FITS  41.244 GiB to spare" in rows[2]
    said = " ".join(" ".join(rows[3:]).split())
    assert "sum allocator-reserved does not agree: tensor-allocated 14,775,937,024 B is more than" in said


def predicted_ledger(project: sample.SampleProject) -> Ledger:
    spec, measured = project.spec, project.measured
    return budget.ledger(spec, measured, sample.PROBE, predicted={"weights": 497_759_232, "gradients": 0})


def columns(made: Ledger, width: int, exact: bool = False) -> str:
    scale = figures.scale_of(exact, None)
    return ledger_columns.heading(ledger_columns.columns_of(made, width, scale), width, scale).plain


def test_without_a_prediction_the_difference_is_from_what_is_declared():
    made = ledger_of(sample.cuda(), None)
    for width in (60, 80, 120):
        assert columns(made, width).split()[1:4] == ["declared", "measured", "m"]
    assert columns(made, 80).split() == ["GiB", "declared", "measured", "m", "-", "d", "share"]
    assert columns(made, 80, exact=True).split() == ["bytes", "declared", "measured", "m", "-", "d"]
    assert re.search(r"  weights +0\.464 +0\.464 +0 ", text(sample.cuda(), "ledger"))


def test_with_a_prediction_the_difference_is_from_it():
    made = predicted_ledger(sample.cuda())
    assert columns(made, 80).split() == ["GiB", "declared", "predicted", "measured", "difference", "share"]
    assert columns(made, 80, exact=True).split()[1:4] == ["predicted", "measured", "difference"]
    at = ledger_columns.columns_of(made, 80, figures.GIB)
    assert at.difference(made.row("gradients")) == 497_759_232
    assert at.difference(made.row("retained_activations")) == 1_177_675_776 * 8


def test_m_minus_d_is_measured_less_declared():
    made = ledger_of(sample.cuda(), None)
    row = made.row("weights")
    assert row.declared is not None
    at = ledger_columns.columns_of(made, 80, figures.GIB)
    assert at.difference(row) == 497_759_232 - row.declared
    assert at.difference(made.row("unattributed")) is None


def test_rows_that_were_not_measured_are_not_at_zero():
    shown = text(sample.empty(), "ledger")
    assert " at 0" not in shown
    assert re.search(r"= requested .* \d+ not measured", shown)


def test_the_folded_total_says_what_is_free_and_the_reserve():
    known = sample.cpu()
    known = replace(known, spec=replace(known.spec, budget=s.BudgetSpec(4 * 2**30, 256 * 2**20)))
    row = next(one for one in text(known, "ledger").split("\n") if "= host total" in one)
    assert row.endswith("13,080 free, 256.000 reserve")
    probe = next(iter(known.measured.probe.values()))
    readings = {key: one for key, one in probe.readings.items() if key != "others"}
    probe = replace(probe, readings=readings)
    row = next(one for one in text(with_probe(known, probe), "ledger").split("\n") if "= host total" in one)
    assert "256" not in row


def test_the_answer_and_the_bar_name_their_unit():
    rows = text(sample.cuda(), "ledger").split("\n")
    assert "process 14.756 of 56.000 GiB" in rows[2]
    assert rows[4].startswith(" GiB")
    assert "─ beyond" in rows[4]
    assert len(rows[4]) <= 80


def test_a_batch_over_the_reserve_says_how_much_of_it_is_used():
    found = sample.cuda()
    project = replace(found, measured=replace(found.measured, probe={"p-1": sample.cuda_probe(36)}))
    assert "! RESERVE  fits only by using 0.203 GiB of the reserve of 4.000 GiB" in text(project, "ledger")


def test_a_batch_over_the_budget_says_what_is_missing():
    found = sample.cuda()
    project = replace(found, measured=replace(found.measured, probe={"p-1": sample.cuda_probe(41)}))
    assert "× NO FIT  3.604 GiB short" in text(project, "ledger")


def test_a_starred_difference_is_more_than_a_mebibyte_and_a_percent():
    from tui.app.views.ledger_cells import starred

    def row(predicted: int, measured: int) -> LedgerRow:
        return LedgerRow("cached", "cached", "row", None, "", predicted, measured, "", "")

    assert starred(row(100 * 2**20, 102 * 2**20))
    assert not starred(row(2**20, 2 * 2**20))
    assert not starred(row(1000 * 2**20, 1005 * 2**20))


def test_an_unknown_figure_gives_its_reason():
    shown = laid(sample.cuda(), "ledger", 120, 40, Cursor(row=22))
    assert "driver-reserved n/a: no NVML v2 here" in shown.lines[38].plain
