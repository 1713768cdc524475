"""What the measuring child and the rest of peakmark say to each other.

The child appends one JSON object a line to a journal file; every object has ``v`` (protocol version), ``t``
(wall clock, ns since 1970) and ``event``, the name of a dataclass below, whose fields are the other keys.
Both ends validate: an event with a missing or mistyped field is a ``ProtocolError``, unknown keys are ignored.
Bytes are exact integers, times milliseconds or nanoseconds as the name says, unknown is ``None``.

Standard library only, Python 3.9 syntax.
"""

import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Type

from .codec import ProtocolError, finite, from_table

VERSION = 1

PHASES = (
    "start",
    "context",
    "build",
    "optimizer",
    "compile",
    "first.forward",
    "first.backward",
    "first.step",
    "warmup",
    "forward",
    "backward",
    "step",
    "validate",
    "save",
    "restore",
)
"""One enumeration of phases, used by the child, the project file, the screens and the report, in this order."""

REQUESTED_ROWS = (
    "weights",
    "unsharded_weights",
    "packed_metadata",
    "master_weights",
    "gradients",
    "reduction_buckets",
    "optimizer_state",
    "buffers",
    "input_batch",
    "retained_activations",
    "step_temporaries",
    "operator_scratch",
    "library_workspaces",
    "unattributed",
)
"""Ledger rows that add up to ``requested`` at one instant; every byte is in exactly one."""

SETTINGS = ("fp32", "tf32", "bf16-autocast", "fp16-autocast", "bf16", "fp16")
"""Precision settings that a child can apply."""

TASKS = ("inventory", "predict", "verify", "reload", "timed", "traced", "train", "resume")
"""What one child process can be asked to do."""


@dataclass
class Started:
    """First event of a child: who measures, with what."""

    task: str
    pid: int
    sid: int
    python: str
    torch: str
    nice: int
    threads: int


@dataclass
class EnvironmentSeen:
    """Versions and device as seen from inside; keys are those of ``measured.environment``."""

    facts: Dict[str, Any]
    unknown: Dict[str, str] = field(default_factory=dict)


@dataclass
class PhaseEntered:
    """The child is now in ``phase`` (one of PHASES) of iteration ``iteration`` (0 is the first)."""

    phase: str
    iteration: Optional[int] = None
    micro: Optional[int] = None


@dataclass
class IterationDone:
    """A complete iteration: zero_grad, every micro-batch's forward, loss and backward, optimizer step.

    ``kind`` is first, warmup, timed or traced. ``ms`` is None where tracing makes it meaningless.
    ``allocated`` are tensor-allocated bytes after forward, backward and step of the last micro-batch, with
    ``allocated_source`` saying where they were read.
    """

    index: int
    kind: str
    ms: Optional[float]
    loss: Optional[float]
    samples: int
    completed: bool = True
    allocated: Optional[List[int]] = None
    allocated_source: str = ""
    tokens: Optional[int] = None


@dataclass
class ReadingTaken:
    """One reading of bytes, with what it means and where it was read.

    ``name``: requested, tensor_allocated, allocator_reserved, process, device_used, device_total, others,
    heap_in_use, heap_reserved, driver_reserved, host_total, outside_allocator, inactive_split, host_rss, pinned;
    of what the placement keeps on the host host_weights, host_gradients, host_optimizer, host_activations.
    ``bytes`` is the phase's peak where the source keeps one, None when it cannot be read, and ``unknown`` says why.
    ``end`` is the same at the phase's end, ``at_s`` seconds since the child started.
    """

    name: str
    phase: str
    bytes: Optional[int]
    source: str
    meaning: str
    unknown: str = ""
    end: Optional[int] = None
    at_s: Optional[float] = None


@dataclass
class CheckDone:
    """One line of Verify: ``outcome`` is pass, fail, note or n/a; ``text`` is the evidence or the reason."""

    key: str
    group: str
    title: str
    outcome: str
    text: str


@dataclass
class Progress:
    """How far a task is; ``done`` of ``total`` in units of ``what``; for people, never for arithmetic."""

    done: int
    total: int
    what: str


@dataclass
class ResultReady:
    """The outcome of a task as a table; ``kind`` names it and says which keys ``table`` has.

    inventory: the fields of project.measured.Inventory.
    timed: step_ms (list), loader_ms (list), losses, samples_per_iteration, tokens_per_iteration, first_ms, warmup.
    traced: phases {phase: {requested_bytes, rows, operator, module, ...}} and what else ``peaks.table`` lists.
    predicted: one point of a prediction, see predict/points.py; predicted_largest: the same.
    checkpoint: path, sha256, bytes, parts {name: bytes}, seconds.
    fingerprint: losses (hex floats), parameters (sha256).
    train: see tasks/train.py.
    """

    kind: str
    table: Dict[str, Any]


@dataclass
class Failed:
    """The task ended without its result.

    ``kind``: workload (the user's code or the spec is wrong, exit 2), unsupported (4), environment (4),
    prediction (it cannot be predicted, 4), out-of-memory (a result, exit 1), nonfinite (exit 1), checkpoint
    (exit 1), internal (4).
    ``sentence`` is what is shown, ``where`` is file:line when known, ``hint`` how to mend it.
    ``details`` may hold exact bytes (asked_bytes, allocated_bytes, limit_bytes, alive {row: bytes}); of an
    out-of-memory what ``device.exhaustion.Watch.read`` and ``exhausted.conclude`` list.
    """

    kind: str
    sentence: str
    where: str = ""
    hint: str = ""
    phase: str = ""
    details: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Finished:
    """Last event of a child that did what it was asked."""

    outcome: str = "done"


