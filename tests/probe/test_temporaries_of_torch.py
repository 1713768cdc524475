"""Causes of temporaries against steps that torch really takes: autocast, checkpointing, clipping, lists, one by one."""

from __future__ import annotations

from probe.helpers import run_here
from tui.budget import temporaries
from tui.budget.temporaries import at_peak
from tui.budget.timeline import phase_at
from tui.project.timeline import read

SMALL = {"layers": 2, "heads": 2, "width": 64, "vocab": 512, "context": 64}
LOGITS = 4 * 64 * 512
"""Elements of the logits of 4 samples of 64 tokens."""
PARAMETERS = 512 * 64 + 2 * 12 * 64 * 64
"""Elements of the embedding and of the matrices of two blocks: fewer than the model has."""


def traced(tmp_path, **more):
    args = {"source": "decoder", "args": SMALL, "micro": 4, "length": 64, **more}
    run_here("traced", journal=tmp_path / "real.jsonl", **args)
    return read(tmp_path / "real.timeline.json")


def sizes(timeline):
    """Bytes by (phase of birth, cause) of every step temporary."""
    found = {}
    for one, cause in temporaries.named(timeline):
        phase = phase_at(timeline, one.born) if one.born >= 0 else None
        if one.row == "step_temporaries" and phase is not None:
            key = phase.name, cause
            found[key] = found.get(key, 0) + one.bytes
    return found


def test_a_step_of_autocast_checkpointing_and_clipping_has_its_temporaries_named(tmp_path):
    foreach = {"implementation": "foreach"}
    step = traced(tmp_path, precision="bf16-autocast", checkpoint=["Block"], clip=1.0, optimizer=foreach)
    found = sizes(step)
    # The logits in fp32, their softmax and its gradient are of one size each.
    (logits,) = (one for one in at_peak(step, "backward") if one.cause == temporaries.LOGITS)
    assert logits.bytes >= 2 * 4 * LOGITS
    # A block is computed again, and its weights are copied again, in the backward.
    assert found["backward", temporaries.RECOMPUTED] > 0
    assert found["forward", temporaries.WEIGHT_COPIES] > 0
    assert ("forward", temporaries.RECOMPUTED) not in found
    # One square root of every parameter in the lists of AdamW, one norm of each in clipping.
    assert found["step", temporaries.FOREACH] >= 4 * PARAMETERS
    assert 0 < found["step", temporaries.CLIPPING] < 4 * PARAMETERS
    assert temporaries.OTHER not in {cause for _, cause in found}


def test_without_any_of_that_none_of_it_is_named(tmp_path):
    found = sizes(traced(tmp_path, optimizer={"implementation": "loop"}))
    named = {cause for _, cause in found}
    assert not named & {
        temporaries.RECOMPUTED,
        temporaries.WEIGHT_COPIES,
        temporaries.CLIPPING,
        temporaries.FOREACH,
    }
    assert found["step", temporaries.OPTIMIZER] > 0
