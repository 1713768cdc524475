"""What is said of a measurement whose spec has changed since."""

from __future__ import annotations

from tui.report.envelope import Source
from tui.report.lines import closing
from tui.report.operating import is_current

LEAST = 4
"""Digits of a fingerprint that are shown, when they tell the two apart."""


def is_stale(source: Source, probe_id: str | None) -> bool:
    """Whether the probe or prediction is of another spec than the project has now; none of either is not stale."""
    id = probe_id or ""
    probe = source.measured.probe.get(id) or source.measured.prediction.get(id)
    return probe is not None and not is_current(probe.spec, source.fingerprint)


def changed(then: str, now: str) -> str:
    """``then f0d2, now 8a71``: the first digits of both fingerprints, as many as tell them apart.

    >>> changed("sha256:f0d2aaaa", "sha256:8a71bbbb"), changed("sha256:f0d2aaaa", "sha256:f0d2bbbb")
    ('then f0d2, now 8a71', 'then f0d2a, now f0d2b')
    """
    old, new = then.removeprefix("sha256:"), now.removeprefix("sha256:")
    shown = LEAST
    while old[:shown] == new[:shown] and shown < max(len(old), len(new)):
        shown += 1
    return f"then {old[:shown] or 'n/a'}, now {new[:shown]}"


def warning(
    id: str, then: str, now: str, command: str, done: tuple[str, str] = ("measured", "measures")
) -> str:
    """The sentence for stderr; ``command`` does again what was ``done``: measured or predicted."""
    was, does = done
    return f"warning: the spec has changed since {id} was {was} ({changed(then, now)}): {command} {does} it again"


def with_line(
    lines: list[str], then: str, now: str, command: str, width: int, *, done: str = "measured"
) -> list[str]:
    """``lines`` of an answer, the second of which says that it is stale."""
    said = f"STALE: the spec has changed since this was {done} ({changed(then, now)}). Next: {command}"
    return [*lines[:1], *closing(said, width), *lines[1:]]
