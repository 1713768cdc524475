"""The commented project files that ``new`` and ``demo`` write."""

from __future__ import annotations

import json
from typing import Any

FAMILY_ARGS: dict[str, str] = {
    "decoder": """\
args = { layers = 4, heads = 4, width = 128, vocab = 256, context = 128 }
# also: kv_heads, head_dim, hidden, gated, norm = "rmsnorm", positions = "rotary", rope_base, bias, qkv_bias,
# tied, qk_norm, post_norms, dropout, attention = "eager", experts, top_k, expert_hidden, shared_experts,
# shared_gate, dense_layers (first ones without experts), lora_rank, lora_targets = ["qkv", "proj"]""",
    "encoder": """\
args = { layers = 4, heads = 4, width = 128, vocab = 256, context = 128 }
# also: hidden, segments, head = "classify", classes, pooler, tied, norm_first, embedding_norm, dropout,
# attention = "eager", lora_rank, lora_targets = ["qkv", "proj"]; of images instead of tokens:
# inputs = "patches", size, patch, in_channels, class_token""",
    "mlp": """\
args = { inputs = 64, hidden = [256, 256], outputs = 8 }
# also: bias, norm = "batch" or "layer", activation = "gelu" or "tanh", dropout""",
    "convnet": """\
args = { channels = [32, 64, 128], classes = 10, size = 32 }
# also: depths (blocks of each stage), block = "depthwise", "basic", "bottleneck", "inverted" or "convnext",
# stem, stem_kernel, last, expansion, in_channels, kernel, groups, norm = "group" or "none", norm_groups""",
}

ZOO_ARGS = {
    "timm": "args = {}                  # given to timm.create_model, such as { num_classes = 10 }",
    "torchvision": "args = {}                  # given to torchvision.models.get_model, such as { num_classes = 10 }",
}
"""By package whose models are taken by name."""

HAS_LENGTH = ("decoder", "encoder")

TEMPLATE = """\
# A Peakmark project: what you say stands here, what was measured goes below the last line.
# Open it with:  peakmark {name}          Run all of it with:  peakmark run {name}
schema = 1
title = {title}

[workload]
source = {source}{source_note}
{args}
{formula}

[workload.batch]
micro = {micro}                 # samples a micro-batch
accumulate = 1            # micro-batches an optimizer step
{length}
[workload.optimizer]
name = "torch.optim.AdamW"
implementation = "default"   # default | foreach | fused | loop
args = {{ lr = {lr} }}
clip_norm = 1.0

[precision]
use = "fp32"              # fp32 | tf32 | bf16-autocast | fp16-autocast | bf16 | fp16
compare = ["fp32", "bf16-autocast"]   # the first one is the reference
seeds = 3                 # runs of the reference: how far they lie apart is the noise floor
steps = {steps}                # optimizer steps of each run

[budget]
{job}
reserve = "{reserve}"       # bytes of it kept free on purpose
reserve_for = {reserve_for}

[quality]
metric = "validation loss"{metric_note}
direction = "min"
{target}
batches = {valid}               # validation batches

[environment]
device = "auto"           # auto | cpu | GPU-uuid | MIG-uuid
"""


def project_text(name: str, source: str, **given: Any) -> str:
    """A project file for ``source``; ``given`` overrides what the template says by default."""
    family = source if source in FAMILY_ARGS else None
    package = source.partition(":")[0] if source.partition(":")[0] in ZOO_ARGS else None
    values: dict[str, Any] = {
        "name": name,
        "title": _string(f"{source}, not described yet"),
        "source": _string(source),
        "source_note": _source_note(family, package),
        "args": _args(source, family, package),
        "formula": _formula(source, family),
        "micro": 8,
        "length": _length(family, package) + "\n",
        "lr": "1e-3",
        "steps": 60,
        "job": '# job = "8 GiB"           # what this job may use; left out: what the device leaves',
        "reserve": "256 MiB",
        "reserve_for": _string("validation and the checkpoint"),
        "metric_note": _metric_note(family, package, source),
        "target": "# target = 1.0             # validation loss that is good enough",
        "valid": 8,
    }
    return TEMPLATE.format(**{**values, **given})


def _args(source: str, family: str | None, package: str | None) -> str:
    if family:
        return FAMILY_ARGS[family]
    if source.endswith(".json"):
        return "args = {}                  # keys of the configuration, with other values"
    return ZOO_ARGS.get(package or "", "args = {}                  # given to build(cfg) as cfg")


def _formula(source: str, family: str | None) -> str:
    """The line that says which formula the parameters are checked against."""
    if family:
        return f"formula = {_string(family)}         # the parameter formula that is checked"
    if source.endswith(".json"):
        return '# formula = "none"         # left out: that of the configuration, where its kind has one'
    return (
        'formula = "none"            # decoder, encoder, mlp or convnet checks the parameter count by formula'
    )


def _source_note(family: str | None, package: str | None) -> str:
    if family:
        return ""
    if package:
        return "   # with random weights; nothing is downloaded"
    return "   # FILE.py with build() and batch(n), or a CONFIG.json"


def _metric_note(family: str | None, package: str | None, source: str) -> str:
    own = not family and not package and not source.endswith(".json")
    return "   # or what metric() of the file gives; then direction too" if own else ""


def _length(family: str | None, package: str | None) -> str:
    if family in HAS_LENGTH:
        return "length = 128              # tokens a sample; memory is measured at the largest"
    if package or family == "convnet":
        return "# length = 224            # pixels a side of an image; left out: as the model says"
    return "# length = 1024           # tokens a sample, for batch(n, length); leave it out for fixed shapes"


def demo_text(name: str) -> str:
    """The sample project: a decoder small enough for a CPU, and data with something to learn."""
    return project_text(
        name,
        "decoder",
        title=_string("demo: a small decoder learns a second-order source"),
        args=(
            "args = { layers = 2, heads = 4, width = 64, vocab = 32, context = 32 }\n"
            "# Data: tokens from a fixed seed. Each has 4 likely successors, and the token before it favours one.\n"
            "# A model that knows only how often tokens occur has a loss of 3.19 nat; the source itself has 0.78."
        ),
        length="length = 32               # tokens a sample\n",
        lr="3e-3",
        steps=60,
        job='job = "2 GiB"              # what this job may use of the device',
        reserve="256 MiB",
        reserve_for=_string("a longer validation batch and the checkpoint"),
        target="target = 2.88              # 0.3 nat under the 3.19 of token frequencies alone",
    )


def fallback(micro: int, accumulate: int) -> tuple[int, int]:
    """A smaller batch with the same samples a step: half the micro-batch, twice the accumulation.

    >>> fallback(8, 4), fallback(3, 1)
    ((4, 8), (1, 3))
    """
    return (micro // 2, accumulate * 2) if micro % 2 == 0 else (1, micro * accumulate)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
