"""What one rank of many holds, line by line, each with its divisor and its arithmetic.

Pure integers in bytes; a line that is not known is None with the reason.  Who divides what: ZeRO stages 1, 2 and 3
divide optimizer state, gradients and weights in turn (Rajbhandari et al. 2020, arXiv:1910.02054, section 5); FSDP2 is
stage 3 by rows of each parameter; ``DistributedDataParallel`` divides nothing and keeps a second copy of the
gradients in reduction buckets.  Activations, the input batch and what libraries take are each rank's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Obtained = Literal["traced", "formula", "declared"]
"""How a line was found: a trace of the model, a formula over what was counted, divisors that the user declared."""

DIVIDED: dict[str, tuple[str, ...]] = {
    "none": (),
    "ddp": (),
    "zero1": ("master_weights", "optimizer_state"),
    "zero2": ("gradients", "master_weights", "optimizer_state"),
    "zero3": ("weights", "gradients", "master_weights", "optimizer_state"),
    "fsdp2": ("weights", "gradients", "master_weights", "optimizer_state"),
}
"""Lines that each strategy divides over its ranks."""
GATHERS = ("zero3", "fsdp2")
"""Strategies whose weights are whole only while a group of layers works."""
STATES = ("weights", "gradients", "master_weights", "optimizer_state")
DEVICE = ("weights", "unsharded_weights", *STATES[1:], "reduction_buckets")


@dataclass(frozen=True, slots=True)
class States:
    """Bytes of one whole copy of what a strategy may divide."""

    weights: int
    gradients: int
    optimizer_state: int
    master_weights: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Layers that are gathered together, in the order of the forward; bytes of whole weights, padding included."""

    sizes: tuple[int, ...]
    root: int = 0
    """What belongs to none of them and stays gathered from the forward on until it was used in the backward."""
    ahead: int = 1
    """Groups that are gathered while another one works."""

    @property
    def at_once(self) -> int:
        """The most bytes of neighbouring groups that are whole at one time, with the root's."""
        span = 1 + self.ahead
        starts = range(max(1, len(self.sizes) - span + 1))
        return self.root + max(sum(self.sizes[start : start + span]) for start in starts)

    @property
    def largest(self) -> int:
        """Bytes of the largest one."""
        return max((*self.sizes, self.root))


@dataclass(frozen=True, slots=True)
class Options:
    """What a placement says beside its strategy."""

    gradient_as_bucket_view: bool = False
    reshard_after_forward: bool = True
    reduce_bucket_bytes: int | None = None
    """Bytes that ZeRO stages 2 and 3 reduce at once; None: not said."""
    host: tuple[str, ...] = ()
    """Lines that rest in main memory: weights, gradients, optimizer_state."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1


@dataclass(frozen=True, slots=True)
class Share:
    """One line of one rank's device; exactly one of ``bytes`` and ``unknown`` is given."""

    key: str
    bytes: int | None
    divisor: int
    """Over how many devices it is divided: 1 says that more ranks do not make it smaller."""
    text: str
    obtained: Obtained = "formula"
    unknown: str = ""
    host_bytes: int = 0
    """Of it that one rank keeps in main memory."""

    @property
    def shrinks(self) -> bool:
        """Whether more devices make it smaller."""
        return self.divisor > 1 and bool(self.bytes or self.host_bytes)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The lines of one rank."""

    strategy: str
    ranks: int
    shares: tuple[Share, ...]
    variant: str = field(default="")
    """Which estimator's arithmetic it is, in a sentence."""

    def share(self, key: str) -> Share:
        """The line ``key``.

        Raises:
            KeyError: there is none.
        """
        return {one.key: one for one in self.shares}[key]

    @property
    def states_bytes(self) -> int | None:
        """Device bytes of weights, gradients, master weights and optimizer state; None: one is not known."""
        return _sum([self.share(key).bytes for key in STATES])

    @property
    def device_bytes(self) -> int | None:
        """Device bytes of all lines; None: one is not known."""
        return _sum([one.bytes for one in self.shares])

    @property
    def shrinking(self) -> tuple[str, ...]:
        """Lines that shrink with the number of devices."""
        return tuple(one.key for one in self.shares if one.shrinks and one.bytes)


VARIANTS = {
    "none": "one whole copy on every rank",
    "ddp": "one whole copy on every rank, and the gradients once more in reduction buckets",
    "zero1": "ZeRO-1 as published: optimizer state / N, weights and gradients whole",
    "zero2": "ZeRO-2 as published: gradients and optimizer state / N, weights whole",
    "zero3": "ZeRO-3 as published: everything / N, weights whole while their layers work",
    "fsdp2": "FSDP2: rows of each parameter / N, padded to the ranks, weights whole while their layers work",
}


