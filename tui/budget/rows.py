"""The rows of a ledger: their order, their names for people, and what each one means in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tui.probe.protocol import REQUESTED_ROWS

Kind = Literal["row", "sum"]


@dataclass(frozen=True, slots=True)
class RowName:
    """What a row is called, and what it is."""

    key: str
    label: str
    meaning: str
    other_name: str = ""
    """The name under which another tool shows the same number."""
    kind: Kind = "row"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a ledger; a column that is None has its reason in ``reasons``."""

    key: str
    label: str
    kind: Kind
    declared: int | None
    declared_as: str
    """The arithmetic of ``declared``, "" when nothing is declared."""
    predicted: int | None
    measured: int | None
    origin: str
    """Where ``measured`` was read, "" when it was not."""
    meaning: str
    other_name: str = ""
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    """Why a column is None, by column: declared, predicted, measured."""
    predicted_range: tuple[int, int] | None = None
    """At least and at most, where ``predicted`` is no single figure."""
    cause: str = ""
    """What makes ``measured`` differ from ``predicted`` by more than max(1 MiB, 1 %); "": it does not.

    One word of ``reconcile_causes.CAUSES``."""
    evidence: str = ""
    """What shows ``cause``; "": nothing does, or there is none."""
    entered: bool = False
    """Whether ``declared`` was entered by the user, and is no formula's."""

    @property
    def unknown(self) -> str:
        """The reason that matters most to a reader: of the measured column, then of the others."""
        for column in ("measured", "declared", "predicted"):
            if column in self.reasons:
                return self.reasons[column]
        return ""

    @property
    def difference(self) -> int | None:
        """Measured minus predicted, None when one of them is."""
        if self.measured is None or self.predicted is None:
            return None
        return self.measured - self.predicted

    @property
    def within(self) -> bool | None:
        """Whether ``measured`` lies in ``predicted_range``; None: one of them is not there."""
        if self.measured is None or self.predicted_range is None:
            return None
        return self.predicted_range[0] <= self.measured <= self.predicted_range[1]

    @property
    def over_declared(self) -> int | None:
        """Measured minus declared, None when one of them is."""
        if self.measured is None or self.declared is None:
            return None
        return self.measured - self.declared


_REQUESTED = {
    "weights": "the model's parameters on this device, each unique tensor once",
    "unsharded_weights": "parameters gathered from other ranks for the layers that are computing",
    "packed_metadata": "scales and indices of packed or quantised weights",
    "master_weights": "full-precision copies that the optimizer updates",
    "gradients": "one gradient for every trainable parameter",
    "reduction_buckets": "flat copies of gradients on their way between ranks",
    "optimizer_state": "what the optimizer keeps between steps; it exists from the first step on",
    "buffers": "registered tensors that are not trained, such as running means",
    "input_batch": "the samples of the micro-batch that is computed, and data that the workload's file holds",
    "retained_activations": "tensors that the forward keeps for the backward",
    "step_temporaries": "loss, logits, casts and lists of the step, gone before the iteration ends",
    "operator_scratch": "what operators allocate inside themselves",
    "library_workspaces": "scratch that cuBLAS and cuDNN keep for their calls",
    "unattributed": "bytes that the allocator counts and no label explains",
}

_SUM_REQUESTED = RowName(
    "requested", "requested", "bytes as the program asked the allocator for them", "what was asked for", "sum"
)

_RESERVE = RowName("reserve", "reserve", "bytes of the budget kept free on purpose")
_FREE = RowName("free", "free", "what nobody uses, the reserve left out")
_OTHERS = RowName("others", "other processes", "what other processes hold of the device")

CUDA = (
    RowName(
        "rounding",
        "rounding and tails",
        "requests rounded up to 512 B, and unsplit block tails",
        "512 B blocks",
    ),
    RowName(
        "tensor_allocated",
        "tensor-allocated",
        "bytes of the blocks that tensors occupy, after rounding and unsplit tails",
        "memory_allocated()",
        "sum",
    ),
    RowName(
        "cached", "cached", "blocks held by PyTorch for reuse: lost to every other process", "kept for reuse"
    ),
    RowName(
        "allocator_reserved",
        "allocator-reserved",
        "bytes that the caching allocator holds from the driver, cached included",
        "memory_reserved()",
        "sum",
    ),
    RowName("context", "context, kernels, NCCL", "what the driver and libraries hold outside the allocator"),
    RowName("process", "process", "what the device charges to this process", "nvidia-smi, this pid", "sum"),
    _OTHERS,
    RowName("driver_reserved", "driver-reserved", "what the driver keeps for itself", "nvidia-smi omits it"),
    RowName("device_used", "device used", "everything in use on the device", "nvidia-smi + driver", "sum"),
    _RESERVE,
    _FREE,
    RowName("device_total", "device total", "all memory of the device", "nvidia-smi, total", "sum"),
)
"""Rows after ``requested`` on a CUDA device, in order."""

CPU = (
    RowName(
        "tensor_allocated",
        "tensor-allocated",
        "the same as requested: the CPU allocator does not round",
        "CPU does not round",
        "sum",
    ),
    RowName("heap_kept", "Python, heap kept", "heap of Python and libraries, and freed heap that is kept"),
    RowName(
        "heap_reserved",
        "heap reserved",
        "the C library's heap of the whole process, Python and PyTorch included",
        "mallinfo2, whole heap",
        "sum",
    ),
    RowName(
        "outside_heap",
        "outside the heap",
        "resident code, stacks and files, less heap pages never touched; negative when those are more",
        "code, less untouched",
    ),
    RowName(
        "process", "process", "resident pages that the kernel charges to this process", "peak RSS", "sum"
    ),
    RowName("others", "other processes", "what the rest of the machine holds"),
    _RESERVE,
    _FREE,
    RowName("host_total", "host total", "all memory of the machine", "MemTotal", "sum"),
)
"""Rows after ``requested`` on the CPU, in order."""


def row_names(device: str) -> tuple[RowName, ...]:
    """Every row of a ledger on ``device`` (cpu | cuda), in order.

    >>> [name.key for name in row_names("cpu")][-3:]
    ['reserve', 'free', 'host_total']
    """
    requested = tuple(RowName(key, key.replace("_", " "), _REQUESTED[key]) for key in REQUESTED_ROWS)
    return (*requested, _SUM_REQUESTED, *(CPU if device == "cpu" else CUDA))


def row_name(key: str, device: str = "cuda") -> RowName:
    """The row ``key`` of a ledger on ``device``.

    Raises:
        KeyError: there is no such row.
    """
    return {name.key: name for name in row_names(device)}[key]
