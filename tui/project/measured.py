"""The measured part of a project: what was found, each figure with the id of the measurement it comes from.

Frozen values, the field names are the keys of the TOML tables.  Sizes are bytes, times as their names say.
``None`` means unknown: the key is absent in the file and its reason stands in the ``unknown`` table.
Ids sort by time: ``p-20261201T141203-a3`` (p probe, v verify, c precision comparison, r restore, s search,
f prediction).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tui.project.calibration import Calibration
from tui.project.exhaustion import Exhaustion
from tui.project.inventory import Inventory
from tui.project.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Environment:
    """What the measuring process found itself in; the id is a hash of these facts."""

    device: str
    """Marketing name of the GPU, or the CPU's model name."""
    device_id: str
    """GPU-uuid, MIG-uuid or "cpu"."""
    device_total_bytes: int | None
    torch: str
    python: str
    platform: str = ""
    glibc: str | None = None
    driver: str | None = None
    cuda: str | None = None
    capability: str | None = None
    """Compute capability "9.0", or the CPU capability "AVX2" that torch uses."""
    threads: int | None = None
    allocator: str = ""
    """Allocator settings in the environment; "" is the default."""
    container: str = ""
    cudnn_benchmark: bool | None = None
    """Whether cuDNN tries its algorithms out, which changes workspaces; None on a CPU."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Check:
    """One line of Verify."""

    group: str
    title: str
    outcome: str
    """pass | fail | note | n/a."""
    text: str


@dataclass(frozen=True, slots=True)
class Verify:
    """A small step of the real workload, and a checkpoint reloaded in a fresh process."""

    at: datetime
    spec: str
    environment: str
    outcome: str
    """verified | failed."""
    precision: str
    seconds: float
    checks: dict[str, Check] = field(default_factory=dict[str, Check])
    """In the order they were done."""
    checkpoint_bytes: int | None = None
    checkpoint_sha256: str | None = None
    checkpoint_parts: dict[str, int] = field(default_factory=dict[str, int])
    gradient_receiving: int | None = None
    journal: str = ""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """One phase's own peak.  ``rows`` add up to ``requested_bytes`` at that instant."""

    requested_bytes: int
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    process_bytes: int | None = None
    rows: dict[str, int] = field(default_factory=dict[str, int])
    """Keys of protocol.REQUESTED_ROWS; a row that is absent is exactly 0."""
    operator: str = ""
    """Operator that made the allocation which set the peak."""
    module: str = ""
    micro_batch: int | None = None
    end_requested_bytes: int | None = None
    """What was left at the phase's end; so for the three below."""
    end_allocated_bytes: int | None = None
    end_reserved_bytes: int | None = None
    end_process_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RankPeak:
    """The worst phase of one rank; ``rows`` as in ``PhasePeak``."""

    phase: str
    requested_bytes: int
    rows: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading around the ledger, taken at the worst phase or at the end of the measurement."""

    bytes: int | None
    source: str
    meaning: str
    phase: str = ""
    unknown: str = ""
    at_s: float | None = None
    """Seconds from the start of the measuring process to the reading; None: read around it."""


@dataclass(frozen=True, slots=True)
class Probe(Exhaustion):
    """Full iterations at one batch: times from an untraced run, memory from a traced run of its own."""

    at: datetime
    spec: str
    environment: str
    precision: str
    micro_batch: int
    accumulate: int
    outcome: str
    """fits | fits-without-reserve | does-not-fit | out-of-memory | failed | cancelled | not-tested | unknown."""
    length: int | None = None
    device: str = "cpu"
    """cpu | cuda: how ``readings`` are to be read."""
    worst_phase: str | None = None
    iterations: int = 0
    """Timed ones."""
    warmup: int = 0
    first_ms: float | None = None
    step_ms_median: float | None = None
    step_ms_mean: float | None = None
    step_ms_p90: float | None = None
    samples_per_s: float | None = None
    samples_per_s_low: float | None = None
    samples_per_s_high: float | None = None
    tokens_per_s: float | None = None
    compile_ms: float | None = None
    """Time that torch's compiler took before the timed iterations; in ``first_ms`` and in no other figure."""
    compile_count: int | None = None
    """How often it was called for that."""
    compiled_again: int = 0
    """How often it was called in the timed iterations, which their times then include."""
    loader_ms_median: float | None = None
    """Making the batches of an iteration, which ``step_ms`` leaves out."""
    cpus_allowed: int | None = None
    """Processors that the run may use at once, by affinity and quota."""
    drift_ratio: float | None = None
    """Median of the last third of the timed iterations over that of the first, less 1."""
    slow_every: int | None = None
    """Every how many iterations one was slow; None: no such period."""
    slow_part: str = ""
    """What of it was: step | loader, the making of its batches."""
    throttled: bool | None = None
    """Whether the device held its clocks back for heat or power while it was timed."""
    throttle: str = ""
    """Why it did, and in how many of the looks."""
    clocks: str | None = None
    """Clocks, temperature and power while it was timed: ``SM 1,980 to 1,755 MHz``, first to last."""
    clock_ratio: float | None = None
    """Median SM clock of the last third of the looks over that of the first, less 1."""
    loss_first: float | None = None
    loss_last: float | None = None
    step_ms: tuple[float, ...] = ()
    """At most 64 timed iterations, evenly taken, for the trace on the screen."""
    allocated_trace: tuple[int, ...] = ()
    """Tensor-allocated bytes after forward, backward and step of those iterations (3 an iteration)."""
    allocated_source: str = ""
    phases: dict[str, PhasePeak] = field(default_factory=dict[str, PhasePeak])
    ranks: dict[str, RankPeak] = field(default_factory=dict[str, RankPeak])
    """By the number of each, where several ranks were traced; all other figures are those of rank 0."""
    readings: dict[str, Reading] = field(default_factory=dict[str, Reading])
    """requested, tensor_allocated, allocator_reserved (cuda) or heap_reserved (cpu), inactive_split, process,
    process_nvml, device_used, others, others_after, host_rss, pinned, ..."""
    budget_bytes: int | None = None
    reserve_bytes: int = 0
    contended: bool = False
    nice: int = 10
    others_cpu_ratio: float | None = None
    """Share of the machine's CPU time that other processes took while it was timed."""
    limit_bytes: int | None = None
    """What the child was held to, when it was."""
    tracking_bytes: int | None = None
    """How much the tracked iteration's peak differs from the untracked one that is reported."""
    journal: str = ""
    timeline: str = ""
    """``runs/<id of the traced child>.timeline.json``, see ``project.timeline``; "": none, see ``unknown``."""
    failure: str = ""
    """The sentence, when it did not end well."""
    alive: dict[str, int] = field(default_factory=dict[str, int])
    """After an out-of-memory: rows that were alive."""
    asked_bytes: int | None = None
    failed_phase: str = ""
    """The phase in which it ended, when it did not end well: validate is no failure of training."""
    observed_batch: int | None = None
    """Samples that the model's first forwards really got, of one micro-batch."""
    batch_bytes: int | None = None
    """Tensors of one micro-batch, as they come from the host."""
    validation_batch: int | None = None
    """Samples of a validation batch where they are not ``micro_batch``."""
    soak: bool = False
    """Whether it was the longer confirmation of a search."""
    soaked: int = 0
    """Timed iterations of that confirmation, when it ran to its end, validation included."""
    tasks: tuple[str, ...] = ()
    """The children that it was measured with, in order: traced, timed."""
    seconds: float | None = None
    """Wall time of its children together."""
    training_process_bytes: int | None = None
    """The process at its most before validation began, in the run that decided."""
    start_bytes: int | None = None
    """Requested bytes alive before the first iteration: the same for every batch, or they cannot be compared."""
    growth_bytes: int | None = None
    """Requested bytes that the steady iteration left over; 0: none, as it should be."""
    growth_of: dict[str, int] = field(default_factory=dict[str, int])
    """What they are, such as "mse_loss in head", the largest first."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the largest micro-batch that fits budget less reserve; what it measured are probes."""

    at: datetime
    spec: str
    environment: str
    """"" as long as nothing was measured."""
    precision: str
    length: int | None = None
    accumulate: int = 1
    multiple_of: int = 1
    upper: int | None = None
    """The largest micro-batch that might be tried; None: no bound but memory."""
    upper_from: str = ""
    """Who set that bound, such as --upper or the host's memory."""
    budget_bytes: int | None = None
    reserve_bytes: int = 0
    candidates: dict[str, str] = field(default_factory=dict[str, str])
    """Micro-batch to the id of the probe that decided it, the last one of each."""
    probes: tuple[str, ...] = ()
    """All of its probes, in the order they were measured."""
    reused: tuple[str, ...] = ()
    """Those of the probes that an interrupted search had left."""
    largest: int | None = None
    largest_probe: str | None = None
    """The soak of ``largest`` when it was soaked (its ``soaked`` says how long), else what found that it fits."""
    failed_at: int | None = None
    """The smallest multiple above ``largest`` that was tried and failed."""
    failed_probe: str | None = None
    validation_batch: int | None = None
    """Largest validation batch that ran beside ``largest``, when validation at ``largest`` itself failed."""
    fastest: int | None = None
    fastest_probe: str | None = None
    outcome: str = "interrupted"
    """done | interrupted | failed."""
    why: str = ""
    """What stopped it, or what bounds the answer other than memory."""
    quick: bool = False
    """Fewer iterations than a search has by itself."""
    seconds: float = 0.0
    """Wall time of all its parts."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Setting:
    """One precision setting under the same weights, batches and order."""

    effective: str
    """What was seen inside, such as "bf16 linears, fp32 weights, TF32 off"."""
    outcome: str
    """done | failed | unsupported."""
    losses: tuple[float, ...] = ()
    """At most 48 training losses, evenly taken, first and last included."""
    final_loss: float | None = None
    """Mean training loss of the last tenth of the steps."""
    distance: float | None = None
    """final_loss minus the reference's."""
    validation_loss: float | None = None
    validation_distance: float | None = None
    gradient_error: float | None = None
    """First step's gradients: norm of the difference over the norm of the reference."""
    gradient_cosine: float | None = None
    gradient_worst: str = ""
    """Module with the largest relative error, and that error."""
    nonfinite: int = 0
    skipped: int = 0
    """Optimizer steps skipped by the scaler."""
    requested_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    process_bytes: int | None = None
    step_ms_median: float | None = None
    samples_per_s: float | None = None
    samples_per_s_low: float | None = None
    samples_per_s_high: float | None = None
    quality_met: bool | None = None
    verdict: str = ""
    """reference | usable | unusable."""
    gain: tuple[str, ...] = ()
    """Of "memory" and "speed"; empty: no gain here."""
    why: str = ""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Precision:
    """A comparison of settings."""

    at: datetime
    spec: str
    environment: str
    reference: str
    steps: int
    seeds: int
    micro_batch: int
    outcome: str
    """done | failed | cancelled."""
    noise_floor: float | None = None
    """Largest difference of validation loss between seeds of the reference."""
    noise_floor_training: float | None = None
    settings: dict[str, Setting] = field(default_factory=dict[str, Setting])
    loader_samples_per_s: float | None = None
    compute_samples_per_s: float | None = None
    together_samples_per_s: float | None = None
    stall_ratio: float | None = None
    gradient_limit: float = 0.05
    journal: str = ""
    failure: str = ""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Restore:
    """A run that was saved, killed and resumed in a new process, compared with an uninterrupted one."""

    at: datetime
    spec: str
    environment: str
    outcome: str
    """restores | failed."""
    saved_after: int
    killed_in: int
    iterations: int
    checks: dict[str, Check] = field(default_factory=dict[str, Check])
    checkpoint_bytes: int | None = None
    checkpoint_sha256: str | None = None
    recovery_s: float | None = None
    restore_peak_bytes: int | None = None
    """Peak while it restored and went on."""
    restore_peak_of: str = "requested"
    """What that peak is of: requested bytes where the allocator keeps them, else the process."""
    journal: str = ""
    unknown: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Operating:
    """The validated operating configuration: only ids of measurements that passed, and when it was accepted."""

    probe: str
    verify: str
    spec: str
    environment: str
    accepted_at: datetime
    micro_batch_tested: tuple[int, ...] = ()
    precision: str | None = None
    restore: str | None = None
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything below the marker line; tables keyed by id, in the order of the file."""

    inventory: Inventory | None = None
    environment: dict[str, Environment] = field(default_factory=dict[str, Environment])
    verify: dict[str, Verify] = field(default_factory=dict[str, Verify])
    probe: dict[str, Probe] = field(default_factory=dict[str, Probe])
    precision: dict[str, Precision] = field(default_factory=dict[str, Precision])
    restore: dict[str, Restore] = field(default_factory=dict[str, Restore])
    search: dict[str, Search] = field(default_factory=dict[str, Search])
    prediction: dict[str, Prediction] = field(default_factory=dict[str, Prediction])
    calibration: dict[str, Calibration] = field(default_factory=dict[str, Calibration])
    """By the id of the environment that it is of."""
    operating: dict[str, Operating] = field(default_factory=dict[str, Operating])
