"""A verdict names the rows it lacks, and what is entered or declared alone can decide."""

from __future__ import annotations

from dataclasses import replace

from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, GIB, MIB, PROBE

from tui.budget.ledger import ledger
from tui.project.measured import Measured, Reading
from tui.project.model import EnvironmentSpec, LedgerSpec
from tui.report import sentences
from tui.report.figures import GIBIBYTES

INVENTORY = Measured(inventory=CUDA.inventory)
ON_GPU = replace(CUDA_SPEC, environment=EnvironmentSpec(device="GPU-1f0c"))
ENTERED = LedgerSpec(
    retained_activations=2 * GIB,
    step_temporaries=4 * GIB,
    operator_scratch=0,
    library_workspaces=64 * MIB,
    rounding=MIB,
    cached=GIB,
    context=600 * MIB,
    other_processes=5 * GIB,
    driver_reserved=600 * MIB,
    device_total=80 * GIB,
)


def entered(**changes):
    return ledger(replace(ON_GPU, ledger=replace(ENTERED, **changes)), INVENTORY)


def test_rows_that_were_entered_stand_in_the_declared_column_and_say_so():
    found = entered()
    for key, size in ENTERED.entered.items():
        assert (found.row(key).declared, found.row(key).entered) == (size, True), key
        assert "entered" in found.row(key).declared_as
    assert not found.row("weights").entered


def test_sums_are_declared_when_every_row_inside_is():
    found = entered()
    own = ("weights", "gradients", "optimizer_state", "input_batch")
    requested = sum(found.row(key).declared for key in own) + 6 * GIB + 64 * MIB
    assert found.row("requested").declared == requested
    assert found.row("tensor_allocated").declared == requested + MIB
    assert found.row("allocator_reserved").declared == requested + MIB + GIB
    assert found.row("process").declared == requested + MIB + GIB + 600 * MIB
    less = entered(step_temporaries=None)
    assert less.row("requested").declared is None
    assert less.row("requested").reasons["declared"]


def test_a_declared_process_is_compared_with_what_was_entered_of_the_device():
    found = entered()
    assert (found.verdict.word, found.verdict.by) == ("FITS", "declaration")
    assert found.verdict.process_bytes == found.row("process").declared
    assert found.verdict.device_left_bytes == 75 * GIB - 600 * MIB
    short = entered(device_total=10 * GIB, other_processes=0, driver_reserved=0)
    assert short.verdict.word == "FITS ONLY WITHOUT THE RESERVE"
    assert entered(retained_activations=70 * GIB).verdict.word == "DOES NOT FIT"


def test_what_is_missing_is_named_row_by_row():
    found = entered(step_temporaries=None, context=None).verdict
    assert (found.word, found.why) == ("UNKNOWN", "nothing was measured yet")
    assert found.unknown_rows == ("step temporaries", "context, kernels, NCCL")


def test_declared_rows_that_are_too_much_alone_decide_without_the_others():
    small = replace(ON_GPU, budget=replace(ON_GPU.budget, job=GIB, reserve=0))
    found = ledger(small, INVENTORY)
    assert found.verdict.word == "DOES NOT FIT"
    least = sum(found.row(key).declared for key in ("weights", "gradients", "optimizer_state", "input_batch"))
    assert f"the declared rows alone take {least:,} B, {least - GIB:,} B more" in found.verdict.why


def test_what_could_not_be_read_of_the_device_is_taken_from_what_was_entered():
    readings = {key: one for key, one in CUDA_PROBE.readings.items() if key == "process"}
    probed = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, readings=readings)})
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=None), ledger=ENTERED)
    assert ledger(spec, probed, PROBE).verdict.budget_bytes == 75 * GIB - 600 * MIB
    read = ledger(replace(CUDA_SPEC, ledger=replace(ENTERED, other_processes=70 * GIB)), CUDA, PROBE)
    assert read.verdict.device_left_bytes == 75 * GIB - 424 * MIB, "a reading comes first"


def test_a_measured_verdict_that_is_unknown_names_the_rows_that_were_not_read():
    phases = {key: replace(one, process_bytes=None) for key, one in CUDA_PROBE.phases.items()}
    readings = {**CUDA_PROBE.readings, "process": Reading(None, "NVML", "charged", "backward", "hidden")}
    probed = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, phases=phases, readings=readings)})
    found = ledger(CUDA_SPEC, probed, PROBE).verdict
    assert (found.word, found.why, found.unknown_rows) == ("UNKNOWN", "hidden", ("context, kernels, NCCL",))
    assert ledger(CUDA_SPEC, CUDA, PROBE).verdict.unknown_rows == ()


def test_a_ledger_that_does_not_add_up_is_unknown_for_want_of_that_sum():
    peak = CUDA_PROBE.phases["backward"]
    short = replace(peak, rows={**peak.rows, "weights": 0})
    probed = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, phases={"backward": short})})
    found = ledger(CUDA_SPEC, probed, PROBE).verdict
    assert (found.word, found.unknown_rows) == ("UNKNOWN", ("requested",))
    assert "497,759,232 B are in no row" in found.why


def test_a_verdict_by_declaration_says_that_nothing_was_measured():
    found = entered().verdict
    assert sentences.verdict(found, GIBIBYTES).startswith("FITS, by declaration with ")
    small = replace(ON_GPU, budget=replace(ON_GPU.budget, job=GIB, reserve=0))
    said = sentences.verdict(ledger(small, INVENTORY).verdict, GIBIBYTES)
    assert said.startswith("DOES NOT FIT, by declaration: the declared rows alone take ")
