"""What differs between predicted and measured stands in the report and in JSON, with its cause and the sums."""

from __future__ import annotations

from dataclasses import replace

from predictions import GIB, MIB
from test_budget_prediction import PROBE, SPEC, SPEC_HASH, measured, prediction, probe

from tui.budget.ledger import ledger
from tui.report.documents_measured import ledger_document
from tui.report.envelope import Source
from tui.report.json_values import unexplained
from tui.report.ledger_csv import rows
from tui.report.markdown_memory import by_phase
from tui.report.text_ledger import ledger_lines


def source(told=None, **changes):
    return Source(SPEC, measured(told, probe(**changes)), "gpt.toml", SPEC_HASH)


def more_weights():
    told = prediction(SPEC_HASH)
    peak = replace(
        told.phases["backward"],
        requested_bytes=5 * GIB,
        rows={"retained_activations": 4 * GIB, "gradients": GIB},
    )
    return replace(told, phases={"backward": peak})


def test_the_report_names_every_row_that_is_off_with_its_cause():
    page = "\n".join(by_phase(source(reserved=6 * GIB + 120 * MIB), None))
    assert "differ by 0.098 GiB in 1 of 16 rows, the signs left out; none of it is unexplained" in page
    assert "- cached +0.098: history of the cache: +100.0 MiB of allocator-reserved in whole segments" in page
    assert "- process +0.083: history of the cache" in page


def test_the_report_says_when_all_is_equal_to_the_byte():
    page = "\n".join(by_phase(source(), None))
    assert "equal to the byte in all 16 rows with both; 0.0 % of requested is unattributed." in page


def test_json_has_cause_evidence_and_the_sums_of_differences():
    found = ledger_document(source(more_weights()), PROBE)
    assert unexplained(found) == []
    weights = next(row for row in found["rows"] if row["row"] == "weights")
    assert (weights["cause"], weights["evidence"], weights["difference_bytes"]) == ("UNEXPLAINED", "", GIB)
    told = found["reconciliation"]
    assert (told["absolute_bytes"], told["unexplained_bytes"]) == (2 * GIB, 2 * GIB)
    assert told["differing_count"] == 2
    assert told["unattributed_ratio"] == 0.0


def test_the_text_says_how_much_is_unexplained():
    said = " ".join(" ".join(ledger_lines(SPEC, source(more_weights()).measured, project="gpt.toml")).split())
    assert "adds up to 2.000 GiB in 2 of 16 rows, 2.000 GiB of it unexplained" in said
    assert "* weights, requested, rounding and tails: UNEXPLAINED" in said


def test_the_csv_has_the_cause_beside_the_difference():
    found = {one["row"]: one for one in rows(ledger(SPEC, source(reserved=6 * GIB + 120 * MIB).measured))}
    assert found["cached"]["difference_bytes"] == 100 * MIB
    assert found["cached"]["cause"] == "history of the cache"
    assert found["context"]["predicted_low_bytes"] == 520 * MIB
