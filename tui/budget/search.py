"""Which micro-batch a search tries next: pure, from what was tried to the next candidate or the decision.

A search ends when N was soaked and the next multiple above it failed.  Between and above what was tried nothing is
claimed: whether a batch fits need not be monotone, so a failure below the largest that fits is told, not smoothed.

Guided by a line through measured sizes it gallops away from where the line points, else it doubles; a bracket is
halved.  For a limit L that is monotone it takes at most about 2 log2(L) trials, with a good line four.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tui.budget import batch

Word = Literal["fits", "fails", "untested"]

GUIDED = 10
"""Sizes after which the line is not followed any more, in case that memory does not follow it."""
LEAST_SOAK = 20
"""Timed iterations that a confirmation has at least."""
MOST_GROWTH = 8
"""How many times the largest that fits one trial may be, as long as nothing failed above it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched: the largest of the multiples of ``multiple_of`` up to ``upper`` that fits."""

    multiple_of: int = 1
    upper: int | None = None
    start: int = 1
    """Samples to begin with when nothing points anywhere."""
    limit_bytes: int | None = None
    """Budget less reserve; None: unknown, so no line points anywhere."""
    points: Mapping[int, int] | None = None
    """Process bytes of earlier measurements, by micro-batch: they guide, they decide nothing."""
    predicted: int | None = None
    """The largest micro-batch by a prediction."""
    soak: bool = True
    """Whether the largest must be confirmed by a longer run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate that ended."""

    micro: int
    word: Word
    """untested: the batch was never on the device, as when the data are too few."""
    process_bytes: int | None = None
    """What the process took, when it was measured to its end."""
    soaked: bool = False
    validation_fails: int | None = None
    """Size of the validation batch that failed although training at ``micro`` did not."""
    observed: int | None = None
    """Samples that the model got when it is untested."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What to measure next."""

    micro: int
    soak: bool
    why: str
    """In a few words: start, line, predicted, doubled, halved, next, soak."""
    validation: int | None = None
    """Samples of a validation batch; None: ``micro``."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the search found; it holds for what was tried and for nothing else."""

    largest: int | None
    """The largest that fits (soaked, when that was asked for); None: nothing that was tried fits."""
    failed_at: int | None
    """The smallest above it that failed; None: none did, ``bound`` says what ended the search."""
    bound: str = ""
    """"" when ``failed_at`` is the next multiple; else upper, data, or stopped before the decision."""
    validation: int | None = None
    """The validation batch that ran with it, when a larger one failed; 0: not even one sample."""
    holes: tuple[int, ...] = ()
    """Failed although a larger one fits."""


def advance(asked: Asked, trials: Sequence[Trial]) -> Candidate | Decision:
    """The next candidate, or the decision when nothing is left to try.

    Args:
        asked: what is searched.
        trials: all that ended, in the order they were tried; a later one of the same size replaces an earlier.

    Raises:
        ValueError: no multiple lies within ``upper``.

    >>> advance(Asked(start=8), [])
    Candidate(micro=8, soak=False, why='start', validation=None)
    >>> advance(Asked(), [Trial(54, "fits"), Trial(55, "fails"), Trial(54, "fits", soaked=True)])
    Decision(largest=54, failed_at=55, bound='', validation=None, holes=())
    """
    if asked.upper is not None and asked.upper < asked.multiple_of:
        raise ValueError(f"no multiple of {asked.multiple_of} is within the upper bound {asked.upper}")
    state = _State(asked, trials)
    if state.edge:
        return state.confirmed()
    micro, why = state.following()
    return Candidate(micro * asked.multiple_of, asked.soak and state.broke, why)


def so_far(asked: Asked, trials: Sequence[Trial]) -> Decision:
    """What the trials say although the search has not ended: nothing between ``largest`` and ``failed_at``."""
    state = _State(asked, trials)
    step = asked.multiple_of
    return Decision(
        state.low * step or None,
        None if state.high is None else state.high * step,
        "stopped",
        state.validated(state.low * step),
        state.holes,
    )


