"""The Probe screen and the memory of settings: which measurement, and what its figures are."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from app import sample
from app.pages import text, with_probe
from tui.app.page import STEPS, Cursor
from tui.app.views import batch_chart
from tui.app.views.probe_batches import measured_batches
from tui.project import measured as m


def test_the_latest_probe_that_was_not_cancelled_is_shown():
    good, cancelled = sample.cuda_probe(), replace(sample.cuda_probe(), outcome="cancelled", phases={})
    project = with_probe(sample.cuda(), good, cancelled)
    shown = text(project, "probe").split("\n")
    assert "4 ● Probe" in shown[0]
    assert "● DONE" in shown[2]
    assert shown[22].startswith(" latest run cancelled; this is p-1 ")
    assert "cancelled" not in text(with_probe(sample.cuda(), cancelled, good), "probe")
    assert "× CANCELLED" in text(with_probe(sample.cuda(), cancelled), "probe")
    assert [key for key, _ in measured_batches(project.spec, project.measured)] == ["p-1"]


def test_a_failed_probe_says_its_whole_sentence():
    why = "half.py:23: batch(n=8, ...) gave 4 samples; return n of them, or every figure is of another batch"
    probe = replace(sample.cuda_probe(), outcome="failed", failure=why)
    assert why in " ".join(text(with_probe(sample.cuda(), probe), "probe").split())


def test_the_peak_beside_the_trace_is_that_of_the_phases():
    shown = text(sample.cpu(), "probe")
    assert re.search(r" peak +700\.031\b", shown)
    assert " limit " not in shown
    assert re.search(r" budget +60\.000", text(sample.cuda(), "probe"))
    bare = replace(next(iter(sample.cpu().measured.probe.values())), phases={})
    assert re.search(r" peak +n/a", text(with_probe(sample.cpu(), bare), "probe"))


def test_on_the_cpu_tensor_allocated_is_what_was_requested():
    shown = text(sample.cpu(), "probe", cursor=Cursor(pane=1))
    assert re.search(r"first.backward +700.031 +700.031 +800.000", shown)


@pytest.mark.parametrize(("device", "said"), [("cpu", "20.300"), ("GPU-1f0c", "n/a")])
def test_a_setting_on_the_cpu_allocates_what_it_requested(device, said):
    found = sample.cuda()
    precision = found.measured.precision["c-20261201T143000-11"]
    bare = {key: replace(one, allocated_bytes=None) for key, one in precision.settings.items()}
    environment = {"e-7c1f": replace(found.measured.environment["e-7c1f"], device_id=device)}
    measured = replace(
        found.measured, environment=environment, precision={"c-1": replace(precision, settings=bare)}
    )
    shown = text(replace(found, measured=measured), "precision", 120, 40)
    assert re.search(rf"tensor-allocated +{said} ", shown)


def batches(*rates: tuple[float, float]) -> sample.SampleProject:
    probes = [
        replace(
            sample.cuda_probe(4 * n),
            samples_per_s=(low + high) / 2,
            samples_per_s_low=low,
            samples_per_s_high=high,
        )
        for n, (low, high) in enumerate(rates, 1)
    ]
    return with_probe(sample.cuda(), *probes)


def test_the_chart_of_batches_names_whole_batches_and_its_label_is_whole():
    rows = text(batches((9.0, 10.0), (19.0, 20.0)), "probe", cursor=Cursor(pane=3)).split("\n")
    axis = next(index for index, row in enumerate(rows) if "└──" in row)
    below = rows[axis + 1][46:]
    assert below.split() == ["4", "8"]
    mark = next(row for row in rows if row[46:].count("●") == 1)
    assert mark.index("●", 46) - 46 in (below.index("4"), below.index("8"))
    assert rows[axis + 2][46:].split() == ["●", "process", "*", "requested", "·", "line"]


def test_labels_of_the_axis_do_not_touch_and_the_largest_is_there():
    assert batch_chart.axis({1: 1, 2: 2, 30: 19}, 20).split() == ["1", "30"]


def test_the_fastest_is_named_only_when_no_interval_overlaps():
    assert "fastest" in text(batches((19.0, 20.0), (9.0, 10.0)), "probe", cursor=Cursor(pane=3))
    assert "both" in text(batches((9.0, 10.0), (19.0, 20.0)), "probe", cursor=Cursor(pane=3))
    close = text(batches((19.0, 20.0), (18.0, 19.5)), "probe", cursor=Cursor(pane=3))
    assert "fastest" not in close
    assert "largest" in close


def test_a_figure_beside_a_trace_is_whole_even_when_every_byte_is_asked_for():
    rows = text(sample.cuda(), "probe", exact=True).split("\n")
    assert any("tensor-allocated, GiB" in row for row in rows)
    assert any(re.search(r" budget +60\.000$", row) for row in rows)
    assert not any(row.endswith("…") for row in rows[5:12])


def test_every_field_of_a_probe_that_may_be_missing_may_be_missing():
    bare = m.Probe(sample.AT, sample.SPEC, "e", "bf16-autocast", 8, 4, "unknown")
    assert {one.name for one in fields(m.Probe)} >= {"phases", "readings"}
    found = sample.cuda()
    project = replace(found, measured=m.Measured(probe={"p-1": bare}))
    for step in STEPS:
        for pane in range(4):
            assert "n/a" in text(project, step, cursor=Cursor(pane=pane)) or step != "probe"


def test_what_puts_times_in_doubt_has_a_mark_and_a_sentence():
    probe = replace(
        sample.cuda_probe(),
        throttled=True,
        throttle="power cap in 12 of 40 looks",
        clocks="SM 1,980 to 1,755 MHz",
        drift_ratio=0.071,
        loader_ms_median=11.84,
        slow_every=10,
        slow_part="loader",
        soaked=200,
    )
    shown = text(with_probe(sample.cuda(), probe), "probe", 80, 40)
    assert " ! throttled: power cap in 12 of 40 looks" in shown
    assert "   clocks: SM 1,980 to 1,755 MHz" in shown
    assert " ! drift: the last third of the iterations took 7.1 % longer than the first" in shown
    assert " ! every 10th iteration was slow, in its loader" in shown
    assert re.search(r"   loader: 11.8\d? ms outside the step, 10(.0)? % of a step", shown)
    assert "   soaked: 200 iterations, validation included" in shown
    assert "conditions" not in text(sample.cuda(), "probe", 80, 40)


def test_what_was_alive_when_memory_ran_out_is_told_by_module_and_tensor():
    gone = replace(
        sample.out_of_memory(),
        alive_modules={"transformer.h": 40 * sample.GIB},
        alive_top={"12 x 8x1024x3072 bfloat16, gelu in transformer.h.*.mlp": 9 * sample.GIB},
    )
    shown = text(with_probe(sample.cuda(), gone), "probe", cursor=Cursor(pane=2))
    assert re.search(r"transformer\.h +40\.000", shown)
    assert "12 x 8x1024x3072 bfloat16, gelu in transformer.h.*.mlp" in shown


def test_a_batch_that_the_data_were_too_few_for_says_so():
    probe = replace(sample.cuda_probe(), outcome="not-tested", failure="the model got 5 of 8 samples")
    shown = text(with_probe(sample.cuda(), probe), "probe")
    assert "× NOT TESTED  the model got 5 of 8 samples" in shown