def sheet(
    states: States,
    strategy: str,
    ranks: int,
    options: Options | None = None,
    groups: Groups | None = None,
    *,
    unknown_groups: str = "which layers are gathered together is not known",
    unknown_bucket: str = "placement.reduce_bucket does not say how much is reduced at once",
) -> Sheet:
    """The lines of the fullest rank.

    Args:
        states: bytes of the whole model; of FSDP2's uneven rows ``stored.by_rows`` tells the fullest rank's.
        strategy: a key of ``DIVIDED``.
        ranks: that divide or replicate the model, each with its own micro-batches.
        options: see ``Options``.
        groups: for ``GATHERS``; None: not known, and ``unknown_groups`` says why.
        unknown_bucket: why ``options`` does not say how much is reduced at once.

    >>> found = sheet(States(2 * 10**9, 2 * 10**9, 8 * 10**9, 4 * 10**9), "zero2", 8)
    >>> found.states_bytes, found.share("gradients").text
    (3750000000, '2,000,000,000 B / 8')
    """
    options = options or Options()
    shares: list[Share] = []
    for key in STATES:
        whole: int = getattr(states, key)
        shares.append(_state(key, whole, ranks if key in DIVIDED[strategy] else 1, options))
    shares.insert(1, _gathered(strategy, ranks, options, groups, unknown_groups))
    if "gradients" in options.host and groups is not None and strategy in GATHERS:
        shares[2] = _passing(shares[2], states, groups)
    shares.append(_buckets(strategy, ranks, states, options, groups, (unknown_groups, unknown_bucket)))
    return Sheet(strategy, ranks, tuple(shares), VARIANTS[strategy])


def divided(size: int, *divisors: int) -> int:
    """``size`` over each divisor in turn, rounded up: the fullest device's.

    >>> divided(10, 4), divided(16, 2, 4)
    (3, 2)
    """
    for divisor in divisors:
        size = -(-size // divisor)
    return size


def _state(key: str, whole: int, ranks: int, options: Options) -> Share:
    parallel = options.tensor_parallel * options.pipeline_parallel
    size = divided(whole, options.tensor_parallel, options.pipeline_parallel, ranks)
    text = f"{whole:,} B" + _over(ranks, options)
    obtained: Obtained = "declared" if parallel > 1 else "formula"
    if key in options.host or (key == "master_weights" and "optimizer_state" in options.host):
        return Share(key, 0, ranks * parallel, f"on the host: {text}", obtained, host_bytes=size)
    return Share(key, size, ranks * parallel, text, obtained)


def _over(ranks: int, options: Options) -> str:
    text = f" / {ranks}" if ranks > 1 else ""
    for divisor, what in ((options.tensor_parallel, "tensor"), (options.pipeline_parallel, "pipeline")):
        text += f" / {divisor} ({what} parallel)" if divisor > 1 else ""
    return text


def _gathered(strategy: str, ranks: int, options: Options, groups: Groups | None, unknown: str) -> Share:
    key = "unsharded_weights"
    if strategy not in GATHERS or (ranks == 1 and "weights" not in options.host):
        return Share(key, 0, 1, "weights are always whole")
    if groups is None:
        return Share(key, None, 1, "", unknown=unknown)
    if not options.reshard_after_forward:
        size = groups.root + sum(groups.sizes)
        return Share(key, size, 1, f"all groups: {size:,} B, kept from the forward on")
    text = f"{1 + groups.ahead} neighbouring groups" if groups.ahead else "the largest group"
    text += f" and the root's {groups.root:,} B" if groups.root else ""
    return Share(key, groups.at_once, 1, f"{groups.at_once:,} B: {text}")


def _passing(share: Share, states: States, groups: Groups) -> Share:
    """Gradients on the host: on the device those of the group that made them, until they left."""
    size = groups.largest * states.gradients // max(1, states.weights)
    text = f"{size:,} B: those of the largest group, until they left for the host"
    return Share(share.key, size, 1, text, share.obtained, host_bytes=share.host_bytes)


def _buckets(
    strategy: str,
    ranks: int,
    states: States,
    options: Options,
    groups: Groups | None,
    unknown: tuple[str, str],
) -> Share:
    key = "reduction_buckets"
    if ranks == 1 or strategy == "none":
        return Share(key, 0, 1, "nothing is reduced" if ranks == 1 else "none declared")
    if strategy in ("ddp", "zero1"):
        if options.gradient_as_bucket_view:
            return Share(key, 0, 1, "gradients are views of the buckets")
        size = divided(states.gradients, options.tensor_parallel, options.pipeline_parallel)
        return Share(key, size, 1, f"{states.gradients:,} B{_over(1, options)}: every gradient once more")
    if strategy == "fsdp2":
        if groups is None:
            return Share(key, None, 1, "", unknown=unknown[0])
        size = groups.largest * states.gradients // max(1, states.weights)
        return Share(key, size, 1, f"{size:,} B: gradients of the largest group, while they are reduced")
    if options.reduce_bucket_bytes is None:
        return Share(key, None, 1, "", unknown=unknown[1])
    size = options.reduce_bucket_bytes
    return Share(key, size, 1, f"{size:,} B are reduced at once")


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [one for one in sizes if one is not None]
    return sum(known) if len(known) == len(sizes) else None
