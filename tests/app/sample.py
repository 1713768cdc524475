"""Two projects with everything measured: a decoder on a GPU, and a small network on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tui.project import measured as m
from tui.project import model as s
from tui.project.prediction import PredictedPeak, Prediction

SPEC = "sha256:4be1c0ffee00"
AT = datetime(2026, 12, 1, 14, 12, 3, tzinfo=UTC)
GIB, MIB = 2**30, 2**20
PROBE = "p-20261201T141203-a3"


@dataclass(frozen=True)
class SampleProject:
    """What the views need of a project."""

    spec: s.Spec
    measured: m.Measured
    path: Path = field(default=Path("h100.toml"))
    text: str = ""
    """Of its file."""


def cuda_spec() -> s.Spec:
    return s.Spec(
        title="124M decoder on a shared H100 node",
        workload=s.WorkloadSpec(
            source="workload.py",
            args={"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024},
            formula="decoder",
            batch=s.BatchSpec(micro=8, accumulate=4, length=s.LengthSpec(1024, 128, 900), tokens="labels"),
            optimizer=s.OptimizerSpec("torch.optim.AdamW", "foreach", {"lr": 6e-4, "weight_decay": 0.1}, 1.0),
        ),
        precision=s.PrecisionSpec("bf16-autocast", ("fp32", "tf32", "bf16-autocast")),
        budget=s.BudgetSpec(60 * GIB, 4 * GIB, "longest validation batch; checkpoint save"),
        quality=s.QualitySpec("validation loss", "min", 3.30, 20),
    )


def inventory(spec: str = SPEC) -> m.Inventory:
    parts = {
        "token embedding": 38_597_376,
        "position embedding": 786_432,
        "12 blocks": 85_054_464,
        "final norm": 1_536,
        "output head": 0,
    }
    return m.Inventory(
        spec=spec,
        unique_parameters=124_439_808,
        tensors=148,
        parameter_bytes=497_759_232,
        trainable_parameters=124_439_808,
        buffer_elements=0,
        buffer_bytes=0,
        state_entries=149,
        state_entry_elements=163_037_184,
        dtypes={"float32": 124_439_808},
        groups=parts,
        shared=("lm_head.weight = transformer.wte.weight",),
        formula="decoder",
        formula_parameters=124_439_808,
        formula_parts=parts,
        formula_text="12 x 7,087,872 + 38,597,376 + 786,432 + 1,536",
        gradient_receiving=124_439_808,
    )


def _environment() -> m.Environment:
    return m.Environment(
        device="NVIDIA H100 80GB HBM3",
        device_id="GPU-1f0c",
        device_total_bytes=85_520_809_984,
        torch="2.13.0+cu126",
        python="3.11.9",
        platform="Linux x86_64",
        glibc="2.35",
        driver="570.124.06",
        cuda="12.8",
        capability="9.0",
        threads=16,
    )


def _checks() -> dict[str, m.Check]:
    step, disk = "one small step: batch 1 x 1024", "a checkpoint, reloaded in a fresh process"
    lines = (
        ("finished", step, "forward, backward, step", "pass", "3 iterations, 0.41 s"),
        ("finite", step, "finite", "pass", "loss, 148 gradients, 296 state tensors"),
        ("placement", step, "placement", "pass", "everything on GPU-1f0c, as the spec says"),
        ("learns", step, "loss goes down", "pass", "10.986 to 9.771 in 5 steps on one batch"),
        ("gradients", step, "gradients against fp64", "pass", "worst 3.1e-3 in h.11.mlp, tolerance 2.0e-2"),
        ("repeats", step, "deterministic", "note", "two runs differ by 2.4e-4 in loss at step 20"),
        ("saved", disk, "saved", "pass", "1.391 GiB in 1.9 s: model 0.464, optimizer 0.927"),
        ("loaded", disk, "loaded, weights_only=True", "pass", "sha256 9a77, every entry used once"),
        ("loss", disk, "next loss", "pass", "equal, bit for bit"),
        ("after", disk, "parameters after it", "pass", "equal, bit for bit"),
        ("scaler", disk, "gradient scaler", "n/a", "bf16-autocast uses none"),
    )
    return {key: m.Check(group, title, outcome, text) for key, group, title, outcome, text in lines}


def cuda_probe(micro: int = 8, **changes: object) -> m.Probe:
    """A probe whose activations grow with the batch, as on an H100."""
    rows = {
        "weights": 497_759_232,
        "gradients": 497_759_232,
        "optimizer_state": 995_518_464,
        "input_batch": 16_384 * micro,
        "retained_activations": 1_177_675_776 * micro,
        "step_temporaries": 411_705_344 * micro,
        "library_workspaces": 67_108_864,
    }
    requested = sum(rows.values())
    allocated, reserved = requested + 2_611_200, requested + 2_611_200 + 424_220_672
    process = reserved + 644_245_094
    others = 5_480_906_752
    reading = m.Reading
    step_ms = tuple(118.0 + (i * 7 % 5) / 2 for i in range(20))
    trace = tuple(
        one for i in range(20) for one in (allocated * 93 // 100, allocated, allocated // 6 + i * MIB)
    )
    probe = m.Probe(
        at=AT,
        spec=SPEC,
        environment="e-7c1f",
        precision="bf16-autocast",
        micro_batch=micro,
        accumulate=4,
        length=1024,
        device="cuda",
        outcome="fits" if process < 56 * GIB else "fits-without-reserve",
        worst_phase="backward",
        iterations=20,
        warmup=3,
        first_ms=1812.0,
        step_ms_median=118.4,
        step_ms_mean=118.5,
        step_ms_p90=121.9,
        samples_per_s=290.3 - 160.0 / micro,
        samples_per_s_low=288.1 - 160.0 / micro,
        samples_per_s_high=292.2 - 160.0 / micro,
        tokens_per_s=276_787.2,
        loss_first=10.986,
        loss_last=9.371,
        step_ms=step_ms,
        allocated_trace=trace,
        allocated_source="memory_stats, inside",
        phases={
            "build": m.PhasePeak(497_759_232, 497_759_232, 500 * MIB, 1100 * MIB, {"weights": 497_759_232}),
            "forward": m.PhasePeak(
                requested * 93 // 100,
                allocated * 93 // 100,
                reserved,
                process,
                {"weights": requested * 93 // 100},
                "aten::_log_softmax",
                "loss",
                3,
            ),
            "backward": m.PhasePeak(
                requested,
                allocated,
                reserved,
                process,
                rows,
                "aten::_log_softmax_backward_data",
                "loss",
                3,
            ),
            "step": m.PhasePeak(
                requested // 6, allocated // 6, reserved, process, {"weights": requested // 6}
            ),
        },
        readings={
            "requested": reading(requested, "allocator record", "as asked", "backward"),
            "tensor_allocated": reading(allocated, "memory_stats, inside", "after rounding", "backward"),
            "allocator_reserved": reading(reserved, "memory_stats, inside", "held", "backward"),
            "process": reading(process, "device less others", "charged to the child", "backward"),
            "others": reading(others, "mem_get_info before and after", "other processes", "backward"),
            "device_used": reading(others + process, "mem_get_info", "whole device", "backward"),
            "device_total": reading(85_520_809_984, "mem_get_info", "whole device", "backward"),
            "driver_reserved": reading(None, "NVML", "kept by the driver", "backward", "no NVML v2 here"),
        },
        budget_bytes=60 * GIB,
        reserve_bytes=4 * GIB,
        limit_bytes=59_485_716_480,
        journal=f"runs/{PROBE}.jsonl",
    )
    return replace(probe, **changes)


PREDICTION = "f-20261201T140500-7b"


def cuda_prediction(**changes: object) -> Prediction:
    """What was predicted of the probe of 8 before it: exact, but for the history of the cache."""
    probe = cuda_probe()
    cached = 10_485_760
    phases = {
        name: PredictedPeak(
            peak.requested_bytes,
            peak.allocated_bytes,
            peak.reserved_bytes - cached,
            peak.rows,
            peak.operator,
            peak.module,
            peak.micro_batch,
        )
        for name, peak in probe.phases.items()
    }
    made = Prediction(
        at=AT.replace(minute=5),
        spec=SPEC,
        precision="bf16-autocast",
        micro_batch=8,
        accumulate=4,
        length=1024,
        torch="2.13.0+cpu",
        semantics="cuda",
        target="NVIDIA H100 80GB HBM3",
        target_total_bytes=85_520_809_984,
        worst_phase="backward",
        phases=phases,
        context_low_bytes=560 * MIB,
        context_high_bytes=690 * MIB,
        context_from="published figures of CUDA 12 on capability 9.0",
        assumptions=(
            "attention kernel: flash (bf16, causal, no mask), 12 times",
            "optimizer: AdamW foreach, as the spec says",
        ),
        answered=("1.0 to workload.py:57 in loss, 3 times",),
        not_covered=("cuDNN convolution workspaces: none in this model",),
        outcome="fits",
        timeline=f"runs/{PREDICTION}.timeline.json",
        journal=f"runs/{PREDICTION}.jsonl",
        seconds=6.4,
    )
    return replace(made, **changes)


def predicted(project: SampleProject, made: Prediction | None = None) -> SampleProject:
    """``project`` with a prediction."""
    found = {PREDICTION: made or cuda_prediction()}
    return replace(project, measured=replace(project.measured, prediction=found))


def out_of_memory(micro: int = 48) -> m.Probe:
    return replace(
        cuda_probe(micro),
        outcome="out-of-memory",
        phases={},
        readings={},
        worst_phase="backward",
        samples_per_s=None,
        samples_per_s_low=None,
        samples_per_s_high=None,
        failure="out of memory in backward of iteration 1: asked for 9.226 GiB, 1.816 more than there was",
        alive={"retained_activations": 44 * GIB, "step_temporaries": 8 * GIB, "weights": 497_759_232},
        asked_bytes=9_906_000_000,
    )


def _precision() -> m.Precision:
    fall = tuple(11.0 * 0.93**i + 2.4 for i in range(48))

    def setting(loss: float, rate: float, scale: int, **more: object) -> m.Setting:
        return replace(
            m.Setting(
                effective="bf16 linears, fp32 weights",
                outcome="done",
                losses=fall,
                final_loss=loss,
                distance=loss - 3.412,
                validation_loss=loss - 0.131,
                validation_distance=loss - 3.412,
                gradient_error=3.1e-3,
                gradient_cosine=0.9999,
                requested_bytes=scale * GIB // 10,
                allocated_bytes=scale * GIB // 10 + MIB,
                reserved_bytes=scale * GIB // 10 + 400 * MIB,
                process_bytes=scale * GIB // 10 + 1000 * MIB,
                step_ms_median=32_000 / rate,
                samples_per_s=rate,
                samples_per_s_low=rate - 0.9,
                samples_per_s_high=rate + 1.1,
                quality_met=True,
                verdict="usable",
                gain=("memory", "speed"),
            ),
            **more,
        )

    return m.Precision(
        at=AT,
        spec=SPEC,
        environment="e-7c1f",
        reference="fp32",
        steps=200,
        seeds=3,
        micro_batch=8,
        outcome="done",
        noise_floor=0.006,
        noise_floor_training=0.006,
        settings={
            "fp32": setting(3.412, 62.1, 203, verdict="reference", gain=(), effective="TF32 off"),
            "tf32": setting(3.412, 151.8, 203, gain=("speed",), effective="TF32 on"),
            "bf16-autocast": setting(3.415, 270.3, 137),
        },
        loader_samples_per_s=612.0,
        compute_samples_per_s=271.0,
        together_samples_per_s=270.3,
        stall_ratio=0.003,
    )


def _restore() -> m.Restore:
    checks = {
        "samples": m.Check("restore", "samples", "pass", "640 of 640 in the uninterrupted order"),
        "losses": m.Check("restore", "losses", "pass", "20 of 20 equal bit for bit"),
        "state": m.Check("restore", "state", "pass", "148 parameters, 444 optimizer tensors equal"),
    }
    return m.Restore(
        at=AT,
        spec=SPEC,
        environment="e-7c1f",
        outcome="restores",
        saved_after=20,
        killed_in=27,
        iterations=40,
        checks=checks,
        checkpoint_bytes=1_493_277_696,
        checkpoint_sha256="9a77c0ffee",
        recovery_s=6.8,
        restore_peak_bytes=3_548_000_000,
    )


def cuda() -> SampleProject:
    """Everything measured, on a shared GPU."""
    probes = {
        f"p-20261201T1411{n:02}-b{n}": cuda_probe(micro) for n, micro in enumerate((1, 2, 4, 12, 32, 35, 36))
    }
    measured = m.Measured(
        inventory=inventory(),
        environment={"e-7c1f": _environment()},
        verify={
            "v-20261201T140110-02": m.Verify(
                at=AT.replace(hour=14, minute=1),
                spec=SPEC,
                environment="e-7c1f",
                outcome="verified",
                precision="bf16-autocast",
                seconds=48.2,
                checks=_checks(),
                checkpoint_bytes=1_493_277_696,
                checkpoint_sha256="9a77c0ffee",
            )
        },
        probe={**probes, "p-20261201T141150-c0": out_of_memory(), PROBE: cuda_probe()},
        precision={"c-20261201T143000-11": _precision()},
        restore={"r-20261201T150020-9e": _restore()},
        operating={
            "o-1": m.Operating(
                probe=PROBE,
                verify="v-20261201T140110-02",
                spec=SPEC,
                environment="e-7c1f",
                accepted_at=AT.replace(hour=15, minute=4),
                micro_batch_tested=(1, 2, 4, 8, 12),
                precision="c-20261201T143000-11",
                restore="r-20261201T150020-9e",
                fallback="p-20261201T141102-b2",
            )
        },
    )
    return SampleProject(cuda_spec(), measured)


def cpu_spec() -> s.Spec:
    return s.Spec(
        title="a small network on the CPU",
        workload=s.WorkloadSpec(
            source="mlp",
            args={"width": 256, "layers": 4},
            batch=s.BatchSpec(micro=32),
            optimizer=s.OptimizerSpec("torch.optim.SGD", args={"lr": 0.1}),
        ),
        environment=s.EnvironmentSpec(device="cpu"),
    )


def cpu() -> SampleProject:
    """A probe on the CPU without a budget, and nothing else."""
    rows = {
        "weights": 300 * MIB,
        "gradients": 300 * MIB,
        "retained_activations": 100 * MIB,
        "input_batch": 32_768,
    }
    requested = sum(rows.values())
    reading = m.Reading
    probe = m.Probe(
        at=AT,
        spec=SPEC,
        environment="e-c0",
        precision="fp32",
        micro_batch=32,
        accumulate=1,
        outcome="fits",
        worst_phase="first.backward",
        iterations=10,
        step_ms_median=42.5,
        step_ms_p90=44.0,
        samples_per_s=752.9,
        samples_per_s_low=741.0,
        samples_per_s_high=764.9,
        step_ms=(42.0, 43.0, 42.5, 44.0),
        allocated_trace=(600 * MIB, 700 * MIB, 310 * MIB) * 4,
        allocated_source="profiler events",
        phases={"first.backward": m.PhasePeak(requested, None, 800 * MIB, 1000 * MIB, rows)},
        readings={
            "requested": reading(requested, "profiler events", "as asked", "first.backward"),
            "heap_reserved": reading(800 * MIB, "mallinfo2", "heap", "first.backward"),
            "process": reading(1000 * MIB, "VmHWM", "peak resident", "first.backward"),
            "others": reading(2 * GIB, "MemTotal less MemAvailable", "others", "first.backward"),
            "host_total": reading(16 * GIB, "MemTotal", "host", "first.backward"),
        },
    )
    return SampleProject(cpu_spec(), m.Measured(probe={"p-20261201T141203-c1": probe}), Path("mlp.toml"))


def empty() -> SampleProject:
    """Nothing measured yet."""
    return SampleProject(cuda_spec(), m.Measured(), Path("new.toml"))
