"""What is measured on a GPU: a list of jobs, each a plan's fields for ``models.py``.  Standard library only."""

from dataclasses import dataclass, field
from typing import Any

ADAMW = {"name": "torch.optim.AdamW", "implementation": "default", "args": {"lr": 1e-4}, "clip_norm": None}
SGD = {**ADAMW, "name": "torch.optim.SGD", "args": {"lr": 0.1, "momentum": 0.9}}


@dataclass(frozen=True)
class Job:
    """``small``: the micro-batch with tiny models; ``kinds``: devices that can run it."""

    name: str
    model: str
    micro: int
    precision: str = "fp32"
    optimizer: dict[str, Any] = field(default_factory=lambda: ADAMW)
    checkpoint: tuple[str, ...] = ()
    accumulate: int = 1
    kernel: str = ""
    kinds: tuple[str, ...] = ("cuda", "cpu")


GPU = ("cuda",)


def _gpt2(name: str, micro: int = 8, precision: str = "bf16-autocast", **more: Any) -> Job:
    return Job("GPT-2 124M, " + name, "gpt2", micro, precision, **more)


JOBS: list[Job] = [
    Job("MLP, AdamW", "mlp", 1024),
    Job("MLP, bf16 autocast", "mlp", 1024, "bf16-autocast"),
    Job("ResNet-50, SGD with momentum", "resnet50", 32, optimizer=SGD),
    _gpt2("fp32", 4, "fp32"),
    _gpt2("bf16 autocast"),
    _gpt2("bf16 autocast, fused AdamW", optimizer={**ADAMW, "implementation": "fused"}),
    _gpt2("bf16 autocast, for-loop AdamW", optimizer={**ADAMW, "implementation": "loop"}),
    _gpt2(
        "fp16 with GradScaler, clipping", 8, "fp16-autocast", optimizer={**ADAMW, "clip_norm": 1.0}, kinds=GPU
    ),
    _gpt2("bf16 autocast, checkpointing", checkpoint=("Block",)),
    Job("BERT-large, fp32", "bert", 4),
    Job(
        "BERT-large, fp16 with GradScaler, 4 micro-batches",
        "bert",
        2,
        "fp16-autocast",
        accumulate=4,
        kinds=GPU,
    ),
    _gpt2("attention: flash", kernel="FLASH_ATTENTION", kinds=GPU),
    _gpt2("attention: efficient", kernel="EFFICIENT_ATTENTION", kinds=GPU),
    _gpt2("attention: cuDNN", kernel="CUDNN_ATTENTION", kinds=GPU),
    _gpt2("attention: math", kernel="MATH"),
    _gpt2("bf16 weights", precision="bf16"),
    Job("ResNet-50, bf16 autocast", "resnet50", 64, "bf16-autocast", SGD),
    _gpt2("fp32, for-loop AdamW", 4, "fp32", optimizer={**ADAMW, "implementation": "loop"}),
]
