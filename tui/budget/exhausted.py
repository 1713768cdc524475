"""Why an allocation failed, by a stated rule over the figures at that moment.

Pure; bytes.  In order, the first that holds:

1. **host**: host memory ran out: on the CPU without an entered budget, or with less left in the machine than was
   asked for; on a GPU when it was host memory that was asked for.
2. **limit** (CPU): the process was held to the budget, and the machine had more.
3. *unknown*: the size asked for, or what the device and the cache had left, is not known.
4. *unknown*: the device and the cap had room for a new segment, and the driver refused it all the same.
5. *unknown*: a free block of the cache is large enough, and was not used (another stream's, a private pool's).
6. **fragmentation**: the free blocks and what the device and the cap still gave come to at least what was asked
   for, but neither the largest free block nor that room alone: packed without gaps it would have fitted.
7. **limit**: the device had room for it, the cap had not.
8. **others**: with what other processes hold the device would have had room, and the cap had.
9. **capacity**: it is more than the whole device leaves.

Source of 4 to 6: the order in which the CUDA caching allocator tries a free block, a new segment, and a new segment
again after every wholly free one went back to the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui import units

Class = Literal["capacity", "fragmentation", "others", "limit", "host", "unknown"]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known of the moment at which an allocation failed; None: not known."""

    requested: int | None
    """Bytes that the failed allocation asked for."""
    device_free: int | None = None
    """What the driver had left; on the CPU, what the kernel could still give."""
    reserved: int | None = None
    """What the caching allocator held from the driver."""
    allocated: int | None = None
    largest_free: int | None = None
    """The largest free block of the cache that the request might have used; 0: none."""
    free_sum: int | None = None
    """All free blocks of the cache."""
    cap: int | None = None
    """What the process was held to by its budget; None: nothing but the device itself."""
    others: int | None = None
    """Held by other processes."""
    device_total: int | None = None
    segment: int | None = None
    """What the driver was asked for, where it is more than ``requested``."""
    place: Literal["cuda", "cpu", "host"] = "cuda"
    """Which memory ran out: the GPU's, the CPU's, or the host's while a GPU was measured."""
    baseline: int | None = None
    """CPU: what Python and torch held before the workload was built."""
    inside: bool = False
    """CPU: an import or a call inside Python or torch failed for want of memory, not an allocation of a tensor."""

    @property
    def needed(self) -> int | None:
        """What the driver was asked for."""
        return self.requested if self.segment is None else self.segment

    @property
    def cap_left(self) -> int | None:
        """How far the cache might still have grown under the cap."""
        return None if self.cap is None or self.reserved is None else max(0, self.cap - self.reserved)

    @property
    def room(self) -> int | None:
        """What device and cap still gave together: the tighter one; None when the device's is not known."""
        left = [one for one in (self.device_free, self.cap_left) if one is not None]
        return None if self.device_free is None and not self._cap_binds else min(left)

    @property
    def _cap_binds(self) -> bool:
        return self.cap_left is not None and self.needed is not None and self.cap_left < self.needed

    @property
    def free(self) -> int | None:
        """All free blocks: as counted, else reserved less allocated."""
        if self.free_sum is not None or self.reserved is None or self.allocated is None:
            return self.free_sum
        return self.reserved - self.allocated

    @property
    def unexplained(self) -> int | None:
        """Device used beyond this process's cache: contexts and other processes."""
        if self.device_total is None or self.device_free is None or self.reserved is None:
            return None
        return self.device_total - self.device_free - self.reserved


@dataclass(frozen=True, slots=True)
class Finding:
    """``word`` by the rule, and the figures that it follows from as a sentence without a full stop."""

    word: Class
    why: str


