from dataclasses import replace

import pytest
from sample_project import (
    CPU,
    CPU_INVENTORY,
    CPU_PROBE,
    CPU_PROBE_ID,
    CPU_SPEC,
    CUDA,
    CUDA_INVENTORY,
    CUDA_PROBE,
    CUDA_SPEC,
    GIB,
    PROBE,
    SMALLER,
)

from tui.budget.held import held
from tui.project.measured import Measured
from tui.report.lines import columns
from tui.report.text import (
    ledger_lines,
    params_lines,
    precision_lines,
    probe_lines,
    restore_lines,
    to_ascii,
    verify_lines,
)
from tui.report.text_probe import every_reading

OOM = "p-20261201T160000-0f"
UNTIED = replace(
    CUDA,
    inventory=replace(
        CUDA_INVENTORY,
        unique_parameters=163_037_184,
        trainable_parameters=163_037_184,
        groups={**CUDA_INVENTORY.groups, "output head": 38_597_376},
        shared=(),
    ),
)
WITH_OOM = replace(
    CUDA,
    probe={
        **CUDA.probe,
        OOM: replace(
            CUDA_PROBE,
            micro_batch=64,
            outcome="out-of-memory",
            failure="out of memory: iteration 1, backward, in log_softmax backward",
            phases={},
            readings={},
            worst_phase=None,
            samples_per_s=None,
            step_ms_median=None,
            asked_bytes=12 * GIB,
            limit_bytes=59 * GIB,
            alive={"weights": 497_759_232, "step_temporaries": 24 * GIB},
        ),
    },
)


def on_cpu(**changes):
    return replace(CPU, probe={CPU_PROBE_ID: replace(CPU_PROBE, **changes)})


def joined(lines):
    return " ".join(line.strip() for line in lines)


def out_of_memory(micros, spec=CUDA_SPEC, **changes):
    """What is said of these micro-batches, none of which fits."""
    probes = {f"p-{micro:03}": replace(WITH_OOM.probe[OOM], micro_batch=micro, **changes) for micro in micros}
    measured = replace(CUDA, probe={**CUDA.probe, **probes})
    return lambda ids: joined(probe_lines(spec, measured, ids, project="gpt.toml"))


def shown(lines):
    assert all(columns(line) <= 80 for line in lines)
    assert all(line == line.rstrip() for line in lines)
    return "\n" + "\n".join(lines) + "\n"


def test_a_cuda_ledger_names_every_row_and_where_else_it_is_shown():
    assert (
        shown(ledger_lines(CUDA_SPEC, CUDA, PROBE, project="gpt.toml"))
        == """
124M decoder on a shared node · 8 x 4 x 1 rank = 32 samples, length 1024
bf16-autocast
measured p-20261201T141203-a3 · NVIDIA H100 80GB HBM3 (GPU-1f0c)
backward, micro-batch 2 of 4, in operator _log_softmax_backward_data
GiB                     declared  measured     m - d  formula / other name
weights                    0.464     0.464         0  124,439,808 x 4 B
gradients                  0.464     0.464         0  124,439,808 x 4 B
optimizer state            0.927     0.927         0  124,439,808 x 8 B
input batch              128 KiB   128 KiB         0  8 x 1024 x 8 B x 2
retained activations           -     2.000
step temporaries               -     4.000
library workspaces             -     0.062
unattributed                   -         0
= requested                          7.917            what was asked for
rounding and tails             -     0.001            512 B blocks
= tensor-allocated                   7.918            memory_allocated()
cached                         -     1.082            kept for reuse
= allocator-reserved                 9.000            memory_reserved()
context, kernels, NCCL         -     0.586
= process                            9.586            nvidia-smi, this pid
other processes                -     5.000
driver-reserved                -     0.414            nvidia-smi omits it
= device used                       15.000            nvidia-smi + driver
reserve                    4.000     4.000         0  longest validation batch
free                           -    61.000
= device total                      80.000            nvidia-smi, total
exactly 0: unsharded weights, packed metadata, master weights, reduction
    buckets, buffers, operator scratch
m - d: measured less declared
not in the ledger: 148 step counters (592 B) are on the CPU
sums on bytes: requested, tensor-allocated, allocator-reserved, process,
    device-used agree
peak of a phase, GiB    requested  allocated   reserved    process
build                       0.464      0.464      0.500        n/a
backward                    7.917      7.918      9.000      9.586  worst
step                        2.318      2.319      9.000      9.586
n/a in a phase: read in another phase only, or not at all
budget 60.000 = process 9.586 + reserve 4.000 + spare 46.414 GiB
the device leaves 74.586 GiB: the entered budget is tighter
FITS with 46.414 GiB beyond the reserve, in the worst phase (backward).
"""
    )


