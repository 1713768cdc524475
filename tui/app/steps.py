"""The six steps: what each one's mark is, why it is stale, and what ``r`` runs.  Pure."""

from __future__ import annotations

from typing import Any

from tui.app.choose import latest, operating_of, probe_of
from tui.app.live import Live
from tui.budget.choose import ledger_probe

RUNS = {
    "spec": ("params",),
    "verify": ("verify",),
    "ledger": ("probe",),
    "probe": ("probe",),
    "precision": ("precision",),
    "report": ("report",),
    "restore": ("restore",),
    "predict": ("predict",),
}
"""Steps of a run that ``r`` starts, by the screen, and by the Report's restore pane; and what ``p`` starts."""

PREDICTS = ("spec", "ledger", "probe")
"""The screens on which ``p`` predicts."""

SCREEN_OF = {"params": "spec", "restore": "report", "predict": "ledger"}
"""The screen of a run's step, where its name is another."""

_GOOD_PROBE = ("fits", "fits-without-reserve", "does-not-fit", "out-of-memory", "unknown")


def screen_of(step: str) -> str:
    """The screen on which a step of a run is seen."""
    return SCREEN_OF.get(step, step)


def stale_of(project: Any, fingerprint: str, counted: bool = False) -> dict[str, str]:
    """Why each step's figures are of something else than the spec as it is now.

    Args:
        project: ``spec`` and ``measured``.
        fingerprint: of the spec as it is now; "" when it could not be made.
        counted: the inventory is of this very model, whatever else has changed since.
    """
    if not fingerprint:
        return {}
    spec, measured = project.spec, project.measured
    operating = operating_of(measured)
    made = {
        "spec": None if counted else measured.inventory,
        "verify": _value(latest(measured.verify)),
        "ledger": _value(ledger_probe(spec, measured) or _predicted(spec, measured)),
        "probe": _value(probe_of(spec, measured)),
        "precision": _value(latest(measured.precision)),
        "report": operating[1] if operating else None,
    }
    return {
        name: f"the spec has changed since (then {short(one.spec)}, now {short(fingerprint)})"
        for name, one in made.items()
        if one is not None and not is_of(one.spec, fingerprint)
    }


def _predicted(spec: Any, measured: Any) -> tuple[str, Any] | None:
    if not measured.prediction:
        return None
    from tui.app.predicted import prediction_for

    return prediction_for(spec, measured, None)


def is_of(measured_spec: str, fingerprint: str) -> bool:
    """Whether a measurement is of the spec with ``fingerprint``."""
    if measured_spec == fingerprint:
        return True
    from tui.report.operating import is_current  # with the whole ledger: not for the first paint

    return is_current(measured_spec, fingerprint)


def _value(item: tuple[str, Any] | None) -> Any:
    return item[1] if item else None


def short(fingerprint: str) -> str:
    """The first four digits of a fingerprint, for people."""
    return fingerprint.removeprefix("sha256:")[:4]


def marks_of(project: Any, stale: dict[str, str], live: Live | None) -> dict[str, str]:
    """One of ``● ○ » ~ ×`` for each step."""
    measured, spec = project.measured, project.spec
    marks = {
        "spec": _spec(measured.inventory),
        "verify": _outcome(latest(measured.verify), ("verified",)),
        "ledger": "●" if ledger_probe(spec, measured) else "○",
        "probe": _outcome(probe_of(spec, measured), _GOOD_PROBE),
        "precision": _outcome(latest(measured.precision), ("done",)),
        "report": "●" if operating_of(measured) else "○",
    }
    marks |= dict.fromkeys(stale, "~")
    if live is not None and live.step:
        marks[screen_of(live.step)] = "»"
    return marks


def _spec(inventory: Any) -> str:
    if inventory is None:
        return "○"
    said = inventory.formula_parameters
    return "●" if said is None or said == inventory.unique_parameters else "×"


def _outcome(item: tuple[str, Any] | None, good: tuple[str, ...]) -> str:
    if item is None:
        return "○"
    return "●" if item[1].outcome in good else "×"
