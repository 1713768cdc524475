"""Timelines of a step: one that agrees with the sample probe to the byte, and one of any size."""

from __future__ import annotations

from dataclasses import replace

from tui.project.timeline import Phase, Storage, Timeline

BLOCKS, MICRO = 12, 4
LOGITS = 8 * 1024 * 50257 * 4
WTE, WPE, NORM = 50257 * 768 * 4, 1024 * 768 * 4, 2 * 768 * 4
BLOCK = 7_087_872 * 4
ATTENTION, MLP, NORMS = 2_362_368 * 4, 4_722_432 * 4, 3_072 * 4
KEPT = {"attn": 271_056_896, "mlp": 370_147_328, "ln_1": 65_273_856, "ln_2": 65_273_856}
"""Activations of a block: 771,751,936 bytes."""
REST = 160_382_976
"""Activations after the blocks."""


class Recorder:
    """Storages in the order of their births."""

    def __init__(self) -> None:
        self.event = -1
        self.rows: list[list[object]] = []

    def make(self, size, row, module="", operator="", shape="", dtype="float32", born=None) -> int:
        if born is None:
            self.event += 1
        self.rows.append(
            [self.event if born is None else born, None, size, row, module, operator, shape, dtype]
        )
        return len(self.rows) - 1

    def drop(self, *places: int) -> None:
        for place in places:
            self.event += 1
            self.rows[place][1] = self.event


def _parameters() -> list[tuple[str, str, int, str]]:
    found = [("transformer.wte", "wte", WTE, "50257x768"), ("transformer.wpe", "wpe", WPE, "1024x768")]
    for n in range(BLOCKS):
        block = f"transformer.h.{n}"
        found += [
            (f"{block}.attn", "attn", ATTENTION, "2362368"),
            (f"{block}.mlp", "mlp", MLP, "4722432"),
            (f"{block}.ln_1", "ln_1", NORMS // 2, "1536"),
            (f"{block}.ln_2", "ln_2", NORMS // 2, "1536"),
        ]
    return [*found, ("transformer.ln_f", "ln_f", NORM, "1536")]


def decoder() -> Timeline:
    """Four micro-batches and a step; the peak is 14,773,325,824 bytes in the last backward."""
    rec, phases = Recorder(), []
    for module, _, size, shape in _parameters():
        rec.make(size, "weights", module, "", shape, born=-1)
        rec.make(2 * size, "optimizer_state", module, "", shape, born=-1)
    rec.make(32 * 2**20, "library_workspaces", "", "cublas", "", "", born=-1)
    rec.make(32 * 2**20, "library_workspaces", "", "cublaslt", "", "", born=-1)
    gradients: dict[str, int] = {}
    for micro in range(MICRO):
        first = rec.event + 1
        batch = [rec.make(65_536, "input_batch", "", "empty", "8x1024", "int64") for _ in range(2)]
        kept: list[tuple[str, list[int]]] = []
        for n in range(BLOCKS):
            block = f"transformer.h.{n}"
            made = [
                rec.make(size, "retained_activations", f"{block}.{name}", "addmm", "8x1024x768", "bfloat16")
                for name, size in KEPT.items()
            ]
            scratch = rec.make(40 * 2**20, "operator_scratch", f"{block}.attn", "sdpa", "", "")
            rec.drop(scratch)
            kept.append((block, made))
        rest = rec.make(REST, "retained_activations", "transformer.ln_f", "layer_norm", "8x1024x768")
        logits = rec.make(LOGITS, "step_temporaries", "loss", "_log_softmax", "8192x50257")
        phases.append(Phase("forward", micro, first, rec.event + 1))
        first = rec.event + 1
        spread = rec.make(LOGITS, "step_temporaries", "loss", "_log_softmax_backward_data", "8192x50257")
        rec.drop(spread, logits, rest)
        if micro == 0:
            for module, _, size, shape in _parameters():
                if "h." not in module:
                    gradients[module] = rec.make(size, "gradients", module, "mm", shape)
        for block, made in reversed(kept):
            rec.drop(*made)
            if micro == 0:
                for module, _, size, shape in _parameters():
                    if module.startswith(f"{block}."):
                        gradients[module] = rec.make(size, "gradients", module, "mm", shape)
        rec.drop(*batch)
        phases.append(Phase("backward", micro, first, rec.event + 1))
    first = rec.event + 1
    for module, place in gradients.items():
        lists = rec.make(rec.rows[place][2], "step_temporaries", module, "_foreach_sqrt", "", "float32")
        rec.drop(lists)
    rec.drop(*gradients.values())
    phases.append(Phase("step", None, first, rec.event + 1))
    return Timeline(tuple(phases), rec.event + 1, tuple(Storage(*row) for row in rec.rows))


def predicted(extra: int = 0) -> Timeline:
    """The decoder as predicted: no scratch of attention, so fewer events; ``extra`` bytes more of logits."""
    timeline = decoder()
    kept = [one for one in timeline.storages if one.row != "operator_scratch"]
    gone = {at for one in timeline.storages if one.row == "operator_scratch" for at in (one.born, one.died)}
    place = {event: event - sum(1 for at in gone if at <= event) for event in range(-1, timeline.events + 1)}
    storages = [
        replace(
            one,
            born=place[one.born],
            died=None if one.died is None else place[one.died],
            bytes=one.bytes + (extra if one.operator == "_log_softmax" else 0),
        )
        for one in kept
    ]
    phases = tuple(
        replace(one, first=place[one.first - 1] + 1, last=place[one.last - 1] + 1) for one in timeline.phases
    )
    return Timeline(phases, timeline.events - len(gone), tuple(storages))


def large(count: int) -> Timeline:
    """``count`` storages of which a third is alive at the peak, in 400 layers."""
    storages, half = [], count
    for n in range(count):
        module = f"model.layers.{n % 400}.{('attn.q', 'attn.k', 'mlp.up', 'mlp.down')[n % 4]}"
        died = half + n if n % 3 == 0 else min(2 * count - 1, n + 50)
        row = "retained_activations" if n % 3 == 0 else "step_temporaries"
        storages.append(Storage(n, died, 4096 * (1 + n % 97), row, module, "mm", f"{n % 61}x64", "float32"))
    phases = (Phase("forward", 0, 0, half), Phase("backward", 0, half, 2 * half))
    return Timeline(phases, 2 * count, tuple(storages))
