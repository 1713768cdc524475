"""Verify and the restore rehearsal as text: lines of evidence, then one word."""

from __future__ import annotations

from collections.abc import Mapping

from tui import units
from tui.project.measured import Check, Measured
from tui.project.model import Spec
from tui.report import sentences
from tui.report.lines import closing, joined, labelled, wrap

LABEL = 20
LONGEST_TITLE = 30
WORDS = {"pass": "ok", "fail": "FAIL", "note": "note", "n/a": "n/a"}


def verify_lines(
    spec: Spec, measured: Measured, verify_id: str | None = None, *, project: str, width: int = 80
) -> list[str]:
    """The checks of one Verify (None: the latest); the last line begins with VERIFIED, FAILED or UNKNOWN.

    Raises:
        KeyError: there is no such measurement.
    """
    verify_id = verify_id or max(measured.verify, default=None)
    if verify_id is None:
        return [
            *joined([sentences.title(spec)], width),
            *closing(f"UNKNOWN: never verified. Next: peakmark verify {project}", width),
        ]
    found = measured.verify[verify_id]
    place = sentences.device(measured.environment.get(found.environment))
    lines = joined([verify_id, place, found.precision, f"{units.long_duration(found.seconds)}"], width)
    lines += _checks(found.checks, width)
    done = f"{_count(found.checks, 'pass')} ok, {_count(found.checks, 'fail')} failed"
    word = "VERIFIED" if found.outcome == "verified" else "FAILED"
    following = (
        f"Next: peakmark probe {project}"
        if word == "VERIFIED"
        else "Figures of this model are not relied on."
    )
    return [*lines, *closing(f"{word} {verify_id}: {done}. {following}", width)]


def restore_lines(
    spec: Spec, measured: Measured, restore_id: str | None = None, *, project: str, width: int = 80
) -> list[str]:
    """One restore rehearsal (None: the latest); the last line begins with RESTORES, FAILED or UNKNOWN.

    Raises:
        KeyError: there is no such measurement.
    """
    restore_id = restore_id or max(measured.restore, default=None)
    if restore_id is None:
        never = f"UNKNOWN: never rehearsed. Next: peakmark restore {project}"
        return [*joined([sentences.title(spec)], width), *closing(never, width)]
    found = measured.restore[restore_id]
    story = f"saved after iteration {found.saved_after}, SIGKILL in {found.killed_in}, resumed"
    lines = wrap(f"{restore_id}: {story}, to {found.iterations}", width)
    lines += _checks(found.checks, width)
    peak = units.size(found.restore_peak_bytes)
    lines += labelled(
        f"peak  ({found.restore_peak_of})",
        _or_reason(peak, found.unknown.get("restore_peak_bytes")),
        LABEL,
        width,
    )
    again = found.killed_in - found.saved_after - 1
    recovery = f"{units.long_duration(found.recovery_s)}; {again} iterations ran twice"
    lines += labelled("time  to recover", _or_reason(recovery, found.unknown.get("recovery_s")), LABEL, width)
    if found.outcome == "restores":
        return [*lines, *closing(f"RESTORES. Next: peakmark report {project}", width)]
    return [*lines, *closing(f"FAILED {restore_id}: {_count(found.checks, 'fail')} checks failed.", width)]


def _or_reason(text: str, reason: str | None) -> str:
    return f"{text}: {reason}" if text.startswith("n/a") and reason else text


def _checks(checks: Mapping[str, Check], width: int) -> list[str]:
    lines: list[str] = []
    indent = min(max((len(check.title) for check in checks.values()), default=0) + 8, LONGEST_TITLE + 8)
    for check in checks.values():
        word = WORDS.get(check.outcome, check.outcome).ljust(5)
        lines += labelled(f"{word} {check.title}", check.text, indent, width)
    return lines


def _count(checks: Mapping[str, Check], outcome: str) -> int:
    return sum(check.outcome == outcome for check in checks.values())
