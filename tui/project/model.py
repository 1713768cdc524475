"""The hand-written part of a project: what the user says about the workload, the device and the budget.

Frozen values; sizes are bytes (int).  ``None`` means "not said".  Loading and checking is in ``load``.
The field names are the keys of the TOML file, and the nesting is that of its tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class LengthSpec:
    """Sequence length of a sample in tokens; memory is measured at ``max``."""

    max: int
    min: int | None = None
    typical: int | None = None


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """What one iteration consumes: micro x accumulate x ranks samples."""

    micro: int = 1
    """Samples a rank and micro-batch."""
    accumulate: int = 1
    """Micro-batches an optimizer step."""
    length: LengthSpec | None = None
    """None: the samples have a fixed shape that the workload knows."""
    remainder: str = "drop"
    """drop | pad | keep: what happens to the last, partial batch."""
    tokens: str | None = None
    """Which entry of a batch counts tokens (those that are not -100)."""
    global_batch: int | None = None
    """Samples an optimizer step sees on all ranks, for checking: micro x accumulate x ranks; None: not said."""
    dataset: int | None = None
    """Training samples in an epoch; None: not said."""
    weight_by: str = "micro-batch"
    """micro-batch | tokens: how the losses of accumulated micro-batches are weighted.

    With tokens, each mean loss by its share of the labels that count in the iteration, so that accumulation equals
    one large batch; all micro-batches of an iteration are then made on the host before its first forward.
    """
    length_of: str = "tokens"
    """What ``length`` counts, in a word or two, such as "pixels a side"."""


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """The optimizer by its class's dotted name (``torch.optim.AdamW``) or ``module:Class``."""

    name: str = "torch.optim.AdamW"
    implementation: str = "default"
    """default | foreach | fused | loop."""
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    clip_norm: float | None = None


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """The learning-rate scheduler by its class's dotted name or ``module:Class``."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of its constructor, without the optimizer; ``schedulers`` is a list of {name, args}."""
    steps: int = 1
    """Scheduler steps an optimizer step that was not skipped."""


@dataclass(frozen=True, slots=True)
class StepSpec:
    """How an iteration is run."""

    compile: bool = False
    checkpoint: tuple[str, ...] = ()
    """Module classes whose activations are recomputed in the backward."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """The model, its data and its optimizer."""

    source: str
    """FILE.py[:NAME], a Hugging Face CONFIG.json, timm:NAME, torchvision:NAME, or a family: see schema.FAMILIES."""
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    formula: str | None = None
    """Family whose parameter formula is checked; None: the source's own if it has one; "none": no check."""
    formula_args: dict[str, Any] | None = None
    """The family's arguments where those of ``args`` are others; None: ``args``."""
    frozen: tuple[str, ...] = ()
    """Patterns (``*`` and ``?``) of the names of parameters that are not trained; each must match one."""
    batch: BatchSpec = field(default_factory=BatchSpec)
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    scheduler: SchedulerSpec | None = None
    step: StepSpec = field(default_factory=StepSpec)


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """Where each component lives and how it is divided."""

    ranks: int = 1
    """Devices that each train micro-batches of their own."""
    strategy: str = "none"
    """none | ddp | zero1 | zero2 | zero3 | fsdp2: how the ranks divide the model."""
    shard_each: tuple[str, ...] = ()
    """Classes of modules whose weights are gathered together; what belongs to none is the root's."""
    gradient_as_bucket_view: bool = False
    """Of ddp and zero1: gradients are views of the reduction buckets, not beside them."""
    reshard_after_forward: bool = True
    """Of fsdp2 and zero3: gathered weights leave after the forward and come again for the backward."""
    param_dtype: str | None = None
    """Of fsdp2: fp32 | bf16 | fp16, in which weights are gathered; None: as they are stored."""
    reduce_dtype: str | None = None
    """Of fsdp2: fp32 | bf16 | fp16, in which gradients are reduced; None: as they are made."""
    reduce_bucket: int | None = None
    """Of zero2 and zero3: elements that are reduced at once; None: not said."""
    master_weights: bool = False
    """Of zero1 to zero3 in bf16 or fp16: the library keeps fp32 weights, and the optimizer's state is fp32."""
    tensor_parallel: int = 1
    """Devices that divide every layer; ranks are counted without them, here and below."""
    pipeline_parallel: int = 1
    """Stages of devices that each hold a part of the layers."""
    expert_parallel: int = 1
    """Of the ranks, how many share out the experts of every layer."""
    weights: str = "device"
    """device | host-pinned | host | disk, here and below."""
    gradients: str = "device"
    optimizer: str = "device"
    activations: str = "device"


