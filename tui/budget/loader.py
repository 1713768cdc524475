"""Making batches beside training on them: who waits for whom, and how many workers that takes.

Times are seconds.  Workers are taken to scale perfectly, which disks and memory do not: real ones need more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

ASSUMED = "if workers scale perfectly"


@dataclass(frozen=True, slots=True)
class Loading:
    """A step and the workers that make its batches while the step before it runs."""

    load_s: float
    """Making the batches of one step, by one worker."""
    step_s: float
    workers: int
    """0: made between the steps, so that the times add up."""

    @property
    def iteration_s(self) -> float:
        """From step to step: the longer of the two, or without workers both."""
        if self.workers == 0:
            return self.step_s + self.load_s
        return max(self.step_s, self.load_s / self.workers)

    @property
    def idle_ratio(self) -> float:
        """Share of the time that the device waits for data."""
        return 1 - self.step_s / self.iteration_s

    @property
    def workers_needed(self) -> int:
        """The fewest with which the device never waits."""
        return max(1, ceil(self.load_s / self.step_s))


def loading(load_s: float, step_s: float, workers: int) -> Loading:
    """A pipeline of ``workers`` beside a step.

    Raises:
        ValueError: a negative time or number, or a step that takes none.

    >>> found = loading(0.434, 0.1, 2)
    >>> found.iteration_s, round(found.idle_ratio, 2), found.workers_needed
    (0.217, 0.54, 5)
    """
    if not isfinite(load_s) or load_s < 0 or not isfinite(step_s) or step_s <= 0:
        raise ValueError(f"loading takes 0 s or more and a step more than 0 s, got {load_s} and {step_s}")
    if workers < 0:
        raise ValueError(f"there are 0 workers or more, got {workers}")
    return Loading(load_s, step_s, workers)


def bounded(asked: int, allowed: int) -> tuple[int, str]:
    """(workers that can work at once, why they are fewer than ``asked`` or "").

    Args:
        asked: workers wanted.
        allowed: processors that the process may use, by affinity and quota; not how many the machine has.

    >>> bounded(104, 23)
    (23, '104 workers share the 23 processors that are allowed here')
    """
    if asked <= allowed:
        return asked, ""
    processors = "the 1 processor that is" if allowed == 1 else f"the {allowed} processors that are"
    return allowed, f"{asked} workers share {processors} allowed here"
