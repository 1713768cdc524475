"""The published figures of ``rows.toml`` as jobs of a prediction, one a row that is eligible and could be rebuilt.

``read`` says which instant the published figure is of: steady (the highest of the second iteration), first (of the
first), end (after the second), built (the model on the device, nothing else), overall (everything until the end).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

A100 = {
    "name": "NVIDIA A100",
    "total_bytes": None,
    "capability": [8, 0],
    "sm_count": 108,
    "threads_per_sm": 2048,
}
H100 = {
    "name": "NVIDIA H100",
    "total_bytes": None,
    "capability": [9, 0],
    "sm_count": 132,
    "threads_per_sm": 2048,
}
H100_PCIE = {**H100, "name": "NVIDIA H100 PCIe", "sm_count": 114}
V100 = {
    "name": "Tesla V100",
    "total_bytes": None,
    "capability": [7, 0],
    "sm_count": 80,
    "threads_per_sm": 2048,
}


@dataclass(frozen=True)
class Job:
    """A workload file here, its arguments, and how it is to be run; ``more`` are further fields of the plan."""

    file: str
    args: dict[str, Any] = field(default_factory=dict)
    micro: int = 1
    accumulate: int = 1
    length: int | None = None
    precision: str = "fp32"
    read: str = "steady"
    target: dict[str, Any] = field(default_factory=lambda: A100)
    optimizer: dict[str, Any] = field(default_factory=dict)
    cheap: bool = False
    """Predicted within two seconds, so that it is a test."""


def _course(context: int, mode: str, **more: Any) -> Job:
    args = {"size": "medium", "context": context, "mode": mode}
    return Job("course_decoder.py", args, micro=4, length=context, **more)


def _student(mode: str, read: str, **more: Any) -> Job:
    args = {"context": 128, "mode": mode}
    return Job("student_decoder.py", args, micro=4, length=128, read=read, target=H100, **more)


def _gpt2(mask: str = "made", **more: Any) -> Job:
    args = {"mask": mask, "native": more.pop("native", False)}
    return Job("scratch_gpt2.py", args, micro=8, read=more.pop("read", "overall"), **more)


def _bert(micro: int = 4, accumulate: int = 1, **more: Any) -> Job:
    precision = "fp16-autocast" if more.pop("half", False) else "fp32"
    clip = {"clip_norm": 1.0}
    return Job(
        "bert_large.py", more, micro, accumulate, None, precision, "overall", target=V100, optimizer=clip
    )


def _attention(tokens: int, width: int) -> Job:
    args = {"batch": 8, "tokens": tokens, "width": width, "mode": "saved"}
    return Job("attention.py", args, read="end", cheap=True)


def _kernel(kind: str, **more: Any) -> Job:
    target = more.pop("target", A100)
    precision = "bf16" if kind in ("gated", "head") else "fp32"
    return Job("kernels.py", {"kind": kind, **more}, precision=precision, target=target, cheap=True)


def _gated(act: str, batch: int, tokens: int) -> Job:
    return _kernel("gated", act=act, batch=batch, tokens=tokens, width=4096, inner=11008)


def _lora(model: str, micro: int, length: int) -> Job:
    return Job("lora_decoder.py", {"model": model}, micro, length=length, precision="bf16", read="first")


FUSED = {"implementation": "fused"}
JOBS: dict[str, Job] = {
    "cs336-medium-train-ctx128": _course(128, "train"),
    "cs336-medium-train-ctx512": _course(512, "train", precision="bf16-autocast"),
    "cs336-medium-infer-ctx128": _course(128, "forward"),
    "cs336-medium-infer-ctx512": _course(512, "forward", precision="bf16-autocast"),
    "cs336-3.4b-fullstep-ctx128": _student("train", "first"),
    "cs336-3.4b-forward-ctx128": _student("forward", "first"),
    "cs336-3.4b-forward-ctx128-bf16autocast": _student("forward", "first", precision="bf16-autocast"),
    "cs336-3.4b-ddp2-baseline-after_model_init": Job(
        "course_decoder.py", {"size": "2.7b", "context": 512, "mode": "load"}, length=512, read="built"
    ),
    "attention-b8-s4096-d16-fwd-bwd": Job(
        "attention.py", {"batch": 8, "tokens": 4096, "width": 16, "mode": "both"}, read="first", cheap=True
    ),
    "cs336-small-infer-ctx128-fp32": Job("small_decoder.py", micro=4),
    "hf-bertlarge-load": Job("bert_large.py", {"load_only": True}, read="built", target=V100),
    "hf-bertlarge-vanilla": _bert(),
    "hf-bertlarge-ga4": _bert(1, 4),
    "hf-bertlarge-ga4-gc": _bert(1, 4, checkpoint=True),
    "hf-bertlarge-fp16": _bert(half=True),
    "hf-bertlarge-ga4-gc-fp16": _bert(1, 4, checkpoint=True, half=True),
    "hf-bertlarge-adafactor": _bert(optimizer="adafactor"),
    "hf-bertlarge-ga4-gc-fp16-adafactor": _bert(1, 4, checkpoint=True, half=True, optimizer="adafactor"),
    "rasbt-gpt2-00-baseline": _gpt2("kept"),
    "rasbt-gpt2-01-mask-on-the-fly": _gpt2(),
    "rasbt-gpt2-02-tf32": _gpt2(precision="tf32"),
    "rasbt-gpt2-03-fused": _gpt2(precision="tf32", optimizer=FUSED),
    "rasbt-gpt2-06-native-ln-gelu": _gpt2(precision="bf16", optimizer=FUSED, native=True),
    "rasbt-gpt2-00-baseline-resident": _gpt2("kept", read="end"),
    "pt-tutorial-vitl16-adam": Job("vit_large.py"),
    "pt-tutorial-vitl16-adam-in-bwd": Job("vit_large.py", {"within": True}),
    "torchtune-llama2-7b-lora-init": Job("loaded.py", {"lora": True}, read="built", precision="bf16"),
    "torchtune-pr389-llama2-7b-load": Job("loaded.py", {"lora": False}, read="built", precision="bf16"),
    "liger-cross_entropy-V4096": _kernel("cross_entropy", rows=16384, vocab=4096),
    "liger-cross_entropy-V32768": _kernel("cross_entropy", rows=16384, vocab=32768),
    "liger-cross_entropy-V131072": _kernel("cross_entropy", rows=16384, vocab=131072),
    "liger-fused_linear_cross_entropy-BT4096": _kernel("head", rows=4096, width=4096, vocab=128256),
    "liger-fused_linear_cross_entropy-BT16384": _kernel("head", rows=16384, width=4096, vocab=128256),
    "liger-fused_linear_cross_entropy-BT32768": _kernel("head", rows=32768, width=4096, vocab=128256),
    "liger-swiglu-T1024": _gated("silu", 4, 1024),
    "liger-swiglu-T4096": _gated("silu", 4, 4096),
    "liger-geglu-T1024": _gated("gelu", 8, 1024),
    "liger-geglu-T8192": _gated("gelu", 8, 8192),
    "liger-kl_div-V4096": _kernel("kl_div", rows=16384, vocab=4096, target=H100_PCIE),
    "attention-eager-b8-s1024-d16-saved": _attention(1024, 16),
    "attention-eager-b8-s4096-d16-saved": _attention(4096, 16),
    "attention-eager-b8-s8192-d16-saved": _attention(8192, 16),
    "attention-eager-b8-s4096-d64-saved": _attention(4096, 64),
    "attention-eager-b8-s8192-d128-saved": _attention(8192, 128),
    "litgpt-lora-phi-1.5-mb1": _lora("phi-1.5", 1, 1044),
    "litgpt-lora-phi-1.5-mb2": _lora("phi-1.5", 2, 1044),
    "litgpt-lora-phi-1.5-mb4": _lora("phi-1.5", 4, 1044),
    "litgpt-lora-stablelm-alpha-3b-mb1": _lora("stablelm-alpha-3b", 1, 1034),
    "litgpt-lora-stablelm-alpha-3b-mb4": _lora("stablelm-alpha-3b", 4, 1034),
    "litgpt-lora-llama-2-7b-mb1": _lora("llama-2-7b", 1, 1304),
    "litgpt-lora-llama-2-7b-mb2": _lora("llama-2-7b", 2, 1304),
    "litgpt-lora-llama-2-13b-mb1": _lora("llama-2-13b", 1, 1304),
    "accelerate-bert-base-cased-load": Job(
        "bert_large.py", {"size": "base-cased", "load_only": True}, read="built"
    ),
}


def rows() -> dict[str, dict[str, Any]]:
    """The table of rows, by name."""
    return tomllib.loads((HERE / "rows.toml").read_text())