def test_a_cpu_ledger_keeps_heap_and_tensors_apart():
    assert (
        shown(ledger_lines(CPU_SPEC, CPU, project="mlp.toml"))
        == """
Perceptron on two cores · 1024 x 1 x 1 rank = 1024 samples · fp32
measured p-20261202T090000-c1 · Test CPU (cpu) · backward, in operator addmm
MiB                     declared  measured     m - d  formula / other name
weights                     0.32      0.32         0  84,488 x 4 B
gradients                   0.32      0.32         0  84,488 x 4 B
input batch                 0.28      0.28         0  1024 x (64 + 8) x 4 B
retained activations           -      2.00
operator scratch               -     3 KiB
unattributed                   -         0
= requested                           2.93            what was asked for
= tensor-allocated                    2.93            CPU does not round
Python, heap kept              -    197.07
= heap reserved                     200.00            mallinfo2, whole heap
outside the heap               -    120.00            code, less untouched
= process                           320.00            peak RSS
other processes                -       n/a
reserve                   256.00    256.00         0  entered
free                           -       n/a
= host total                      8,192.00            MemTotal
exactly 0: unsharded weights, packed metadata, master weights, reduction
    buckets, optimizer state, buffers, step temporaries, library workspaces
m - d: measured less declared; outside the heap: code, stacks and mapped files,
    less heap pages never touched
n/a other processes: the container hides other processes
n/a free: what is used, or the total, is n/a
sums on bytes: requested, heap-reserved agree
peak of a phase, MiB    requested  allocated       heap    process
backward                     2.93       2.93     200.00     320.00  worst
budget 8,192.00 = process 320.00 + reserve 256.00 + spare 7,616.00 MiB
the budget is what the device leaves: device total, other processes n/a
FITS with 7,616.00 MiB beyond the reserve, in the worst phase (backward).
"""
    )


def test_a_ledger_without_a_measurement_declares_what_it_can():
    assert (
        shown(ledger_lines(CPU_SPEC, Measured(inventory=CPU_INVENTORY), project="mlp.toml"))
        == """
Perceptron on two cores · 1024 x 1 x 1 rank = 1024 samples · fp32
not measured: declared rows alone
GiB                     declared  measured     m - d  formula / other name
weights                  330 KiB       n/a            84,488 x 4 B
unsharded weights              0       n/a            1 rank
packed metadata                0       n/a            nothing is packed
master weights                 0       n/a            weights are their own
gradients                330 KiB       n/a            84,488 x 4 B
reduction buckets              0       n/a            1 rank
optimizer state                0       n/a            no state
buffers                        0       n/a            none registered
input batch              288 KiB       n/a            1024 x (64 + 8) x 4 B
retained activations           -       n/a
step temporaries               -       n/a
operator scratch               -       n/a
library workspaces             -       n/a
unattributed                   -       n/a
= requested                            n/a            what was asked for
= tensor-allocated                     n/a            CPU does not round
Python, heap kept              -       n/a
= heap reserved                        n/a            mallinfo2, whole heap
outside the heap               -       n/a            code, less untouched
= process                              n/a            peak RSS
other processes                -       n/a
reserve                    0.250       n/a            entered
free                           -       n/a
= host total                           n/a            MemTotal
n/a 24 rows: not measured: peakmark probe
unknown for want of: retained activations; step temporaries; operator scratch;
    library workspaces; Python, heap kept; outside the heap
UNKNOWN: nothing was measured yet. Next: peakmark probe mlp.toml
"""
    )