def expected(asked: Asked, trials: Iterable[Trial]) -> int | None:
    """The largest micro-batch by the line through all measured sizes, else by the prediction; None: neither.

    Never above ``upper``, which is the largest that will be tried.
    By how much a longer run took more than the short one of the same size is kept free in addition.
    """
    first: dict[int, int] = {}
    more = 0
    for one in trials:
        if one.process_bytes is not None:
            more = max(more, one.process_bytes - first.setdefault(one.micro, one.process_bytes))
    points = {**(asked.points or {}), **first}
    if len(points) >= 2 and asked.limit_bytes is not None:
        line = batch.fit(points)
        if line.per_sample_bytes > 0:
            return _within(asked, batch.largest(line, asked.limit_bytes - more))
    return None if asked.predicted is None else _within(asked, asked.predicted)


def _is_predicted(asked: Asked, trials: Iterable[Trial]) -> bool:
    """Whether it is the prediction that points somewhere, and no line."""
    return asked.predicted is not None and expected(replace(asked, predicted=None), trials) is None


def _within(asked: Asked, micro: int) -> int:
    return micro if asked.upper is None else min(micro, asked.upper)


def holding(asked: Asked, trials: Sequence[Trial]) -> list[int]:
    """The micro-batches that fit, from the smallest; of soaks only, once one has failed that fit for a short run.

    >>> holding(Asked(), [Trial(4, "fits"), Trial(8, "fits"), Trial(2, "fits", soaked=True)])
    [2, 4, 8]
    >>> holding(Asked(), [Trial(4, "fits"), Trial(8, "fits"), Trial(8, "fails"), Trial(2, "fits", soaked=True)])
    [2]
    """
    return [place * asked.multiple_of for place in _State(asked, trials).fits]


def fastest(rates: Mapping[int, float | None]) -> int | None:
    """The micro-batch with the most samples a second, the smaller one of equals; None: none was timed.

    >>> fastest({128: 914.0, 192: 902.0, 240: 899.0}), fastest({240: None})
    (128, None)
    """
    timed = {micro: rate for micro, rate in rates.items() if rate is not None}
    return min(timed, key=lambda micro: (-timed[micro], micro)) if timed else None