@dataclass(frozen=True, slots=True)
class PrecisionSpec:
    """The setting that is used, and those that are compared with it."""

    use: str = "fp32"
    """fp32 | tf32 | bf16-autocast | fp16-autocast | bf16 | fp16."""
    compare: tuple[str, ...] = ("fp32", "bf16-autocast")
    """The first one is the reference."""
    seeds: int = 3
    """Runs of the reference that give the noise floor."""
    steps: int = 100
    """Optimizer steps of each run."""


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """How much of the device this job may use."""

    job: int | None = None
    """Bytes; None: the whole device, less other processes and what the driver keeps."""
    reserve: int = 0
    """Bytes of the budget kept free on purpose."""
    reserve_for: str = ""
    """In words; "": the names of ``reserve_parts``, when there are any."""
    reserve_parts: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes by what each part of the reserve is for, such as "longest batch"; they add up to ``reserve``."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """What makes batches on the host, where the user says it."""

    workers: int | None = None
    """Processes of the data loader; 0: batches are made in the training process; None: not said."""
    prefetch: int = 2
    """Batches that each worker keeps ready."""
    pin_memory: bool = False
    """Whether batches are copied to pinned memory before they go to the device."""


@dataclass(frozen=True, slots=True)
class LedgerSpec:
    """Bytes that no formula gives and the user knows; None: not entered.

    They change nothing of what is measured: no measurement becomes stale by them.
    """

    unsharded_weights: int | None = None
    packed_metadata: int | None = None
    master_weights: int | None = None
    reduction_buckets: int | None = None
    optimizer_state: int | None = None
    buffers: int | None = None
    input_batch: int | None = None
    retained_activations: int | None = None
    step_temporaries: int | None = None
    operator_scratch: int | None = None
    library_workspaces: int | None = None
    rounding: int | None = None
    cached: int | None = None
    context: int | None = None
    driver_reserved: int | None = None
    other_processes: int | None = None
    """Held by others on the device, where that is not measured."""
    device_total: int | None = None
    """All memory of the device, where that is not read."""
    expert_parameters: int | None = None
    """Elements of all experts together, which ``placement.expert_parallel`` divides."""
    host: HostSpec = field(default_factory=HostSpec)

    @property
    def entered(self) -> dict[str, int]:
        """Bytes by the ledger's row, of every row that was entered.

        >>> LedgerSpec(cached=5, other_processes=7, device_total=9).entered
        {'cached': 5, 'others': 7, 'device_total': 9}
        """
        found = {key: getattr(self, key) for key in ENTERED_ROWS}
        found |= {"others": self.other_processes, "device_total": self.device_total}
        return {key: size for key, size in found.items() if size is not None}


ENTERED_ROWS = (
    "unsharded_weights",
    "packed_metadata",
    "master_weights",
    "reduction_buckets",
    "optimizer_state",
    "buffers",
    "input_batch",
    "retained_activations",
    "step_temporaries",
    "operator_scratch",
    "library_workspaces",
    "rounding",
    "cached",
    "context",
    "driver_reserved",
)
"""Rows of the ledger that can be entered under their own names."""


@dataclass(frozen=True, slots=True)
class QualitySpec:
    """When a run has learned enough."""

    metric: str = "validation loss"
    direction: str = "min"
    """min | max."""
    target: float | None = None
    batches: int = 8
    """Validation batches."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """The device, and what belongs to this machine alone (from NAME.local.toml)."""

    device: str = "auto"
    """auto | cpu | GPU-uuid | MIG-uuid."""
    python: str | None = None
    """Interpreter that measures; None: the one that runs peakmark."""
    launch: str | None = None
    """Argument prefix such as "srun --overlap"; split like a shell would, never run by one."""


@dataclass(frozen=True, slots=True)
class NotesSpec:
    """Free text for the report."""

    brief: str = ""
    recovery: str = ""
    handoff: str = ""


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything above the marker line."""

    workload: WorkloadSpec
    title: str = ""
    schema: int = SCHEMA
    placement: PlacementSpec = field(default_factory=PlacementSpec)
    precision: PrecisionSpec = field(default_factory=PrecisionSpec)
    budget: BudgetSpec = field(default_factory=BudgetSpec)
    ledger: LedgerSpec = field(default_factory=LedgerSpec)
    quality: QualitySpec = field(default_factory=QualitySpec)
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    notes: NotesSpec = field(default_factory=NotesSpec)