def test_parameters_that_agree_say_so():
    assert (
        shown(params_lines(CUDA_SPEC, CUDA, project="gpt.toml"))
        == """
124M decoder on a shared node · decoder
formula decoder       124,439,808  12 x 7,087,872 + 38,597,376 + 786,432 + 1,536
  of it embedding      39,383,808  non-embedding 85,056,000
inventory (unique)    124,439,808  148 tensors, 497,759,232 B
all trainable, all of these received a gradient in a real backward
checkpoint: 149 entries, 163,037,184 elements
shared, counted once: head.weight = wte.weight
AGREE
"""
    )


def test_parameters_that_disagree_name_the_part():
    assert (
        shown(params_lines(CUDA_SPEC, UNTIED, project="gpt.toml"))
        == """
124M decoder on a shared node · decoder
formula decoder       124,439,808  12 x 7,087,872 + 38,597,376 + 786,432 + 1,536
  of it embedding      39,383,808  non-embedding 85,056,000
inventory (unique)    163,037,184  148 tensors, 497,759,232 B
difference            +38,597,376
  output head       formula 0, inventory 38,597,376
all trainable; 38,597,376 received no gradient in a real backward
checkpoint: 149 entries, 163,037,184 elements
DISAGREE. The output head is a tensor of its own: set tied = false, or tie it in
    the model.
"""
    )


def test_parameters_that_were_not_counted_are_unknown():
    assert (
        shown(params_lines(CPU_SPEC, Measured(), project="mlp.toml"))
        == """
Perceptron on two cores · mlp
formula mlp                84,488  16,640 + 65,792 + 2,056
inventory (unique)  n/a: not counted yet
UNKNOWN: nothing was counted. Next: peakmark run mlp.toml --steps params
"""
    )


def test_verify_shows_its_evidence_line_by_line():
    assert (
        shown(verify_lines(CUDA_SPEC, CUDA, project="gpt.toml"))
        == """
v-20261201T140110-02 · NVIDIA H100 80GB HBM3 (GPU-1f0c) · bf16-autocast · 48 s
ok    versions         Python 3.11.7, torch 2.13.0+cu126, driver 570.124.06
ok    finite           loss 10.986 -> 10.214 in 5 steps on one batch
note  determinism      two runs differ by 2.4e-4 in loss at step 20
n/a   gradient scaler  bf16-autocast uses none
VERIFIED v-20261201T140110-02: 2 ok, 0 failed. Next: peakmark probe gpt.toml
"""
    )


def test_verify_that_was_never_run_says_how():
    assert (
        shown(verify_lines(CPU_SPEC, CPU, project="mlp.toml"))
        == """
Perceptron on two cores
UNKNOWN: never verified. Next: peakmark verify mlp.toml
"""
    )


def test_restore_tells_what_was_equal():
    assert (
        shown(restore_lines(CUDA_SPEC, CUDA, project="gpt.toml"))
        == """
r-20261201T150020-9e: saved after iteration 20, SIGKILL in 27, resumed, to 40
ok    losses  20 of 20 equal bit for bit
ok    state   148 parameters, 444 optimizer tensors equal
peak  (requested)   7.917 GiB
time  to recover    6.0 s; 6 iterations ran twice
RESTORES. Next: peakmark report gpt.toml
"""
    )


