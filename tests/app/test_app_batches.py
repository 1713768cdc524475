"""The batches pane: candidates and how they ended, the line, what a search found or is doing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app import sample
from app.fakes import probe_events
from app.pages import text, with_probe
from tui.app.live import Live
from tui.app.page import Cursor
from tui.app.probe_state import ProbeState
from tui.app.search_plan import told
from tui.app.views.batch_chart import fitted
from tui.app.views.probe_batches import measured_batches
from tui.budget.ledger import probe_verdict
from tui.probe import protocol as p
from tui.project import measured as m
from tui.project.model import LengthSpec

BATCHES = Cursor(pane=3)


def searched(**changes: object) -> sample.SampleProject:
    found = sample.cuda()
    search = m.Search(
        sample.AT,
        sample.SPEC,
        "e-7c1f",
        "bf16-autocast",
        length=1024,
        accumulate=4,
        candidates={"32": "p-20261201T141104-b4", "35": "p-20261201T141105-b5", "36": "p-20261201T141106-b6"},
        largest=35,
        largest_probe="p-20261201T141105-b5",
        failed_at=36,
        failed_probe="p-20261201T141106-b6",
        fastest=32,
        fastest_probe="p-20261201T141104-b4",
        outcome="done",
        seconds=252.0,
    )
    return replace(found, measured=replace(found.measured, search={"s-1": replace(search, **changes)}))


def shown(project, width=80, height=24, state=None, **scene) -> list[str]:
    return text(project, "probe", width, height, BATCHES, probe=state, **scene).split("\n")


def row_of(rows: list[str], batch: int) -> str:
    return next(row for row in rows if re.match(rf" [●×!?] +{batch} ", row))


def test_what_a_search_found_is_in_row_three_and_at_its_candidates():
    rows = shown(searched())
    assert "● DONE  largest that fits is 35, fastest is 32; 36 failed" in rows[2]
    assert rows[2].endswith("3 probes, 4:12")
    assert " largest" in row_of(rows, 35)
    assert " fastest" in row_of(rows, 32)
    assert " over" in row_of(rows, 36)


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        (
            {"outcome": "interrupted", "why": "it was stopped"},
            "! INTERRUPTED  s goes on with it: it was stopped",
        ),
        ({"outcome": "failed", "why": "micro-batch 9 failed"}, "× FAILED  micro-batch 9 failed"),
        ({"largest": None, "largest_probe": None}, "× NO FIT  nothing that was tried fits"),
        ({"failed_at": None}, "nothing larger failed"),
    ],
)
def test_a_search_that_found_nothing_says_why(changes, badge):
    assert badge in shown(searched(**changes))[2]


def test_an_out_of_memory_has_its_class_and_its_figures_in_the_detail_row():
    why = "it asked for 9.226 GiB, and the device left 7.41"
    gone = replace(sample.out_of_memory(), exhausted_class="capacity", exhausted_why=why)
    project = with_probe(sample.cuda(), sample.cuda_probe(), gone)
    rows = shown(project)
    assert " capacity" in row_of(rows, 48)
    made = text(project, "probe", cursor=Cursor(pane=3, row=1)).split("\n")
    assert made[22] == f" p-2  capacity: {why}"


def test_the_pane_of_an_out_of_memory_says_class_free_blocks_and_what_would_fit():
    gone = replace(
        sample.out_of_memory(),
        exhausted_class="fragmentation",
        exhausted_why="free blocks of 12 GiB together, the largest 1.5 GiB",
        largest_free_block_bytes=3 * 2**29,
        free_blocks_bytes=12 * 2**30,
        would_fit="micro-batch 35 by the line",
    )
    shown_rows = text(with_probe(sample.cuda(), gone), "probe", cursor=Cursor(chosen="p-1")).split("\n")
    joined = " ".join(" ".join(shown_rows).split())
    assert "fragmentation, not capacity" in joined
    assert "largest free block 1.500" in joined
    assert "all free blocks 12.000" in joined
    assert "micro-batch 35 by the line" in joined
    assert "device free" not in joined


def test_the_line_is_of_what_tensors_asked_for_and_is_called_a_planning_aid():
    rows = shown(sample.cuda())
    assert "planning aid: 1.917 + 1.480 x batch" in "\n".join(rows)
    assert "of requested, residual at most 0" in "\n".join(rows)
    assert "process within 56.000 up to 35" in "\n".join(rows)
    assert "lengths vary: only a measured peak counts" in "\n".join(rows)
    assert "● process * requested · line" in "\n".join(rows)


def test_fixed_lengths_say_that_only_what_was_run_is_proven():
    found = sample.cuda()
    batch = replace(found.spec.workload.batch, length=LengthSpec(1024))
    spec = replace(found.spec, workload=replace(found.spec.workload, batch=batch))
    assert "only what was run is proven" in "\n".join(shown(replace(found, spec=spec)))


def test_batches_that_were_not_traced_have_a_line_through_the_process():
    found = [(f"p-{n}", replace(sample.cuda_probe(n), phases={})) for n in (1, 2, 4)]
    spec = sample.cuda_spec()
    one = fitted(spec, found, [probe_verdict(spec, probe) for _, probe in found])
    assert one.of == "process"
    assert one.line is not None
    assert one.line.per_sample_bytes == 1_177_675_776 + 411_705_344 + 16_384


def test_other_lengths_and_accumulations_are_rows_but_no_points_of_the_line():
    probes = [sample.cuda_probe(2), sample.cuda_probe(4), replace(sample.cuda_probe(4), length=512)]
    project = with_probe(sample.cuda(), *probes)
    assert len(measured_batches(project.spec, project.measured)) == 3
    rows = shown(project)
    assert rows[4].split()[:2] == ["batch", "length"]
    assert "planning aid: 1.917 + 1.480 x batch" in "\n".join(rows)
    single = with_probe(sample.cuda(), sample.cuda_probe(4), replace(sample.cuda_probe(4), length=512))
    assert "no line: needs two that differ in batch only" in "\n".join(shown(single))


def test_v_gives_the_table_the_whole_width_with_what_was_requested():
    rows = shown(sample.cuda(), state=ProbeState(table=True))
    assert rows[4].split() == ["batch", "requested", "process", "spare", "samples/s"]
    assert row_of(rows, 8).split() == ["●", "8", "13.759", "14.756", "41.244", "270.3"]
    assert shown(sample.cuda(), 120, 40)[4].split()[:2] == ["batch", "requested"]


def live() -> Live:
    made = Live()
    for event in (p.StepStarted("probe"), p.Planned("35 first (by the line)", 240.0), *probe_events(3)[2:]):
        made.apply(event)
    made.elapsed_s = 60.0
    return made


def test_a_search_that_runs_shows_its_plan_its_candidate_and_what_is_left():
    rows = shown(sample.cuda(), live=live())
    assert "» SEARCH  35 first (by the line)" in rows[2]
    assert rows[2].endswith("1:00, 3:00 left")
    assert any(row.startswith(" »  8 x 1024, bf16-autocast: 3 of 20") for row in rows)
    run = text(sample.cuda(), "probe", live=live()).split("\n")
    assert run[5] == " 35 first (by the line)"


def test_the_plan_of_a_search_says_where_it_begins_and_how_long_it_may_take():
    found = sample.cuda()
    timed = {
        key: replace(one, seconds=40.0, tasks=("traced", "timed"))
        for key, one in found.measured.probe.items()
    }
    said = " ".join(told(replace(found, measured=replace(found.measured, probe=timed))))
    assert "35 first" in said
    assert "points at 35 within 56.000 GiB" in said
    assert re.search(r"About 4 measurements, expected \d+ ", said)
    bare = " ".join(told(sample.empty()))
    assert "8 first" in bare
    assert "Nothing measured points anywhere yet" in bare
    assert "n/a before the first measurement" in bare


def test_predictions_of_several_batches_have_a_table_where_nothing_was_measured():
    predictions = {
        f"f-2026120114{n:02}00-aa": sample.cuda_prediction(micro_batch=n, spec="sha256:1") for n in (2, 8, 16)
    }
    measured = replace(sample.cuda().measured, probe={}, operating={}, prediction=predictions)
    project = replace(sample.cuda(), measured=measured)
    rows = text(project, "probe", cursor=Cursor(pane=3)).split("\n")
    table = [row.split() for row in rows if row.startswith(" ○")]
    assert [row[1] for row in table] == ["2", "8", "16"]
    assert table[0][:5] == ["○", "2", "1,024", "13.759", "14.6-14.9"]
    assert any(row.endswith("fits, H100 80GB HBM3") for row in rows)


def test_what_was_predicted_stands_below_what_was_measured():
    shown = text(sample.predicted(sample.cuda()), "probe", 80, 44, Cursor(pane=3))
    assert "─ predicted " in shown
    assert "largest" in shown