# --- events of a runner's own journal (runs/<run id>.jsonl), same line format -----------------------------------


@dataclass
class RunStarted:
    """A runner took the device and begins; ``steps`` in order."""

    run: str
    pid: int
    project: str
    steps: List[str]
    device: str


@dataclass
class StepStarted:
    """A step of the run begins; ``step`` is params, verify, probe, precision, restore or report."""

    step: str
    text: str = ""
    expected_s: Optional[float] = None


@dataclass
class Planned:
    """What a sweep or a search is about to do, told before its first measurement and when the plan changes."""

    text: str
    expected_s: Optional[float] = None


@dataclass
class MeasurementStarted:
    """A child was started; its events are in ``journal``."""

    id: str
    step: str
    task: str
    title: str
    journal: str


@dataclass
class MeasurementEnded:
    """A child ended: done, failed, out-of-memory, cancelled or crashed; ``text`` is the sentence, if any."""

    id: str
    outcome: str
    text: str = ""


@dataclass
class StepEnded:
    """A step ended; ``result`` is the id under ``[measured]`` when something was saved."""

    step: str
    outcome: str
    code: int
    text: str = ""
    result: str = ""


@dataclass
class RunEnded:
    """The runner ends with ``code``; nothing follows."""

    code: int
    text: str = ""


EVENTS: Dict[str, Type[Any]] = {
    cls.__name__: cls
    for cls in (
        Started,
        EnvironmentSeen,
        PhaseEntered,
        IterationDone,
        ReadingTaken,
        CheckDone,
        Progress,
        ResultReady,
        Failed,
        Finished,
        RunStarted,
        StepStarted,
        Planned,
        MeasurementStarted,
        MeasurementEnded,
        StepEnded,
        RunEnded,
    )
}


def rank_journal(journal: str, rank: int) -> str:
    """Where a rank's events go, beside those of rank 0, which stand for the measurement.

    >>> rank_journal("runs/m-1.jsonl", 0), rank_journal("runs/m-1.jsonl", 1)
    ('runs/m-1.jsonl', 'runs/m-1.rank1.jsonl')
    """
    return "%s.rank%d.jsonl" % (journal[: -len(".jsonl")], rank) if rank else journal


def encode(event: Any, wall_ns: Optional[int] = None) -> bytes:
    """One journal line, newline included.  NaN and infinity become null: JSON has neither."""
    table = {"v": VERSION, "t": time.time_ns() if wall_ns is None else wall_ns, "event": type(event).__name__}
    table.update(dataclasses.asdict(event))
    try:
        text = json.dumps(table, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(finite(table), separators=(",", ":"), allow_nan=False, default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def decode(line: bytes) -> Any:
    """The event in a journal line.

    Raises:
        ProtocolError: not JSON, another version, an unknown event, a missing or mistyped field.
    """
    try:
        table = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("journal line is not JSON: %s" % error) from None
    if not isinstance(table, dict) or table.get("v") != VERSION:
        raise ProtocolError("journal line is not of protocol version %d" % VERSION)
    cls = EVENTS.get(str(table.get("event")))
    if cls is None:
        raise ProtocolError("unknown event %r" % (table.get("event"),))
    return from_table(cls, table)


@dataclass
class Plan:
    """Everything a child needs, written beside its journal as ``<id>.plan.json``.

    ``workload`` is {"source", "args", "frozen" (patterns of names)}; relative paths in it start from ``folder``.
    ``batch`` is {"micro", "accumulate", "length" (None or int), "tokens" (None or entry name), "remainder",
    "weight_by" ("micro-batch" or "tokens")}.
    ``optimizer`` is {"name", "implementation", "args", "clip_norm"}; ``step`` is {"compile", "checkpoint"}.
    ``quality`` is {"metric", "direction", "target", "batches"}.
    ``extra`` holds "scheduler" (None or {"name", "args", "steps"}) and what one task needs alone (checkpoint path,
    gradient reference, ...); inventory: "placement" {"ranks", "strategy"}, "backward" (one real backward if the
    model is small); timed: "validation_batches" and "validation_micro" (1 of the micro-batch's size where absent).
    Under a limit on a GPU it holds "free_bytes", what the GPU had left just before.  Where something is kept on the
    host, every task but inventory has "placement" {"weights" (gradients and optimizer state with them) and
    "activations": "device", "host" or "host-pinned"; "shard_each": names of classes}.  traced and timed of several
    ranks: "ranks", see ``ranks_here``.
    """

    id: str
    task: str
    journal: str
    workload: Dict[str, Any]
    batch: Dict[str, Any]
    optimizer: Dict[str, Any]
    step: Dict[str, Any]
    quality: Dict[str, Any]
    precision: str = "fp32"
    device: str = "cpu"
    seed: int = 0
    iterations: int = 20
    warmup: int = 3
    limit_bytes: Optional[int] = None
    nice: int = 10
    parent: int = 0
    folder: str = ""
    extra: Dict[str, Any] = field(default_factory=dict)

    def dump(self) -> str:
        """The plan as JSON text."""
        return json.dumps({"v": VERSION, **dataclasses.asdict(self)}, indent=1)

    @staticmethod
    def load(text: str) -> "Plan":
        """The plan in ``text``.

        Raises:
            ProtocolError: not a plan of this version, or an unknown task.
        """
        try:
            table = json.loads(text)
        except ValueError as error:
            raise ProtocolError("plan is not JSON: %s" % error) from None
        if not isinstance(table, dict) or table.get("v") != VERSION:
            raise ProtocolError("plan is not of protocol version %d" % VERSION)
        plan = from_table(Plan, table)
        if plan.task not in TASKS:
            raise ProtocolError("unknown task %r" % plan.task)
        return plan