def test_a_cuda_probe_has_memory_time_and_rate():
    assert (
        shown(probe_lines(CUDA_SPEC, CUDA, [PROBE], project="gpt.toml"))
        == """
p-20261201T141203-a3 · NVIDIA H100 80GB HBM3 (GPU-1f0c) · bf16-autocast
nice 10 · not contended
iteration = 4 micro-batches of 8 x 1024, then 1 optimizer step = 32 samples
memory    requested 7.917 · allocated 7.918 · reserved 9.000 · process 9.586
          (GiB, backward; process at its most)
time      median 118.4 ms · p90 121.9 ms · first iteration 1,812 ms (not
          averaged)
loader    n/a: not timed
clocks    n/a: not looked at
rate      270.3 samples/s (95 %: 268.1-272.2) · 276,787 tokens/s
loss      10.986 -> 9.771
from      20 untraced iterations = 2.4 s after 3 warm-up; memory from a traced
          run of its own; every reading and phase: peakmark ledger gpt.toml
          --readings
FITS with 46.414 GiB beyond the reserve, in the worst phase (backward). Saved in
    gpt.toml. Next: peakmark precision gpt.toml
"""
    )


def test_every_reading_has_its_phase_and_its_source():
    assert (
        shown(every_reading(CUDA.probe[PROBE], 80))
        == """
readings  requested             7.917 GiB  backward: allocator record
          tensor allocated      7.918 GiB  backward: memory_stats
          allocator reserved    9.000 GiB  backward: memory_stats
          process               9.586 GiB  backward: device less others
          others                5.000 GiB  start: mem_get_info before
          driver reserved       0.414 GiB  start: NVML v2
          device used          15.000 GiB  backward: mem_get_info
          device total         80.000 GiB  start: mem_get_info
"""
    )
    assert (
        shown(every_reading(on_cpu().probe[CPU_PROBE_ID], 80))
        == """
readings  requested              2.93 MiB  backward: profiler record
          heap reserved        200.00 MiB  backward: mallinfo2
          process              320.00 MiB  backward: VmHWM
          others             n/a: the container hides other processes
          host total         8,192.00 MiB  start: /proc/meminfo
"""
    )


def test_a_cpu_probe_says_why_there_is_no_interval():
    assert (
        shown(probe_lines(CPU_SPEC, on_cpu(others_cpu_ratio=0.03), project="mlp.toml"))
        == """
p-20261202T090000-c1 · Test CPU (cpu) · fp32 · nice 10
others took 3 % of the CPUs
iteration = 1 micro-batch of 1024, then 1 optimizer step = 1024 samples
memory    requested 2.93 · allocated 2.93 · heap reserved 200.00 · process
          320.00 (MiB, backward; process at its most)
time      median 8.00 ms · p90 8.50 ms · first iteration 21.0 ms (not averaged)
loader    n/a: not timed
rate      128,000 samples/s (95 % n/a: 4 timed iterations; an interval needs 5)
          · tokens/s n/a: no entry of the batch counts tokens
loss      0.500 -> 0.250
from      4 untraced iterations = <.1 s after 2 warm-up; memory from a traced
          run of its own; every reading and phase: peakmark ledger mlp.toml
          --readings
FITS with 7,616.00 MiB beyond the reserve, in the worst phase (backward). Saved
    in mlp.toml. Next: peakmark precision mlp.toml
"""
    )


def test_out_of_memory_is_told_with_what_was_alive():
    assert (
        shown(probe_lines(CUDA_SPEC, WITH_OOM, [OOM], project="gpt.toml"))
        == """
p-20261201T160000-0f · NVIDIA H100 80GB HBM3 (GPU-1f0c) · bf16-autocast
nice 10 · not contended
iteration = 4 micro-batches of 64 x 1024, then 1 optimizer step = 256 samples
asked     12.000 GiB (12,884,901,888 B)
cap       59.000 GiB, what the process was held to
alive     step temporaries 24.000 GiB · weights 0.464 GiB (24.464 GiB requested)
DOES NOT FIT: out of memory: iteration 1, backward, in log_softmax backward.
Try micro 32 x accumulate 8, the same global batch.
Next: peakmark probe gpt.toml --batch 32
"""
    )


