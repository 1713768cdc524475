"""The chart of loss curves."""

from __future__ import annotations

import math
import sys

from tui.app.glyphs import ascii_text
from tui.app.views.curves import loss_chart

FALLING = [4.0 - 0.05 * place for place in range(48)]


def test_every_curve_has_a_mark_of_its_own_and_the_steps_stand_below():
    lines = loss_chart({"fp32": FALLING, "bf16-autocast": [one + 0.5 for one in FALLING]}, 200, 100, 12)
    assert lines[0] == " ● fp32   × bf16-autocast"
    assert len(lines) == 13
    assert max(map(len, lines)) <= 100
    assert any("●" in line for line in lines[1:])
    assert any("×" in line for line in lines[1:])
    assert lines[-1].split()[0] == "1.0"
    assert lines[-1].split()[-1] == "200.0"


def test_losses_that_are_not_finite_are_left_out():
    lines = loss_chart({"fp32": FALLING, "fp16": [math.nan] * 48}, 200, 100, 12)
    assert lines[0] == " ● fp32"
    assert loss_chart({"fp16": [math.inf]}, 200, 100, 12) == []


def test_a_place_too_small_for_a_chart_has_none():
    assert loss_chart({"fp32": FALLING}, 200, 20, 12) == []
    assert loss_chart({"fp32": FALLING}, 200, 100, 3) == []


def test_the_chart_has_an_ascii_form():
    for line in loss_chart({"fp32": FALLING}, 200, 100, 12):
        assert ascii_text(line).isascii()
        assert "?" not in ascii_text(line)


def test_two_charts_do_not_disturb_each_other():
    first = loss_chart({"fp32": FALLING}, 200, 100, 12)
    loss_chart({"bf16": [1.0, 2.0, 3.0]}, 9, 60, 8)
    assert loss_chart({"fp32": FALLING}, 200, 100, 12) == first


def test_plotext_is_not_loaded_by_the_screens():
    import subprocess

    code = "import tui.app.app, tui.app.views.precision, sys; print('plotext' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]