class _State:
    """What the trials say, in multiples."""

    def __init__(self, asked: Asked, trials: Sequence[Trial]) -> None:
        self.asked, self.trials = asked, trials
        step = asked.multiple_of
        self.last = last = {
            one.micro // step: one for one in trials if one.micro % step == 0 and one.word != "untested"
        }
        self.soaked = {place: one for place, one in last.items() if one.soaked and one.word == "fits"}
        self.fits = sorted(place for place, one in last.items() if one.word == "fits")
        self.fails = sorted(place for place, one in last.items() if one.word == "fails")
        bounds = [
            one.observed if one.observed is not None else one.micro - 1
            for one in trials
            if one.word == "untested"
        ]
        self.data = min(bounds) // step if bounds else None
        self.upper = min(
            (one for one in (asked.upper and asked.upper // step, self.data) if one is not None), default=None
        )
        if self.broke:  # what fits for a few iterations only is no ground to stand on any more
            held = {place for place, one in last.items() if one.soaked or one.validation_fails is not None}
            self.fits = [place for place in self.fits if place in held]
        self.low = self.fits[-1] if self.fits else 0
        self.high = next((place for place in self.fails if place > self.low), None)

    @property
    def broke(self) -> bool:
        """Whether a size that fits for a few iterations failed later: short runs decide too little from then on."""
        fitted: set[int] = set()
        for one in self.trials:
            if one.word == "fits":
                fitted.add(one.micro)
            elif one.word == "fails" and one.micro in fitted:
                return True
        return False

    @property
    def edge(self) -> bool:
        """Whether the next multiple above the largest that fits was tried, or cannot be."""
        return self.high == self.low + 1 or (self.upper is not None and self.low >= self.upper)

    def confirmed(self) -> Candidate | Decision:
        """The soak that is missing, or the decision."""
        step = self.asked.multiple_of
        failed_at = None if self.high is None else self.high * step
        if not self.low:
            return Decision(None, failed_at, "" if self.high == 1 else "data")
        micro = self.low * step
        if self.asked.soak and self.low not in self.soaked and self._validation_left(micro) != 0:
            return self._soak(micro)
        bound = ""
        if self.high != self.low + 1:
            bound = "data" if self.data is not None and self.upper == self.data else "upper"
        return Decision(micro, failed_at, bound, self.validated(micro), self.holes)

    @property
    def holes(self) -> tuple[int, ...]:
        """Sizes that failed below the largest that fits."""
        return tuple(one * self.asked.multiple_of for one in self.fails if one < self.low)

    def _soak(self, micro: int) -> Candidate:
        """With a validation batch half as large as the last one that failed beside this training batch."""
        left = self._validation_left(micro)
        return Candidate(micro, True, "soak" if left is None else "soak, smaller validation", left)

    def _validation_left(self, micro: int) -> int | None:
        """Half the smallest validation batch that failed with ``micro``, 0 for a single sample; None: none failed."""
        failed = [one.validation_fails for one in self.trials if one.micro == micro]
        known = [one for one in failed if one is not None]
        return min(known) // 2 if known else None

    def validated(self, micro: int) -> int | None:
        """The validation batch that ran where a larger one failed, 0 where none did; None: none failed."""
        left = self._validation_left(micro)
        return left if left == 0 or micro // self.asked.multiple_of in self.soaked else None

    def following(self) -> tuple[int, str]:
        """(the next place to try, why)."""
        points_at = expected(self.asked, self.trials) if len(self.last) < GUIDED else None
        place = None if points_at is None else max(0, points_at // self.asked.multiple_of)
        if not self.fits and not self.fails:
            found, why = self._first(place)
        elif self.high is None:
            found, why = self._grown(place)
        else:
            found, why = self._within(place, self.high)
        return found, "predicted" if why == "line" and _is_predicted(self.asked, self.trials) else why

    def _first(self, place: int | None) -> tuple[int, str]:
        wanted = self.asked.start // self.asked.multiple_of if place is None else place
        return self._held(max(1, wanted)), "start" if place is None else "line"

    def _held(self, place: int) -> int:
        return place if self.upper is None else min(place, self.upper)

    def _grown(self, place: int | None) -> tuple[int, str]:
        """Above the largest that fits, where nothing failed yet."""
        if place is None:
            return self._held(2 * self.low), "doubled"
        if place > self.low:
            return self._held(min(place, MOST_GROWTH * self.low)), "line"
        if place == self.low:
            return self._held(self.low + 1), "next"
        before = self.fits[-2] if len(self.fits) > 1 else self.low - 1
        return self._held(self.low + min(2 * (self.low - max(before, place)), self.low)), "beyond the line"

    def _within(self, place: int | None, high: int) -> tuple[int, str]:
        """Strictly between the largest that fits and the smallest above it that failed."""
        middle = (self.low + high) // 2
        above = next((one for one in self.fails if one > high), high + 1)
        if place is None:
            if self.broke:  # it breaks by a little: down in growing steps instead of halfway to nothing
                return max(middle, high - 2 * (above - high)), "below"
            return middle, "halved"
        if self.low < place < high:
            return place, "line"
        if place == self.low:
            return self.low + 1, "next"
        if place == high:
            return high - 1, "next"
        if place < self.low:
            before = self.fits[-2] if len(self.fits) > 1 else self.low - 1
            return min(middle, self.low + 2 * max(1, self.low - max(before, place))), "beyond the line"
        return max(middle, high - 2 * max(1, min(above, place) - high)), "below the line"
