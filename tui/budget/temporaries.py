"""What the step's temporaries are for: every storage of them that is alive at a peak gets one cause, and one only.

A cause is told from what a timeline holds of a storage: the operator that made it, the module, its shape and dtype,
and the phase in which it was made.  Parts of a row add up to the row; what no rule knows keeps its operator's name.
Sizes are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tui.budget import timeline as timelines
from tui.project.timeline import Storage, Timeline

ROWS = ("unsharded_weights", "reduction_buckets", "step_temporaries", "operator_scratch")
"""Rows of the ledger whose storages are named by cause."""

LOGITS = "logits and loss"
WEIGHT_COPIES = "autocast weight copies"
CASTS = "casts"
CLIPPING = "gradient clipping"
FOREACH = "foreach lists"
OPTIMIZER = "temporaries of the optimizer"
RECOMPUTED = "recomputed activations"
PASSED_BACK = "gradients on their way back"
OWN_FORWARD = "temporaries of the forward"
GATHERED = "all-gather buffers"
REDUCED = "reduce buffers"
BUCKETS = "DDP buckets"
SCRATCH = "scratch inside operators"
OTHER = "other"
CAUSES = (
    LOGITS,
    WEIGHT_COPIES,
    CASTS,
    CLIPPING,
    FOREACH,
    OPTIMIZER,
    RECOMPUTED,
    PASSED_BACK,
    OWN_FORWARD,
    GATHERED,
    REDUCED,
    BUCKETS,
    SCRATCH,
    OTHER,
)

_LOSS = re.compile(
    r"^(_?log_softmax(_backward_data)?|nll_loss\w*|cross_entropy\w*|\w*mse_loss\w*|smooth_l1_loss\w*"
    r"|huber_loss\w*|binary_cross_entropy\w*|l1_loss\w*|kl_div\w*|log_sigmoid\w*)$"
)
_NORMS = ("_foreach_norm", "linalg_vector_norm", "_foreach_pow", "_foreach_clamp_max", "norm")
_CASTS = ("_to_copy", "to", "copy_", "_foreach_copy", "_foreach_copy_")
_FORWARD_ALONE = re.compile(
    r"^(addmm|baddbmm|convolution|native_layer_norm|native_batch_norm|native_group_norm|_fused_rms_norm|gelu|relu"
    r"|silu|tanh|sigmoid|embedding|native_dropout|_softmax"
    r"|_scaled_dot_product_\w+_attention(_for_cpu)?|_flash_attention_forward|_efficient_attention_forward)$"
)
"""Operators of a forward that no backward formula calls: a backward that makes their results computes them again."""
_HALVES = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Temporary:
    """Everything of one cause in one row at one instant."""

    row: str
    cause: str
    """One of ``CAUSES``."""
    bytes: int
    count: int
    """Storages."""
    largest: Storage
    what: str
    """The largest ones in words: "3 x 8192x50257 float32 by _log_softmax in head"."""


def at_peak(timeline: Timeline, phase: str | None = None) -> tuple[Temporary, ...] | None:
    """Causes of every row of ``ROWS`` at the highest instant of ``phase``, by row and most bytes first.

    Args:
        timeline: of a measurement or of a prediction.
        phase: forward, backward or step; None: of the iteration.

    Returns:
        None: the timeline has no such phase.
    """
    found = timelines.peak_in(timeline, phase)
    return None if found is None else at(timeline, found[0])


def named(timeline: Timeline) -> list[tuple[Storage, str]]:
    """Every storage of ``ROWS`` with its cause, by birth."""
    judge = _Judge(timeline)
    return [(one, judge.cause(one)) for one in timeline.storages if one.row in ROWS]


def at(timeline: Timeline, event: int) -> tuple[Temporary, ...]:
    """The same after ``event``."""
    judge = _Judge(timeline)
    groups: dict[tuple[str, str], list[Storage]] = {}
    for one in timelines.alive(timeline, event):
        if one.row in ROWS:
            groups.setdefault((one.row, judge.cause(one)), []).append(one)
    made = [_made(row, cause, some) for (row, cause), some in groups.items()]
    return tuple(sorted(made, key=lambda one: (ROWS.index(one.row), -one.bytes, one.cause)))


@dataclass(frozen=True, slots=True)
class Part:
    """One cause of a row of a ledger, predicted beside measured; None: that side has no timeline."""

    row: str
    cause: str
    predicted: int | None
    measured: int | None
    what: str
    """The largest storages, of the measurement where there is one."""

    @property
    def difference(self) -> int | None:
        """Measured less predicted; None: one of them is not there."""
        return None if self.measured is None or self.predicted is None else self.measured - self.predicted


def parts(
    predicted: tuple[Temporary, ...] | None, measured: tuple[Temporary, ...] | None
) -> tuple[Part, ...]:
    """The causes of both sides together, by row and most bytes first; what one side lacks is exactly 0 there."""
    told, seen = _by_cause(predicted), _by_cause(measured)
    made: list[Part] = []
    nothing: dict[tuple[str, str], Temporary] = {}
    theirs, ours = told or nothing, seen or nothing
    for key in dict.fromkeys([*ours, *theirs]):
        there, here = theirs.get(key), ours.get(key)
        largest = here or there
        made.append(
            Part(
                row=key[0],
                cause=key[1],
                predicted=None if told is None else (there.bytes if there else 0),
                measured=None if seen is None else (here.bytes if here else 0),
                what=largest.what if largest else "",
            )
        )
    return tuple(
        sorted(made, key=lambda one: (ROWS.index(one.row), -max(one.measured or 0, one.predicted or 0)))
    )


def _by_cause(found: tuple[Temporary, ...] | None) -> dict[tuple[str, str], Temporary] | None:
    return None if found is None else {(one.row, one.cause): one for one in found}


def of_row(found: Iterable[Temporary] | None, row: str) -> tuple[Temporary, ...]:
    """Those of one row."""
    return tuple(one for one in found or () if one.row == row)


def _made(row: str, cause: str, some: list[Storage]) -> Temporary:
    most = timelines.top(some, 1)[0]
    return Temporary(
        row,
        cause,
        sum(one.bytes for one in some),
        len(some),
        most.storage,
        said(most, len(some) - most.count),
    )


def said(group: timelines.Alike, others: int = 0) -> str:
    """``2 x 1024x8000 float32 by _log_softmax in head, 3 more``."""
    one = group.storage
    times = f"{group.count} x " if group.count > 1 else ""
    size = " ".join(filter(None, (one.shape or f"{one.bytes:,} B", one.dtype)))
    by = f" by {one.operator}" if one.operator else ""
    where = f" in {group.module}" if group.module else ""
    return f"{times}{size}{by}{where}" + (f", {others:,} more" if others > 0 else "")


class _Judge:
    """Tells the cause of a storage from the timeline that it is of."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def cause(self, one: Storage) -> str:
        if one.row == "unsharded_weights":
            return GATHERED
        if one.row == "reduction_buckets":
            # What outlives the iteration is a bucket of DDP; FSDP makes its buffers anew for every unit.
            return BUCKETS if one.born < 0 or one.died is None else REDUCED
        if one.row == "operator_scratch":
            return SCRATCH
        return self._of_step(one, self._phase(one))

    def _phase(self, one: Storage) -> str:
        if one.born < 0:
            return ""
        found = timelines.phase_at(self._timeline, one.born)
        return found.name if found else ""

    def _of_step(self, one: Storage, phase: str) -> str:
        operator = one.operator
        if phase == "step":
            return self._of_optimizer(operator)
        if _LOSS.match(operator) or self._is_logits(one):
            return LOGITS
        if operator in _CASTS:
            return WEIGHT_COPIES if self._is_weight(one) and one.dtype in _HALVES else CASTS
        if phase == "backward":
            return RECOMPUTED if self._is_recomputed(one) else PASSED_BACK
        if phase == "forward":
            return OWN_FORWARD
        return OTHER

    def _of_optimizer(self, operator: str) -> str:
        if operator in _NORMS or operator in ("stack", "clamp", "reciprocal"):
            return CLIPPING
        if operator.startswith("_foreach_"):
            return FOREACH
        return OPTIMIZER

    def _is_logits(self, one: Storage) -> bool:
        return _elements(one) in self._logits

    def _is_weight(self, one: Storage) -> bool:
        # A tied weight is copied in another module than the one that it is counted in.
        alike = one.shape in self._shapes and one.shape not in self._of_activations
        return (one.module, one.shape) in self._weights or alike

    def _is_recomputed(self, one: Storage) -> bool:
        inside = any(
            one.module == path or path.startswith(f"{one.module}.") for path in self._computing_again
        )
        return inside and (one.module, one.operator, one.shape, one.dtype) in self._of_forward

    @cached_property
    def _logits(self) -> frozenset[int]:
        """Elements of what a softmax over classes takes: a tensor of as many is a copy of it."""
        softmax = ("_log_softmax", "log_softmax", "_log_softmax_backward_data", "cross_entropy_loss")
        sizes = (_elements(one) for one in self._timeline.storages if one.operator in softmax)
        return frozenset(size for size in sizes if size is not None and size > 1)

    @cached_property
    def _weights(self) -> frozenset[tuple[str, str]]:
        rows = ("weights", "unsharded_weights")
        return frozenset((one.module, one.shape) for one in self._timeline.storages if one.row in rows)

    @cached_property
    def _shapes(self) -> frozenset[str]:
        return frozenset(shape for _, shape in self._weights)

    @cached_property
    def _of_activations(self) -> frozenset[str]:
        rows = ("retained_activations", "input_batch")
        return frozenset(one.shape for one in self._timeline.storages if one.row in rows)

    @cached_property
    def _of_forward(self) -> frozenset[tuple[str, str, str, str]]:
        return frozenset(
            (one.module, one.operator, one.shape, one.dtype)
            for one in self._timeline.storages
            if self._phase(one) == "forward"
        )

    @cached_property
    def _computing_again(self) -> frozenset[str]:
        """Modules in which the backward makes what only a forward does."""
        return frozenset(
            one.module
            for one in self._timeline.storages
            if one.module and _FORWARD_ALONE.match(one.operator) and self._phase(one) == "backward"
        )


def _elements(one: Storage) -> int | None:
    parts = one.shape.split("x")
    return prod(map(int, parts)) if one.shape and all(part.isdigit() for part in parts) else None