def test_a_model_that_reaches_the_cap_by_itself_gets_the_sum_and_no_batch():
    cap = 4 * 497_759_232
    for ids, changes in ((["p-016"], {"limit_bytes": cap}), (["p-016", "p-032"], {"limit_bytes": cap - 1})):
        text = out_of_memory((16, 32), **changes)(ids)
        assert "No batch fits: declared weights 0.464 GiB + gradients 0.464 GiB + optimizer state" in text
        assert "0.927 GiB = 1.854 GiB, the cap is 1.854 GiB; take a smaller model" in text
        assert "--batch" not in text
    assert "Try micro 8 x" in out_of_memory((16,), limit_bytes=cap + 1)(["p-016"])


@pytest.mark.parametrize("limit", [None, 2 * GIB])
def test_a_budget_that_is_tighter_than_the_limit_is_the_cap(limit):
    small = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=GIB, reserve=0))
    assert "the cap is 1.000 GiB" in out_of_memory((16,), small, limit_bytes=limit)(["p-016"])


def test_a_family_that_was_not_counted_holds_what_its_formula_says():
    rows = held(CUDA_SPEC, None, CUDA_PROBE)
    assert rows == {"weights": 497_759_232, "gradients": 497_759_232, "optimizer_state": 995_518_464}
    own = replace(CUDA_SPEC, workload=replace(CUDA_SPEC.workload, source="net.py"))
    assert held(own, None, CUDA_PROBE) == {}


def test_a_batch_that_was_tried_is_never_proposed():
    say = out_of_memory((1, 2, 8, 16))
    assert "Try micro 4 x accumulate 16, the same global batch." in say(["p-016"])
    assert "Try" not in say(["p-002"])
    assert say(["p-008", "p-016"]).endswith("none of 2. Next: peakmark probe gpt.toml --batch 4")
    assert say(["p-001", "p-002"]).endswith(
        "none of 2. Every smaller micro-batch was tried, or there is none."
    )


def test_a_shared_cpu_is_said_and_above_a_tenth_warned_of():
    text = joined(probe_lines(CPU_SPEC, on_cpu(others_cpu_ratio=0.62), project="mlp.toml"))
    assert "others took 62 % of the CPUs while it was timed: the rate is that of a shared machine" in text
    quiet = joined(probe_lines(CPU_SPEC, on_cpu(others_cpu_ratio=0.1), project="mlp.toml"))
    assert "others took 10 % of the CPUs" in quiet
    assert "warning" not in quiet + joined(probe_lines(CUDA_SPEC, CUDA, [PROBE], project="gpt.toml"))
    unread = on_cpu(unknown={"others_cpu_ratio": "/proc/stat cannot be read"})
    text = joined(probe_lines(CPU_SPEC, unread, project="mlp.toml"))
    assert "others' share of the CPUs n/a: /proc/stat cannot be read" in text


def test_a_ledger_after_an_out_of_memory_says_that_it_does_not_fit():
    measured = replace(CUDA, probe={OOM: WITH_OOM.probe[OOM]})
    lines = ledger_lines(CUDA_SPEC, measured, project="gpt.toml")
    assert lines[-1] == "DOES NOT FIT: out of memory: iteration 1, backward, in log_softmax backward."
    assert "weights                    0.464       n/a            124,439,808 x 4 B" in lines


def test_several_probes_are_one_table():
    assert (
        shown(probe_lines(CUDA_SPEC, WITH_OOM, [PROBE, SMALLER, OOM], project="gpt.toml"))
        == """
124M decoder on a shared node · NVIDIA H100 80GB HBM3 (GPU-1f0c)
GiB, a fresh process each
micro  global  allocated  reserved   process     spare   ms/iter   samples/s
    4      32      5.001     6.000     6.586    49.414     130.1       246.0
    8      32      7.918     9.000     9.586    46.414     118.4       270.3
   64     256  out of memory: iteration 1, backward, in log_softmax backward
spare is after the reserve. A batch between two that fit is not proven to fit.
requested = 2.083 GiB + 746.7 MiB x micro, residual n/a of 2 sizes: lengths vary
and it is of the longest, so only the measured peak counts.
FITS, 2 of 3. Fastest 8.
"""
    )


