"""One device's resident bytes, row by row, at one phase's requested peak.

Rows of different phases are never added together.  All sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tui.budget import prediction as predictions
from tui.budget import temporaries
from tui.budget.checks import SumCheck, sum_checks
from tui.budget.choose import ledger_probe
from tui.budget.declared import Declared, Situation, declared, situation
from tui.budget.forecast import NOT_PREDICTED, Forecast, forecast, of_bytes
from tui.budget.host_ledger import HostRow, host_ledger
from tui.budget.readings import Seen, seen_at
from tui.budget.reconcile import Reconciled, reconcile
from tui.budget.reconcile_evidence import Case
from tui.budget.rows import Row, RowName, row_names
from tui.budget.temporaries import Part
from tui.budget.verdict import Verdict, after, verdict, worst_phase
from tui.budget.verdict_rows import by_declaration, unknown_rows, with_declared_sums
from tui.project.measured import Environment, Measured, PhasePeak, Probe
from tui.project.model import Spec
from tui.project.prediction import Prediction
from tui.project.timeline import Timeline

__all__ = ["NOT_DECLARED", "NOT_MEASURED", "NOT_PREDICTED", "Ledger", "Timelines", "ledger", "probe_verdict"]

NOT_MEASURED = "not measured: peakmark probe"
NOT_DECLARED = "no formula gives it"
UNREAD = "process was not read"


@dataclass(frozen=True, slots=True)
class Timelines:
    """The storages of the measured and of the predicted iteration; None: not read, or not kept."""

    measured: Timeline | None = None
    predicted: Timeline | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The rows of one probe in one phase, whether they add up, and whether it fits."""

    rows: tuple[Row, ...]
    checks: tuple[SumCheck, ...]
    verdict: Verdict
    """From the worst phase, whichever phase the rows are of."""
    situation: Situation
    probe_id: str | None = None
    phase: str | None = None
    probe: Probe | None = None
    environment: Environment | None = None
    prediction_id: str | None = None
    """Whose figures the predicted column has; without a measurement the whole ledger is of it."""
    prediction: Prediction | None = None
    reconciled: Reconciled | None = None
    """What the differences of predicted and measured come to; None: one of the two is not there."""

    parts: tuple[Part, ...] = ()
    """What the rows of temporaries are for, where a timeline of this phase was given."""
    host: tuple[HostRow, ...] = ()
    """What the same process keeps in main memory, a ledger of its own; empty when nothing is said to."""

    @property
    def phases(self) -> Mapping[str, PhasePeak]:
        """Every phase that was measured, with its own peak."""
        return self.probe.phases if self.probe else {}

    @property
    def adds_up(self) -> bool:
        """Whether every sum that could be checked agrees."""
        return all(check.agrees is not False for check in self.checks)

    def row(self, key: str) -> Row:
        """The row ``key``.

        Raises:
            KeyError: this ledger has no such row.
        """
        return {row.key: row for row in self.rows}[key]


def ledger(
    spec: Spec,
    measured: Measured,
    probe_id: str | None = None,
    phase: str | None = None,
    *,
    predicted: Mapping[str, int] | None = None,
    timelines: Timelines | None = None,
) -> Ledger:
    """The ledger of one probe in one phase, beside the prediction of the same; without any probe that of a prediction.

    Args:
        spec: declares rows, budget and reserve.
        measured: holds the probe, predictions and the inventory.
        probe_id: None: the one that ``ledger_probe`` chooses; without any, the spec's prediction, else declared rows.
        phase: None: the worst one.
        predicted: bytes by row key, instead of those of the prediction that the project has.
        timelines: evidence of what ran, for the causes of differences.

    Raises:
        KeyError: the probe or the phase does not exist.
    """
    if probe_id is None:
        chosen = ledger_probe(spec, measured)
        probe_id = chosen[0] if chosen else None
    probe = measured.probe[probe_id] if probe_id is not None else None
    told = predictions.of_spec(spec, measured) if probe is None else predictions.beside(measured, probe)
    id, found = told if told is not None else ("", None)
    worst = _worst(probe, found)
    if phase is not None and phase not in (probe.phases if probe else (found.phases if found else {})):
        raise KeyError(phase)
    phase = phase or worst
    at = _situation(spec, probe, found, phase)
    seen = seen_at(probe, phase, worst, spec.budget.reserve) if probe else Seen({}, {}, NOT_MEASURED)
    formulas = declared(spec, measured.inventory, at)
    place = measured.environment.get(probe.environment) if probe else None
    column = forecast(id, found, phase) if found is not None and predicted is None else of_bytes(predicted)
    made = [_row(name, formulas, column, seen, spec) for name in row_names(at.device)]
    kept = timelines or Timelines()
    case = Case(at.device, phase, column.prediction, probe, place, kept.measured, kept.predicted)
    rows, reconciled = reconcile(with_declared_sums(made), case)
    checks = sum_checks(at.device, probe.phases[phase], seen) if probe and phase in probe.phases else ()
    return Ledger(
        rows=rows,
        checks=checks,
        verdict=_decided(spec, probe, found, worst, rows, checks),
        situation=at,
        probe_id=probe_id,
        phase=phase,
        probe=probe,
        environment=place,
        prediction_id=id or None,
        prediction=found,
        reconciled=reconciled,
        parts=_parts(kept, phase),
        host=host_ledger(spec, measured, probe, at),
    )


