"""Two small made-up projects with figures that add up: a decoder on a GPU and a perceptron on a CPU."""

from dataclasses import replace
from datetime import UTC, datetime

from tui.project.measured import (
    Check,
    Environment,
    Inventory,
    Measured,
    PhasePeak,
    Precision,
    Probe,
    Reading,
    Restore,
    Setting,
    Verify,
)
from tui.project.model import (
    BatchSpec,
    BudgetSpec,
    LengthSpec,
    NotesSpec,
    OptimizerSpec,
    PrecisionSpec,
    QualitySpec,
    Spec,
    WorkloadSpec,
)

GIB, MIB, KIB = 2**30, 2**20, 2**10
FINGERPRINT = "sha256:4be14be1"
PROBE, VERIFY = "p-20261201T141203-a3", "v-20261201T140110-02"
SMALLER, PRECISION, RESTORE = "p-20261201T144431-5d", "c-20261201T145000-07", "r-20261201T150020-9e"


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 12, 1, hour, minute, tzinfo=UTC)


CUDA_SPEC = Spec(
    title="124M decoder on a shared node",
    workload=WorkloadSpec(
        source="decoder",
        args={"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024},
        batch=BatchSpec(
            micro=8, accumulate=4, length=LengthSpec(max=1024, min=128, typical=900), tokens="labels"
        ),
        optimizer=OptimizerSpec(
            implementation="foreach", args={"lr": 6e-4, "betas": [0.9, 0.95]}, clip_norm=1.0
        ),
    ),
    precision=PrecisionSpec(use="bf16-autocast", compare=("fp32", "bf16-autocast")),
    budget=BudgetSpec(job=60 * GIB, reserve=4 * GIB, reserve_for="longest validation batch"),
    quality=QualitySpec(target=3.3, batches=20),
    notes=NotesSpec(brief="Ablation; shares the card."),
)

CUDA_INVENTORY = Inventory(
    spec=FINGERPRINT,
    unique_parameters=124_439_808,
    tensors=148,
    parameter_bytes=497_759_232,
    trainable_parameters=124_439_808,
    buffer_elements=0,
    buffer_bytes=0,
    state_entries=149,
    state_entry_elements=163_037_184,
    dtypes={"float32": 124_439_808},
    groups={
        "token embedding": 38_597_376,
        "position embedding": 786_432,
        "12 blocks": 85_054_464,
        "final norm": 1_536,
        "output head": 0,
    },
    shared=("head.weight = wte.weight",),
    formula="decoder",
    formula_parameters=124_439_808,
    formula_parts={
        "token embedding": 38_597_376,
        "position embedding": 786_432,
        "12 blocks": 85_054_464,
        "final norm": 1_536,
        "output head": 0,
    },
    formula_text="12 x 7,087,872 + 38,597,376 + 786,432 + 1,536",
    gradient_receiving=124_439_808,
)

CUDA_ENVIRONMENT = Environment(
    device="NVIDIA H100 80GB HBM3",
    device_id="GPU-1f0c",
    device_total_bytes=80 * GIB,
    torch="2.13.0+cu126",
    python="3.11.7",
    driver="570.124.06",
    capability="9.0",
)

BACKWARD_ROWS = {
    "weights": 497_759_232,
    "gradients": 497_759_232,
    "optimizer_state": 995_518_464,
    "input_batch": 131_072,
    "retained_activations": 2 * GIB,
    "step_temporaries": 4 * GIB,
    "library_workspaces": 64 * MIB,
}
BACKWARD_REQUESTED = sum(BACKWARD_ROWS.values())
CUDA_PHASES = {
    "build": PhasePeak(497_759_232, 497_760_256, 512 * MIB, rows={"weights": 497_759_232}),
    "backward": PhasePeak(
        requested_bytes=BACKWARD_REQUESTED,
        allocated_bytes=BACKWARD_REQUESTED + MIB,
        reserved_bytes=9 * GIB,
        process_bytes=9 * GIB + 600 * MIB,
        rows=BACKWARD_ROWS,
        operator="_log_softmax_backward_data",
        micro_batch=1,
    ),
    "step": PhasePeak(
        requested_bytes=3 * 497_759_232 + 995_518_464,
        allocated_bytes=3 * 497_759_232 + 995_518_464 + MIB,
        reserved_bytes=9 * GIB,
        process_bytes=9 * GIB + 600 * MIB,
        rows={
            "weights": 497_759_232,
            "gradients": 497_759_232,
            "optimizer_state": 995_518_464,
            "step_temporaries": 497_759_232,
        },
    ),
}

CUDA_PROBE = Probe(
    at=at(14, 12),
    spec=FINGERPRINT,
    environment="e-7c1f",
    precision="bf16-autocast",
    micro_batch=8,
    accumulate=4,
    outcome="fits",
    length=1024,
    device="cuda",
    worst_phase="backward",
    iterations=20,
    warmup=3,
    first_ms=1812.0,
    step_ms_median=118.4,
    step_ms_mean=118.5,
    step_ms_p90=121.9,
    samples_per_s=270.3,
    samples_per_s_low=268.1,
    samples_per_s_high=272.2,
    tokens_per_s=276787.2,
    loss_first=10.986,
    loss_last=9.771,
    step_ms=(118.0, 118.4, 119.0),
    phases=CUDA_PHASES,
    readings={
        "requested": Reading(BACKWARD_REQUESTED, "allocator record", "asked for", "backward"),
        "tensor_allocated": Reading(BACKWARD_REQUESTED + MIB, "memory_stats", "blocks", "backward"),
        "allocator_reserved": Reading(9 * GIB, "memory_stats", "held", "backward"),
        "process": Reading(9 * GIB + 600 * MIB, "device less others", "charged", "backward"),
        "others": Reading(5 * GIB, "mem_get_info before", "others", "start"),
        "driver_reserved": Reading(424 * MIB, "NVML v2", "driver", "start"),
        "device_used": Reading(15 * GIB, "mem_get_info", "whole device", "backward"),
        "device_total": Reading(80 * GIB, "mem_get_info", "whole device", "start"),
    },
    budget_bytes=60 * GIB,
    reserve_bytes=4 * GIB,
    journal="runs/p-20261201T141203-a3.jsonl",
)

CUDA_SMALLER = replace(
    CUDA_PROBE,
    at=at(14, 44),
    micro_batch=4,
    accumulate=8,
    step_ms_median=130.1,
    samples_per_s=246.0,
    samples_per_s_low=244.8,
    samples_per_s_high=247.3,
    phases={
        "backward": PhasePeak(
            requested_bytes=5 * GIB,
            allocated_bytes=5 * GIB + MIB,
            reserved_bytes=6 * GIB,
            process_bytes=6 * GIB + 600 * MIB,
            rows={"weights": 497_759_232, "step_temporaries": 5 * GIB - 497_759_232},
        )
    },
    readings={"process": Reading(6 * GIB + 600 * MIB, "device less others", "charged", "backward")},
    journal="runs/p-20261201T144431-5d.jsonl",
)

CUDA_VERIFY = Verify(
    at=at(14, 1),
    spec=FINGERPRINT,
    environment="e-7c1f",
    outcome="verified",
    precision="bf16-autocast",
    seconds=48.0,
    checks={
        "versions": Check(
            "recorded", "versions", "pass", "Python 3.11.7, torch 2.13.0+cu126, driver 570.124.06"
        ),
        "finite": Check("step", "finite", "pass", "loss 10.986 -> 10.214 in 5 steps on one batch"),
        "determinism": Check("step", "determinism", "note", "two runs differ by 2.4e-4 in loss at step 20"),
        "scaler": Check("checkpoint", "gradient scaler", "n/a", "bf16-autocast uses none"),
    },
    checkpoint_bytes=1_493_277_696,
    checkpoint_sha256="9a77",
    checkpoint_parts={"model": 497_759_232, "optimizer": 995_518_464},
    gradient_receiving=124_439_808,
)

FP32 = Setting(
    effective="fp32 linear, fp32 weights, TF32 off",
    outcome="done",
    final_loss=5.9,
    distance=0.0,
    validation_loss=5.791,
    validation_distance=0.0,
    requested_bytes=11 * GIB,
    samples_per_s=50.6,
    samples_per_s_low=50.4,
    samples_per_s_high=50.7,
    quality_met=False,
    verdict="reference",
)
BF16 = replace(
    FP32,
    effective="bf16 linear, fp32 weights",
    final_loss=5.903,
    distance=0.003,
    validation_loss=5.794,
    validation_distance=0.003,
    gradient_error=8.9e-3,
    requested_bytes=9 * GIB,
    samples_per_s=270.3,
    samples_per_s_low=268.1,
    samples_per_s_high=272.2,
    verdict="usable",
    gain=("memory", "speed"),
)
CUDA_PRECISION = Precision(
    at=at(14, 50),
    spec=FINGERPRINT,
    environment="e-7c1f",
    reference="fp32",
    steps=200,
    seeds=3,
    micro_batch=8,
    outcome="done",
    noise_floor=0.010,
    noise_floor_training=0.012,
    settings={"fp32": FP32, "bf16-autocast": BF16},
    loader_samples_per_s=2910.0,
    compute_samples_per_s=270.3,
    together_samples_per_s=270.1,
    stall_ratio=0.001,
)

CUDA_RESTORE = Restore(
    at=at(15, 0),
    spec=FINGERPRINT,
    environment="e-7c1f",
    outcome="restores",
    saved_after=20,
    killed_in=27,
    iterations=40,
    checks={
        "losses": Check("resumed", "losses", "pass", "20 of 20 equal bit for bit"),
        "state": Check("resumed", "state", "pass", "148 parameters, 444 optimizer tensors equal"),
    },
    checkpoint_bytes=1_493_277_696,
    checkpoint_sha256="9a77",
    recovery_s=6.0,
    restore_peak_bytes=BACKWARD_REQUESTED,
)

CUDA = Measured(
    inventory=CUDA_INVENTORY,
    environment={"e-7c1f": CUDA_ENVIRONMENT},
    verify={VERIFY: CUDA_VERIFY},
    probe={PROBE: CUDA_PROBE, SMALLER: CUDA_SMALLER},
    precision={PRECISION: CUDA_PRECISION},
    restore={RESTORE: CUDA_RESTORE},
)

CPU_PROBE_ID = "p-20261202T090000-c1"
CPU_SPEC = Spec(
    title="Perceptron on two cores",
    workload=WorkloadSpec(
        source="mlp",
        args={"inputs": 64, "hidden": [256, 256], "outputs": 8},
        batch=BatchSpec(micro=1024, accumulate=1),
        optimizer=OptimizerSpec(name="torch.optim.SGD", args={"lr": 0.1}),
    ),
    budget=BudgetSpec(reserve=256 * MIB),
)
# 64 x 256 + 256, 256 x 256 + 256, 256 x 8 + 8
CPU_PARAMETERS = 16_640 + 65_792 + 2_056
CPU_ROWS = {
    "weights": 4 * CPU_PARAMETERS,
    "gradients": 4 * CPU_PARAMETERS,
    "input_batch": 1024 * 72 * 4,
    "retained_activations": 2 * MIB,
    "operator_scratch": 3 * KIB,
}
CPU_REQUESTED = sum(CPU_ROWS.values())
CPU_PROBE = Probe(
    at=datetime(2026, 12, 2, 9, 0, tzinfo=UTC),
    spec="sha256:c0c0c0c0",
    environment="e-c0de",
    precision="fp32",
    micro_batch=1024,
    accumulate=1,
    outcome="fits",
    device="cpu",
    worst_phase="backward",
    iterations=4,
    warmup=2,
    first_ms=21.0,
    step_ms_median=8.0,
    step_ms_mean=8.0,
    step_ms_p90=8.5,
    samples_per_s=128_000.0,
    loss_first=0.5,
    loss_last=0.25,
    phases={
        "backward": PhasePeak(
            CPU_REQUESTED,
            CPU_REQUESTED,
            200 * MIB,
            process_bytes=320 * MIB,
            rows=CPU_ROWS,
            operator="addmm",
        )
    },
    readings={
        "requested": Reading(CPU_REQUESTED, "profiler record", "asked for", "backward"),
        "heap_reserved": Reading(200 * MIB, "mallinfo2", "whole heap", "backward"),
        "process": Reading(320 * MIB, "VmHWM", "peak resident", "backward"),
        "others": Reading(None, "/proc/meminfo", "others", "backward", "the container hides other processes"),
        "host_total": Reading(8 * GIB, "/proc/meminfo", "all memory", "start"),
    },
    reserve_bytes=256 * MIB,
    unknown={
        "samples_per_s_low": "4 timed iterations; an interval needs 5",
        "samples_per_s_high": "4 timed iterations; an interval needs 5",
        "tokens_per_s": "no entry of the batch counts tokens",
    },
)
CPU_INVENTORY = Inventory(
    spec="sha256:c0c0c0c0",
    unique_parameters=CPU_PARAMETERS,
    tensors=6,
    parameter_bytes=4 * CPU_PARAMETERS,
    trainable_parameters=CPU_PARAMETERS,
    buffer_elements=0,
    buffer_bytes=0,
    state_entries=6,
    state_entry_elements=CPU_PARAMETERS,
    dtypes={"float32": CPU_PARAMETERS},
    groups={"3 layers": CPU_PARAMETERS},
    formula="mlp",
    formula_parameters=CPU_PARAMETERS,
    formula_parts={"3 layers": CPU_PARAMETERS},
    formula_text="16,640 + 65,792 + 2,056",
)
CPU = Measured(
    inventory=CPU_INVENTORY,
    environment={
        "e-c0de": Environment(
            device="Test CPU",
            device_id="cpu",
            device_total_bytes=8 * GIB,
            torch="2.13.0+cpu",
            python="3.11.7",
            threads=2,
        )
    },
    probe={CPU_PROBE_ID: CPU_PROBE},
)