def test_precision_stands_side_by_side():
    assert (
        shown(precision_lines(CUDA_SPEC, CUDA, project="gpt.toml"))
        == """
c-20261201T145000-07 · NVIDIA H100 80GB HBM3 (GPU-1f0c) · micro-batch 8
same weights, batches, order · 200 steps · reference fp32 with 3 seeds
                                      fp32     bf16-autocast
validation loss @200                 5.791             5.794
  from fp32                              0           +0.0030
  final training loss                5.900             5.903
first gradient, error                    -            0.0089
non-finite, skipped                   0, 0              0, 0
requested GiB                       11.000             9.000
  from fp32                              0  -2.000 (-18.2 %)
samples/s                             50.6             270.3
  95 %                           50.4-50.7       268.1-272.2
quality target                      missed            missed
verdict                          reference      gain in both
noise floor of the validation loss 0.0100
limit of the first gradient's error 0.0500
fp32: fp32 linear, fp32 weights, TF32 off
bf16-autocast: bf16 linear, fp32 weights
loader alone 2,910 samples/s, compute alone 270.3, together 270.1: stall 0.1 %
NOT DECIDED: quality target 3.300, which no setting reaches in 200 steps.
"""
    )


def test_precision_that_was_never_compared_says_how():
    assert (
        shown(precision_lines(CPU_SPEC, CPU, project="mlp.toml"))
        == """
Perceptron on two cores · fp32, bf16-autocast
UNKNOWN: nothing was compared yet. Next: peakmark precision mlp.toml
"""
    )


def test_a_prediction_gets_a_column_and_the_difference_is_measured_minus_predicted():
    lines = ledger_lines(
        CUDA_SPEC, CUDA, PROBE, project="gpt.toml", predicted={"weights": 497_759_232, "requested": 8 * GIB}
    )
    assert lines[4] == "GiB                   declared predicted measured    m - p  formula / other name"
    assert lines[5] == "weights                  0.464     0.464    0.464        0  124,439,808 x 4 B"
    assert next(line for line in lines if line.startswith("= requested")).split()[2:5] == [
        "8.000",
        "7.917",
        "-0.083*",
    ]
    assert "requested: UNEXPLAINED" in " ".join(" ".join(lines).split())
    shown(lines)


@pytest.mark.parametrize(
    ("job", "last"),
    [
        (14, "FITS with 0.414 GiB beyond the reserve, in the worst phase (backward)."),
        (
            13,
            "FITS ONLY WITHOUT THE RESERVE: it uses 0.586 GiB of the 4.000 GiB kept free, in the worst phase "
            "(backward).",
        ),
        (9, "DOES NOT FIT: 0.586 GiB more than the 9.000 GiB there are, in the worst phase (backward)."),
    ],
)
def test_the_last_line_of_a_ledger_begins_with_the_verdict(job, last):
    spec = replace(CUDA_SPEC, budget=replace(CUDA_SPEC.budget, job=job * GIB))
    lines = ledger_lines(spec, CUDA, PROBE, project="gpt.toml")
    assert " ".join(line.strip() for line in lines).endswith(last)


def test_a_process_that_nobody_could_read_leaves_the_verdict_unknown():
    readings = {**CUDA_PROBE.readings}
    readings["process"] = replace(readings["process"], bytes=None, unknown="NVML hides it")
    phases = {"backward": replace(CUDA_PROBE.phases["backward"], process_bytes=None)}
    measured = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, readings=readings, phases=phases)})
    lines = ledger_lines(CUDA_SPEC, measured, PROBE, project="gpt.toml")
    assert lines[-1] == "UNKNOWN: NVML hides it."
    assert "n/a process: NVML hides it" in lines