def classify(numbers: Numbers) -> Finding:
    """The class of a failed allocation; see the module for the rule.

    >>> gib = 2**30
    >>> classify(Numbers(4 * gib, gib // 5, 11 * gib, 2 * gib, 3 * gib // 2, 9 * gib)).word
    'fragmentation'
    """
    if numbers.place != "cuda":
        return _on_the_host(numbers)
    asked, needed = numbers.requested, numbers.needed
    if asked is None or needed is None:
        return Finding("unknown", "the error does not say how much was asked for")
    if numbers.room is None:
        return Finding("unknown", "what the device had left is not known")
    if numbers.room >= needed:
        return Finding("unknown", _refused(numbers, numbers.room))
    if numbers.largest_free is not None and numbers.largest_free >= asked:
        block = f"a free block of {units.size(numbers.largest_free)} is large enough and was not used"
        return Finding("unknown", f"{block}: it is another stream's or a private pool's")
    if numbers.free is not None and numbers.room < asked <= numbers.free + numbers.room:
        return _packed(numbers, asked, numbers.free, numbers.room)
    return _short(numbers, asked, needed)


def _on_the_host(numbers: Numbers) -> Finding:
    asked = _asked(numbers)
    if numbers.place == "host":
        return Finding("host", f"{asked} was asked of this machine's own memory, not of the device")
    left = numbers.device_free
    if numbers.cap is None:
        had = "" if left is None else f", which could still give {units.size(left)}"
        return Finding("host", f"{asked} was asked of this machine{had}; no budget held it back")
    if left is not None and numbers.requested is not None and left < numbers.requested:
        return Finding(
            "host", f"{asked} was asked of this machine, which could still give {units.size(left)}"
        )
    held = f"it was held to {units.size(numbers.cap)}"
    if numbers.baseline is not None and numbers.baseline >= numbers.cap:
        base = units.size(numbers.baseline)
        return Finding(
            "limit", f"{held}, and Python and torch themselves take {base} before the workload is built"
        )
    if numbers.inside:
        why = f"{held}, and an import or a call inside Python or torch failed: it is too small for them themselves"
        return Finding("limit", why)
    more = "" if left is None else f"; the machine could still give {units.size(left)}"
    return Finding("limit", f"{asked} was asked for, and {held}{more}")


def _asked(numbers: Numbers) -> str:
    return (
        "an amount that the error does not say"
        if numbers.requested is None
        else units.size(numbers.requested)
    )


def _refused(numbers: Numbers, room: int) -> str:
    text = f"the driver refused {units.size(numbers.needed)} with {units.size(room)} free"
    if numbers.unexplained is not None:
        text += f"; {units.size(numbers.unexplained)} of the device is other processes or contexts"
    free = numbers.free
    if free is not None:
        text += f"; of the cache only {units.size(free)} was free, so fragmentation is not the cause"
    return text


def _packed(numbers: Numbers, asked: int, free: int, room: int) -> Finding:
    total = f"{units.size(free)} of the cache is free" + (
        f" and {units.size(room)} beside it" if room else ""
    )
    if numbers.largest_free is None:
        why = f"{total}, the largest free block is not known: fragmentation, or blocks of another stream"
        return Finding("unknown", why)
    largest = f"the largest free block is {units.size(numbers.largest_free)}"
    return Finding("fragmentation", f"{total}, enough for {units.size(asked)}, but {largest}")


def _short(numbers: Numbers, asked: int, needed: int) -> Finding:
    free, cap_left = numbers.device_free, numbers.cap_left
    cached = f", with {units.size(numbers.free)} free in the cache" if numbers.free else ""
    wanted = (
        units.size(asked) if needed <= asked else f"{units.size(asked)}, a segment of {units.size(needed)}"
    )
    if cap_left is not None and cap_left < needed and (free is None or free >= needed):
        has = "" if free is None else f"; the device itself has {units.size(free)} free"
        why = f"the cap of {units.size(numbers.cap)} leaves {units.size(cap_left)} for {wanted}"
        return Finding("limit", f"{why}{cached}{has}")
    left = f"the device has {units.size(free)} left for {wanted}{cached}"
    within = cap_left is None or cap_left >= needed
    if within and free is not None and numbers.others and free + numbers.others >= needed:
        return Finding("others", f"{left}; other processes hold {units.size(numbers.others)} of it")
    others = f"; other processes hold {units.size(numbers.others)}" if numbers.others else ""
    return Finding("capacity", f"{left}{others}")
