"""A quality target that is edited after a comparison: readers see it judged by the one that stands there now."""

import dataclasses

import pytest
from project_samples import START, USER

from tui.budget import compare
from tui.project import quality, save
from tui.project.encode import measured_text
from tui.project.load import load, parse
from tui.project.marker import MARKER
from tui.project.measured import Measured, Precision, Setting
from tui.project.model import QualitySpec

REFERENCE = Setting("fp32 linear", "done", validation_loss=2.0, quality_met=False, verdict="reference")
OTHER = Setting(
    "bf16 linear", "done", validation_loss=2.02, quality_met=False, verdict="usable", gain=("speed",)
)
BROKEN = Setting("", "failed", verdict="unusable", why="it crashed")


def comparison(**settings):
    return Measured(
        precision={
            "c-1": Precision(
                START,
                "sha256:4be1aaaa",
                "e-1",
                reference="fp32",
                steps=10,
                seeds=3,
                micro_batch=8,
                outcome="done",
                settings={"fp32": REFERENCE, "bf16": OTHER, "fp16": BROKEN, **settings},
            )
        }
    )


def seen(target, direction="min", **settings):
    found = quality.judged(comparison(**settings), QualitySpec(target=target, direction=direction))
    return found.precision["c-1"].settings


def test_every_setting_meets_a_target_that_was_lowered_to_what_it_reaches():
    found = seen(2.05)
    assert (found["fp32"].quality_met, found["bf16"].quality_met) == (True, True)
    assert (found["bf16"].verdict, found["bf16"].gain) == ("usable", ("speed",))
    assert found["fp16"] == BROKEN


def test_a_target_between_two_settings_makes_the_one_that_misses_it_unusable():
    found = seen(2.01)
    assert (found["fp32"].quality_met, found["bf16"].quality_met) == (True, False)
    assert (found["bf16"].verdict, found["bf16"].gain, found["bf16"].why) == ("unusable", (), quality.MISSES)


def test_a_target_that_both_miss_decides_nothing_between_them():
    assert seen(1.0)["bf16"] == OTHER


def test_more_is_better_where_the_metric_says_so():
    found = seen(2.01, "max")
    assert (found["fp32"].quality_met, found["bf16"].quality_met) == (False, True)
    assert found["bf16"].verdict == "usable"


def test_a_target_that_is_gone_leaves_nothing_to_meet_with_the_reason():
    found = seen(None)
    assert found["bf16"].quality_met is None
    assert found["bf16"].unknown == {"quality_met": "no quality target is entered"}
    again = quality.judged(
        Measured(precision={"c-1": dataclasses.replace(comparison().precision["c-1"], settings=found)}),
        QualitySpec(target=3.0),
    )
    assert again.precision["c-1"].settings["bf16"].unknown == {}


def test_a_setting_that_only_the_old_target_spoke_against_is_undecided():
    old = dataclasses.replace(OTHER, verdict="unusable", gain=(), why=quality.MISSES)
    found = seen(3.0, bf16=old)["bf16"]
    assert (found.verdict, found.why) == ("not decided", quality.AGAIN)
    both = dataclasses.replace(old, why=f"first gradients are off; {quality.MISSES}")
    found = seen(3.0, bf16=both)["bf16"]
    assert (found.verdict, found.why) == ("unusable", "first gradients are off")


def test_a_loss_that_is_not_finite_meets_no_target():
    assert quality.is_met(QualitySpec(target=1.0), float("nan")) is None
    assert quality.is_met(QualitySpec(target=1.0), None) is None
    assert quality.is_met(QualitySpec(target=1.0), 1.0) is True


def test_the_reason_is_the_one_that_a_comparison_gives():
    met = compare.Figures(validation_loss=2.0, quality_met=True)
    missed = dataclasses.replace(met, quality_met=False)
    assert compare.judge(missed, met, 0.1).why == quality.MISSES


@pytest.mark.parametrize("target", [2.05, 2.01])
def test_an_edited_target_is_judged_on_reading_and_the_file_keeps_what_was_measured(
    tmp_path, monkeypatch, target
):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    path = tmp_path / "gpt.toml"
    path.write_text(f"{USER}\n[quality]\ntarget = 1.0\n\n{MARKER}\n\n{measured_text(comparison())}")
    assert not load(path).measured.precision["c-1"].settings["fp32"].quality_met
    save.edit(path, {"quality.target": target})
    assert load(path).measured.precision["c-1"].settings["fp32"].quality_met
    save.record(path, lambda found: found)
    assert parse(path, path.read_bytes()).measured == comparison()
