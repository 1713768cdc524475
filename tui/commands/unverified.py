"""What is said before figures of a model that Verify has not passed."""

from __future__ import annotations

from pathlib import Path

from tui.errors import PeakmarkError
from tui.project.fingerprint import spec_hash
from tui.project.load import load
from tui.report.operating import is_current

RELYING = frozenset({"probe", "precision", "restore", "report"})
"""Steps whose figures mean little for a model that does not learn as it should."""


def warning(project: Path) -> str:
    """One sentence when Verify has failed or was never run for this spec, else ""."""
    try:
        loaded = load(project)
        fingerprint = spec_hash(loaded)
    except PeakmarkError:
        return ""  # what is wrong with the project is said by whatever needs it
    ran = {id: one for id, one in loaded.measured.verify.items() if is_current(one.spec, fingerprint)}
    if not ran:
        return f"warning: this spec was never verified; first: peakmark verify {project}"
    latest = max(ran)
    if ran[latest].outcome == "verified":
        return ""
    bad = ", ".join(one.title for one in ran[latest].checks.values() if one.outcome == "fail")
    return f"warning: Verify FAILED ({latest}: {bad}): figures of this model are not to be relied on"