def _parts(kept: Timelines, phase: str | None) -> tuple[Part, ...]:
    sides = [
        None if one is None or phase is None else temporaries.at_peak(one, phase)
        for one in (kept.predicted, kept.measured)
    ]
    return temporaries.parts(*sides)


def _worst(probe: Probe | None, found: Prediction | None) -> str | None:
    if probe is not None:
        return probe.worst_phase or worst_phase(probe.phases)
    return found.worst_phase if found is not None else None


def probe_verdict(spec: Spec, probe: Probe) -> Verdict:
    """The verdict on one probe under the spec's budget, from its worst phase."""
    return _verdict(spec, probe, probe.worst_phase or worst_phase(probe.phases), ())


def _situation(spec: Spec, probe: Probe | None, found: Prediction | None, phase: str | None) -> Situation:
    if probe is not None:
        return Situation(
            probe.precision, probe.micro_batch, probe.accumulate, probe.length, probe.device, phase
        )
    if found is not None:
        batch = found.micro_batch, found.accumulate, found.length
        return Situation(found.precision, *batch, found.semantics, phase)
    return situation(spec, "cuda" if spec.environment.device.startswith(("GPU", "MIG")) else "cpu")


def _row(
    name: RowName,
    formulas: Mapping[str, Declared],
    column: Forecast,
    seen: Seen,
    spec: Spec,
) -> Row:
    formula = formulas.get(name.key, Declared(None, unknown=NOT_DECLARED))
    if name.key == "reserve":
        formula = Declared(spec.budget.reserve, spec.budget.reserve_for or "entered")
    entered = spec.ledger.entered.get(name.key)
    if formula.bytes is None and entered is not None:
        formula = Declared(entered, "entered")
    told = column.bytes.get(name.key)
    found = seen.bytes.get(name.key)
    reasons = {
        "declared": "" if formula.bytes is not None else formula.unknown,
        "predicted": "" if told is not None else column.reason(name.key),
        "measured": "" if found is not None else seen.reason(name.key),
    }
    return Row(
        key=name.key,
        label=f"= {name.label}" if name.kind == "sum" else name.label,
        kind=name.kind,
        declared=formula.bytes,
        declared_as=formula.text,
        predicted=told,
        measured=found,
        origin=seen.origins.get(name.key, "") if found is not None else "",
        meaning=name.meaning,
        other_name=name.other_name,
        reasons={key: reason for key, reason in reasons.items() if reason},
        predicted_range=column.ranges.get(name.key),
        entered=entered is not None,
    )


def _decided(
    spec: Spec,
    probe: Probe | None,
    told: Prediction | None,
    worst: str | None,
    rows: Sequence[Row],
    checks: tuple[SumCheck, ...],
) -> Verdict:
    """By what was measured, else predicted, else declared, with the rows for want of which it is UNKNOWN."""
    if probe is not None:
        found = _verdict(spec, probe, worst, checks)
    else:
        found = predictions.prediction_verdict(spec, told) if told else by_declaration(spec, rows)
    if found.word != "UNKNOWN" or found.unknown_rows:
        return found
    broken = tuple(check.sum.replace("_", "-") for check in checks if check.agrees is False)
    if broken:
        return replace(found, unknown_rows=broken)
    if found.process_bytes is not None:
        return found  # the budget is not known, which ``why`` says
    column = "measured" if probe is not None else "predicted"
    return replace(found, unknown_rows=unknown_rows(rows, column))


def _verdict(spec: Spec, probe: Probe, worst: str | None, checks: tuple[SumCheck, ...]) -> Verdict:
    """From the process's most in any phase: a later phase can only have been held to as much.

    What others and the driver hold, and the device's total, are those that were entered where they were not read.
    """
    reading = probe.readings.get("process")
    known = [peak.process_bytes for peak in probe.phases.values()] + [reading.bytes if reading else None]
    process = max((size for size in known if size is not None), default=None)
    entered = spec.ledger.entered if probe.device != "cpu" else {}
    total, others, driver = (
        one.bytes if (one := probe.readings.get(key)) and one.bytes is not None else entered.get(key)
        for key in ("host_total" if probe.device == "cpu" else "device_total", "others", "driver_reserved")
    )
    found = verdict(
        process,
        spec.budget.job,
        spec.budget.reserve,
        worst,
        device_total=total,
        others=others,
        driver_reserved=driver,
        unknown=(reading.unknown if reading else "") or probe.unknown.get("process_bytes", UNREAD),
    )
    found = after(probe.outcome, probe.failure, found)
    broken = next((check for check in checks if check.sum == "requested" and check.agrees is False), None)
    if broken and found.word != "DOES NOT FIT":
        return replace(found, word="UNKNOWN", spare_bytes=None, why=broken.text)
    return found
