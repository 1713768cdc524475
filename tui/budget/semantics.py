"""What an optimizer step and an epoch consume, from the spec alone: samples, tokens, steps, remainder, scheduler.

Exact integers; ``None`` where the spec does not say what is needed.  Lengths are those of one sample; a step's are
those of all its samples together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tui.project.model import BatchSpec, LengthSpec, Spec

TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Minimum, typical and maximum of something, in elements; None: not said."""

    minimum: int | None
    typical: int | None
    maximum: int

    def times(self, samples: int) -> Lengths:
        """Those of ``samples`` samples together."""
        return Lengths(
            None if self.minimum is None else self.minimum * samples,
            None if self.typical is None else self.typical * samples,
            self.maximum * samples,
        )


@dataclass(frozen=True, slots=True)
class Dealt:
    """How the last step's samples lie on some of the ranks."""

    ranks: int
    """Ranks with these micro-batches."""
    micro_batches: tuple[int, ...]
    """Samples of each micro-batch; () is a rank without any sample."""

    @property
    def samples(self) -> int:
        """Samples of one of these ranks."""
        return sum(self.micro_batches)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data set, where every step but the last takes the same samples."""

    dataset: int
    steps: int
    """Optimizer steps."""
    left: int
    """Samples beyond the whole steps."""
    dropped: int
    """Samples that an epoch never sees."""
    padded: int
    """Samples that fill the last step up, made or repeated."""
    last: tuple[Dealt, ...]
    """The last step where it is smaller than the others; () where it is not."""
    largest_micro: int
    """Samples of the largest micro-batch of the epoch, whose memory is the peak."""
    scheduler_steps: int | None
    """None: the spec names no scheduler."""

    @property
    def empty_ranks(self) -> int:
        """Ranks that the last step leaves without a sample."""
        return sum(one.ranks for one in self.last if not one.micro_batches)


@dataclass(frozen=True, slots=True)
class Semantics:
    """What the spec's batch means."""

    micro: int
    accumulate: int
    ranks: int
    samples: int
    """Samples of an optimizer step on all ranks: micro x accumulate x ranks."""
    length: Lengths | None
    """Of one sample, in units of ``length_of``; None: a fixed shape that the workload knows."""
    length_of: str
    tokens: Lengths | None
    """Tokens of an optimizer step on all ranks, padding and labels that do not count among them."""
    weight_by: str
    """micro-batch | tokens."""
    remainder: str
    """drop | pad | keep."""
    scheduler_steps: int | None
    """Scheduler steps after an optimizer step; None: the spec names no scheduler."""
    epoch: Epoch | None
    """None: the spec does not say how many samples an epoch has."""


def of(spec: Spec) -> Semantics:
    """The semantics of ``spec``, whose batch is that of [workload.batch]."""
    batch, ranks = spec.workload.batch, spec.placement.ranks
    samples = batch.micro * batch.accumulate * ranks
    length = None if batch.length is None else _lengths(batch.length)
    scheduler = spec.workload.scheduler
    steps = None if scheduler is None else scheduler.steps
    counts_tokens = length is not None and batch.length_of.strip().lower() == TOKENS
    return Semantics(
        micro=batch.micro,
        accumulate=batch.accumulate,
        ranks=ranks,
        samples=samples,
        length=length,
        length_of=batch.length_of,
        tokens=length.times(samples) if length is not None and counts_tokens else None,
        weight_by=batch.weight_by,
        remainder=batch.remainder,
        scheduler_steps=steps,
        epoch=None if batch.dataset is None else epoch(batch, batch.dataset, ranks, steps),
    )


def epoch(batch: BatchSpec, dataset: int, ranks: int = 1, scheduler_steps: int | None = None) -> Epoch:
    """One pass over ``dataset`` samples.

    Args:
        batch: its micro, accumulate and remainder.
        dataset: samples, 1 or more.
        ranks: data-parallel ones, each with micro-batches of its own.
        scheduler_steps: after each optimizer step; None without a scheduler.

    >>> found = epoch(BatchSpec(micro=8, accumulate=4, remainder="keep"), 84)
    >>> found.steps, found.left, found.last
    (3, 20, (Dealt(ranks=1, micro_batches=(8, 8, 4)),))
    """
    samples = batch.micro * batch.accumulate * ranks
    whole, left = divmod(dataset, samples)
    kept = bool(left) and batch.remainder != "drop"
    steps = whole + kept
    last = deal(left, batch.micro, ranks) if left and batch.remainder == "keep" else ()
    sizes = [size for one in last for size in one.micro_batches] if not whole and last else [batch.micro]
    return Epoch(
        dataset=dataset,
        steps=steps,
        left=left,
        dropped=left if batch.remainder == "drop" else 0,
        padded=samples - left if left and batch.remainder == "pad" else 0,
        last=last,
        largest_micro=max(sizes) if steps else 0,
        scheduler_steps=None if scheduler_steps is None else steps * scheduler_steps,
    )


def deal(samples: int, micro: int, ranks: int) -> tuple[Dealt, ...]:
    """``samples`` on ``ranks`` ranks, at most one apart, in micro-batches of ``micro`` and what is left of it.

    >>> deal(20, 8, 3)
    (Dealt(ranks=2, micro_batches=(7,)), Dealt(ranks=1, micro_batches=(6,)))
    """
    least, more = divmod(samples, ranks)
    groups = ((more, least + 1), (ranks - more, least))
    return tuple(Dealt(count, _cut(size, micro)) for count, size in groups if count)


def _cut(samples: int, micro: int) -> tuple[int, ...]:
    return tuple(min(micro, samples - place * micro) for place in range(ceil(samples / micro)))


def _lengths(length: LengthSpec) -> Lengths:
    return Lengths(length.min, length.typical, length.max)
