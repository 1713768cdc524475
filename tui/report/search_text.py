"""What a search found, in sentences: for the terminal and for the report."""

from __future__ import annotations

from tui import units
from tui.project.measured import Measured, Probe, Search
from tui.project.model import Spec
from tui.report.text_sweep import SAME_SPEED


def span(found: Search) -> str:
    """``tested from 8 to 64, multiples of 8``: what was tried, smallest and largest."""
    tried = sorted(int(one) for one in found.candidates)
    if not tried:
        return "nothing was tested"
    text = f"tested from {tried[0]:,} to {tried[-1]:,}" if len(tried) > 1 else f"tested {tried[0]:,} only"
    return text + (f", multiples of {found.multiple_of:,}" if found.multiple_of > 1 else "")


def verdict(spec: Spec, measured: Measured, found: Search) -> str:
    """The search's verdict: what was proven, and where the proof ends."""
    if found.outcome == "failed":
        return f"FAILED: {found.why}.{_known(found)}"
    if found.outcome == "interrupted":
        return f"NOT DECIDED: {found.why or 'it was ended before its decision'}.{_known(found)}"
    if found.largest is None:
        untested = f" {_sentence(found.why)}" if found.why else ""
        return f"DOES NOT FIT: none of {len(found.candidates)} that were tried.{untested}{_grown(measured, found)}"
    total = found.largest * found.accumulate * spec.placement.ranks
    head = f"LARGEST {found.largest:,} (x {found.accumulate} = {total:,} a step): {soak(measured, found)}"
    head += f", and {found.failed_at:,} failed." if found.failed_at is not None else "."
    return " ".join(filter(None, (head, _beyond(found), _validation(found), *_holes(measured, found))))


def _grown(measured: Measured, found: Search) -> str:
    """What to look at when batches fit for a few iterations and none through the soak; "" otherwise."""
    tried = [measured.probe[id] for id in found.probes if id in measured.probe]
    short = [one.micro_batch for one in tried if one.outcome == "fits" and not one.soaked]
    if not short:
        return ""
    least = min(short)
    return (
        f" Micro-batch {least:,} fits for a few iterations and not through the soak: does memory grow with every "
        f"iteration? peakmark probe --batch {least} tells."
    )


def soak(measured: Measured, found: Search) -> str:
    """``soaked for 50 iterations and validation``."""
    probe = measured.probe.get(found.largest_probe or "")
    if probe is None or not probe.soaked:
        return "not soaked"
    return f"soaked for {probe.soaked} iterations and validation"


def fastest(measured: Measured, found: Search) -> str:
    """The fastest of those that were tried and fit, apart from the largest; "" when none was timed."""
    best = measured.probe.get(found.fastest_probe or "")
    if best is None or best.samples_per_s is None or found.fastest is None:
        return ""
    rate = f"{units.rate(best.samples_per_s)} samples/s from {best.iterations} iterations"
    near = [
        f"{one.micro_batch:,}"
        for one in _deciding(measured, found)
        if one.micro_batch != found.fastest
        and one.outcome == "fits"
        and (one.samples_per_s or 0.0) >= SAME_SPEED * best.samples_per_s
    ]
    close = f"; {' and '.join(near)} within 2 % of it" if near else ""
    name = "the largest" if found.fastest == found.largest else f"{found.fastest:,}"
    return f"Fastest of those tried is {name}, {rate}{close}."


def candidate_word(probe: Probe) -> str:
    """How a candidate ended, short: ``fits``, ``OOM, backward``, ``got only 10``."""
    if probe.outcome == "not-tested":
        return f"got only {probe.observed_batch:,}" if probe.observed_batch is not None else "not tested"
    words = probe.outcome.replace("-", " ")
    if probe.outcome == "fits-without-reserve":
        words = "needs the reserve"
    if probe.outcome == "out-of-memory" and probe.failed_phase:
        return f"OOM, {probe.failed_phase.removeprefix('first.')}"
    return f"{words}, {probe.failed_phase.removeprefix('first.')}" if probe.failed_phase else words


def manner(probe: Probe) -> str:
    """How it was measured and with how many timed iterations: ``fit 5``, ``full 20``, ``soak 50``."""
    word = "soak" if probe.soak else ("full" if "traced" in probe.tasks else "fit")
    return f"{word} {probe.iterations or 'n/a'}"


def _deciding(measured: Measured, found: Search) -> list[Probe]:
    return [measured.probe[id] for id in found.candidates.values() if id in measured.probe]


def _beyond(found: Search) -> str:
    if found.why:
        return _sentence(found.why)
    tried = max(int(one) for one in found.candidates)
    return f"Above {tried:,}: not tried." if found.failed_at is not None else ""


def _known(found: Search) -> str:
    """What is known without a decision."""
    if found.largest is None:
        return " Nothing that was tried fits." if found.failed_at is not None else ""
    text = f" {found.largest:,} fits, not soaked" if not found.failed_at else f" {found.largest:,} fits"
    if found.failed_at is not None:
        text += f" and {found.failed_at:,} failed; whatever lies between was not decided"
    return f"{text}."


def _validation(found: Search) -> str:
    if found.validation_batch is None:
        return ""
    if found.validation_batch == 0:
        return "Validation does not fit beside it, not even with one sample."
    return f"Validation does not fit at {found.largest:,}; at {found.validation_batch:,} it ran."


def _holes(measured: Measured, found: Search) -> list[str]:
    failed = [
        f"{one.micro_batch:,}"
        for one in _deciding(measured, found)
        if one.micro_batch < (found.largest or 0) and one.outcome in ("out-of-memory", "does-not-fit")
    ]
    return [f"Smaller, and failed all the same: {', '.join(failed)}."] if failed else []


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
