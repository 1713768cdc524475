"""What would fit after an out-of-memory, as far as measurements of the same spec allow to say.  Pure; bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tui import units
from tui.budget import batch
from tui.budget.exhausted import Class, Numbers
from tui.budget.ledger import probe_verdict
from tui.budget.reserve import learned
from tui.project.measured import Probe
from tui.project.model import Spec

ANY_BATCH = (
    "weights",
    "unsharded_weights",
    "packed_metadata",
    "master_weights",
    "gradients",
    "reduction_buckets",
    "optimizer_state",
    "buffers",
    "library_workspaces",
)
"""Rows that a smaller batch does not make smaller."""

SURVIVED = "which it survived"
"""How ``alive_source`` ends when ``alive`` is of a peak that the traced run lived through."""
BEFORE = ("start", "context", "load", "build", "optimizer")
"""Phases in which there is no batch yet."""


@dataclass(frozen=True, slots=True)
class Known:
    """Measurements of one spec and environment at other micro-batches."""

    process: Mapping[int, int]
    """What the process took at its most, by micro-batch, where it was measured to its end."""
    fits: frozenset[int]


def known(spec: Spec, failed: Probe, probes: Iterable[Probe]) -> Known:
    """What ``probes`` say of smaller batches of the very configuration that ``failed`` ran."""
    process: dict[int, int] = {}
    fits: set[int] = set()
    for one in probes:
        if _key(one) != _key(failed) or one.micro_batch >= failed.micro_batch or one.contended:
            continue
        found = probe_verdict(spec, one)
        if one.outcome not in ("out-of-memory", "failed", "cancelled", "not-tested") and found.process_bytes:
            size = found.process_bytes
            process[one.micro_batch] = max(process.get(one.micro_batch, 0), size)
        if found.word == "FITS":
            fits.add(one.micro_batch)
    return Known(process, frozenset(fits))


def _key(one: Probe) -> tuple[object, ...]:
    return (one.spec, one.environment, one.precision, one.accumulate, one.length, one.device)


def before_any_batch(probe: Probe) -> bool:
    """Whether memory ran out before there was a batch, so that none would have fitted."""
    return probe.exhausted_phase in BEFORE


def most_by_line(spec: Spec, failed: Probe, probes: Iterable[Probe]) -> int | None:
    """The largest micro-batch that the line through measured ones lets fit; None without a line or a limit."""
    process, job = known(spec, failed, probes).process, spec.budget.job
    if len(process) < 2 or job is None:
        return None
    try:
        found = batch.largest(batch.fit(process), job - spec.budget.reserve)
    except ValueError:  # it does not grow
        return None
    return found or None


def would_fit(failed: Probe, numbers: Numbers, word: Class, others: Known, limit_bytes: int | None) -> str:
    """One sentence, without a full stop, or several joined by "; ".

    Args:
        failed: the probe that ran out; ``alive`` is what was alive then.
        numbers: what the rule was applied to.
        word: its class.
        others: smaller batches that were measured.
        limit_bytes: budget less reserve; None: unknown.
    """
    if before_any_batch(failed):
        return "no smaller batch helps: memory ran out before a batch was there"
    said: list[str] = []
    if word == "others":
        said.append("this batch, when other processes leave it the room that they hold now")
    said.append(_refused(numbers, others))
    if others.fits:
        said.append(f"micro {max(others.fits)} fits (measured)")
    if len(others.process) >= 2 and limit_bytes is not None:
        said.append(_by_line(failed.micro_batch, others, limit_bytes))
    elif not others.process:
        said += _without_points(failed, numbers)
    return "; ".join(one for one in said if one)


def _refused(numbers: Numbers, others: Known) -> str:
    """What to keep free where the driver refused what it reported as free, as under some virtualised stacks."""
    total, free, needed, room = numbers.device_total, numbers.device_free, numbers.needed, numbers.room
    if (
        numbers.place != "cuda"
        or total is None
        or free is None
        or needed is None
        or room is None
        or room < needed
    ):
        return ""
    ran = [(size + (numbers.others or 0), True) for size in others.process.values()]
    least, proven = learned(total, [(total - free + needed, False), *ran])
    if least is None:
        return ""
    text = f"keep more than {units.size(least)} of the device free ({units.percent(least / total)})"
    return text if proven is None else f"{text}; {units.size(proven)} free is proven to be enough"


def _by_line(micro: int, others: Known, limit_bytes: int) -> str:
    line = batch.fit(others.process)
    points = " and ".join(str(one) for one in line.points) if len(line.points) == 2 else _range(line.points)
    origin = f"by the line through {points} ({units.size(line.per_sample_bytes)} a sample)"
    if line.per_sample_bytes <= 0:
        return f"the line through {points} does not grow, so it says nothing of a limit"
    found = batch.largest(line, limit_bytes)
    if found >= micro:
        return f"{origin} {micro} would fit too, and it ran out: only a measurement decides above {max(line.points)}"
    if found == 0:
        return f"no batch {origin}"
    if others.fits and found <= max(others.fits):
        return ""
    return f"micro {found} {origin}: a planning aid, not proven"


def _range(points: Mapping[int, int]) -> str:
    return f"{len(points)} batches from {min(points)} to {max(points)}"


def _without_points(failed: Probe, numbers: Numbers) -> list[str]:
    """Without a smaller batch that was measured: what the moment itself allows to say, which is a bound at most."""
    alive, asked, micro = failed.alive, numbers.requested, failed.micro_batch
    if not alive or asked is None or micro < 2:
        return ["no smaller batch of this spec was measured"] if micro > 1 else []
    fixed = sum(alive.get(row, 0) for row in ANY_BATCH)
    lived = bool(failed.alive_source) and str(failed.alive_source).endswith(SURVIVED)
    grows = (
        sum(alive.values()) - fixed + (0 if lived else asked)
    )  # a peak that was lived through has it in it
    when, held = ("at the peak of that phase", "need") if lived else ("at that moment", "held and asked for")
    text = (
        f"no smaller batch of this spec was measured; {when} {micro} samples {held} "
        f"{units.size(grows)}, beside {units.size(fixed)} that no batch makes smaller"
    )
    room, free = numbers.room, numbers.free
    if numbers.place != "cuda" or room is None or free is None or lived or not grows:
        return [text]
    most = (sum(alive.values()) - fixed + free + room) * micro // grows
    if 0 < most < micro:
        text += f": that moment leaves room for micro {most} at most, a later one may need more"
    return [text]