def test_a_sum_that_fails_is_said_and_takes_the_verdict_with_it():
    rows = {**CUDA_PROBE.phases["backward"].rows, "weights": 497_759_232 - 8_388_608}
    phases = {"backward": replace(CUDA_PROBE.phases["backward"], rows=rows)}
    measured = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, phases=phases)})
    text = " ".join(line.strip() for line in ledger_lines(CUDA_SPEC, measured, PROBE, project="gpt.toml"))
    assert "sum requested does not agree: rows sum to 8,492,339,200 B" in text
    assert text.endswith("8,388,608 B are in no row.")


def test_a_difference_that_the_instant_explains_is_explained():
    rows = {**CUDA_PROBE.phases["backward"].rows, "gradients": 0, "unattributed": 497_759_232}
    phases = {
        "backward": replace(CUDA_PROBE.phases["backward"], rows=rows),
        "step": replace(CUDA_PROBE.phases["step"], process_bytes=10 * GIB),
    }
    measured = replace(CUDA, probe={PROBE: replace(CUDA_PROBE, phases=phases)})
    text = " ".join(line.strip() for line in ledger_lines(CUDA_SPEC, measured, PROBE, project="gpt.toml"))
    assert "gradients -0.464: at this instant the backward has not made all of them" in text
    assert "the verdict takes process at its most in any phase: 10.000 GiB" in text


def test_a_contended_or_drifting_probe_carries_a_warning():
    probe = replace(CUDA_PROBE, contended=True, step_ms=(100.0,) * 4 + (150.0,) * 2)
    lines = probe_lines(CUDA_SPEC, replace(CUDA, probe={PROBE: probe}), project="gpt.toml")
    text = " ".join(line.strip() for line in lines)
    assert "not usable for an operating configuration" in text
    assert "drift: the last third of the iterations took 50.0 % longer than the first" in text


def test_text_from_outside_cannot_move_the_cursor_or_widen_a_line():
    hostile = replace(CUDA_SPEC, title="\x1b[2J" + "wide 日本語 " * 30)
    for lines in (
        ledger_lines(hostile, CUDA, PROBE, project="gpt.toml"),
        params_lines(hostile, Measured(), project="a-name-that-is-long/" * 8),
    ):
        assert "\x1b" not in shown(lines)


@pytest.mark.parametrize("width", [60, 100, 132])
def test_every_output_fits_other_widths_too(width):
    for lines in (
        ledger_lines(CUDA_SPEC, CUDA, PROBE, project="gpt.toml", width=width),
        probe_lines(CUDA_SPEC, WITH_OOM, [PROBE, SMALLER, OOM], project="gpt.toml", width=width),
        probe_lines(CPU_SPEC, CPU, project="mlp.toml", width=width),
        precision_lines(CUDA_SPEC, CUDA, project="gpt.toml", width=width),
        verify_lines(CUDA_SPEC, CUDA, project="gpt.toml", width=width),
        restore_lines(CUDA_SPEC, CUDA, project="gpt.toml", width=width),
        params_lines(CUDA_SPEC, UNTIED, project="gpt.toml", width=width),
    ):
        assert max(columns(line) for line in lines) <= width


def test_ascii_output_has_no_other_character():
    for line in ledger_lines(CUDA_SPEC, CUDA, PROBE, project="gpt.toml"):
        assert to_ascii(line).isascii()
        assert len(to_ascii(line)) == len(line)


def test_an_absent_measurement_is_an_error_of_the_caller():
    for call in (probe_lines, verify_lines, precision_lines, restore_lines):
        with pytest.raises(KeyError):
            call(CUDA_SPEC, CUDA, ["x-none"] if call is probe_lines else "x-none", project="gpt.toml")
