"""What a predicting child tells, and predictions made of it, with figures that are checked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tui.engine.outcome import Outcome
from tui.probe.protocol import EnvironmentSeen, Failed
from tui.project.prediction import PredictedPeak, Prediction

AT = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
MIB, GIB = 2**20, 2**30
H100 = "NVIDIA H100 80GB HBM3"
FIXED, EACH = 2 * GIB, 512 * MIB
"""Requested bytes are FIXED + EACH x micro in the backward."""


def predicted(micro: int = 8, accumulate: int = 1, length: int | None = None, **more: Any) -> dict[str, Any]:
    """The table of one point."""
    requested = FIXED + EACH * micro
    rows = {"weights": GIB, "gradients": GIB, "retained_activations": EACH * micro}
    phase = {
        "requested_bytes": requested, "allocated_bytes": requested + MIB, "reserved_bytes": requested + 20 * MIB,
        "rows": rows, "operator": "mm", "module": "layers.0", "micro_batch": 0,
        "end_bytes": 2 * GIB, "end_allocated_bytes": 2 * GIB, "end_reserved_bytes": requested + 20 * MIB,
    }  # fmt: skip
    build = phase | {
        "requested_bytes": GIB,
        "allocated_bytes": GIB,
        "reserved_bytes": GIB,
        "micro_batch": None,
    }
    build |= {
        "rows": {"weights": GIB},
        "end_bytes": GIB,
        "end_allocated_bytes": GIB,
        "end_reserved_bytes": GIB,
    }
    return {
        "micro": micro, "accumulate": accumulate, "length": length, "semantics": "cuda", "target": H100,
        "phases": {"build": build, "backward": phase}, "worst_phase": "backward", "segments": 3, "retries": 0,
        "out_of_memory": None,
        "assumptions": [
            {"what": "attention kernel", "value": "flash", "because": "bf16, causal, no mask", "count": 12}
        ],
        "items_answered": [{"answer": "1.0", "where": "workload.py:57 in loss", "count": 3}],
        "approximate": [], "not_covered": ["cuDNN (not used)"], "ranges": {}, "operators": 10, "events": 20,
        "trace_s": 1.0, "simulate_s": 0.1, "torch": "2.13.0+cpu", "unknown": {}, **more,
    }  # fmt: skip


LARGEST = {
    "micro": 107, "reserved_bytes": 55 * GIB + 532 * MIB, "next": {"micro": 108, "reserved_bytes": 56 * GIB},
    "line": {"fixed_bytes": FIXED, "per_sample_bytes": EACH, "residual_max_bytes": 0},
    "traced": [4, 8, 107], "simulated": 9, "exact": True, "unknown": {},
}  # fmt: skip


def ended(plan: Any, tables: list[dict[str, Any]], largest: dict[str, Any] | None = None) -> Outcome:
    """A predicting child that was done."""
    results: dict[str, Any] = {"predicted": tables[-1]} if tables else {}
    if largest is not None:
        results["predicted_largest"] = largest
    seen = EnvironmentSeen({"device": "CPU", "device_id": "cpu", "torch": "2.13.0+cpu", "python": "3.11"})
    return Outcome(
        plan.id,
        "done",
        "",
        AT,
        AT,
        plan.journal,
        "",
        results=results,
        predicted=tuple(tables),
        environment=seen,
    )


def failed(plan: Any, failure: Failed) -> Outcome:
    """The end of a child that could not predict."""
    said = f"{failure.sentence}; {failure.hint}" if failure.hint else failure.sentence
    return replace(ended(plan, []), word="failed", sentence=said, failure=failure)


def prediction(spec: str, **changes: Any) -> Prediction:
    """A saved prediction of micro-batch 8 for the H100: process 6 GiB + 20 MiB + 520 to 615 MiB."""
    requested = FIXED + EACH * 8
    peak = PredictedPeak(
        requested,
        requested + MIB,
        requested + 20 * MIB,
        rows={"weights": GIB, "gradients": GIB, "retained_activations": 4 * GIB},
        operator="mm",
        module="layers.0",
        micro_batch=0,
    )
    made: dict[str, Any] = {
        "at": AT, "spec": spec, "precision": "fp32", "micro_batch": 8, "accumulate": 1, "torch": "2.13.0+cpu",
        "semantics": "cuda", "target": H100, "target_total_bytes": 81559 * MIB, "target_from": "--gpu",
        "worst_phase": "backward", "phases": {"backward": peak}, "context_low_bytes": 520 * MIB,
        "context_high_bytes": 615 * MIB, "context_from": "published: public logs", "seconds": 9.4,
    }  # fmt: skip
    return Prediction(**(made | changes))
