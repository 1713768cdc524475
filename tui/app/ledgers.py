"""Which ledger is shown: of which measurement or prediction, and of which phase.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui import units
from tui.app.predicted import prediction_for, target_of
from tui.budget import ledger as budget
from tui.budget.choose import ledger_probe
from tui.budget.ledger import Ledger, Timelines
from tui.budget.prediction import prediction_verdict
from tui.probe.protocol import PHASES
from tui.project.measured import Measured, PhasePeak, Probe
from tui.project.model import Spec
from tui.project.prediction import PredictedPeak, Prediction

_SHORT_WORDS = {"FITS ONLY WITHOUT THE RESERVE": "reserve", "DOES NOT FIT": "no fit"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One measurement or prediction whose ledger can be shown."""

    id: str
    line: str
    """When, for which device, which batch, and how it ended."""


def ledger_of(
    project: Any, phase: str | None, chosen: str = "", timelines: Timelines | None = None
) -> Ledger:
    """The ledger that the screen shows.

    Args:
        project: ``spec`` and ``measured`` of it.
        phase: None, or one that was not measured: the worst one.
        chosen: id of a measurement or a prediction; "", or one that is gone: of the spec's batch if measured, else
            its prediction.
        timelines: of what is shown, for the causes of its temporaries; None: not read.
    """
    spec, measured = project.spec, project.measured
    if chosen in measured.prediction and measured.prediction[chosen].phases:
        measured = replace(measured, probe={}, prediction={chosen: measured.prediction[chosen]})
    probe = chosen if chosen in measured.probe else None
    if probe is None and (found := ledger_probe(spec, measured)) is not None:
        probe = found[0]
    phases = _phases_of(spec, measured, probe)
    made = budget.ledger(spec, measured, probe, phase if phase in phases else None, timelines=timelines)
    return made if made.probe is not None or made.prediction is None else _of_device(made, made.prediction)


def _phases_of(spec: Spec, measured: Measured, probe: str | None) -> Mapping[str, Any]:
    if probe is not None:
        return measured.probe[probe].phases
    told = prediction_for(spec, measured, None)
    return told[1].phases if told else {}


def _of_device(made: Ledger, one: Prediction) -> Ledger:
    """With the size of the GPU that was predicted for: its table knows that, whatever machine this is."""
    total = one.target_total_bytes if one.semantics == "cuda" else None
    if total is None:
        return made
    rows = tuple(
        replace(row, predicted=total) if row.key == "device_total" and row.predicted is None else row
        for row in made.rows
    )
    return replace(made, rows=rows)


def prediction_of(project: Any, chosen: str = "") -> tuple[str, Prediction] | None:
    """The prediction whose assumptions belong to what is shown; with another one chosen, that one."""
    found = project.measured.prediction.get(chosen)
    if found is not None:
        return chosen, found
    probe = project.measured.probe.get(chosen)
    own = prediction_for(project.spec, project.measured, probe) if probe is not None else None
    return own or prediction_for(project.spec, project.measured, None)


def phases_of(made: Ledger) -> tuple[str, ...]:
    """The phases in their order: those that were measured, else those that are predicted."""
    return tuple(name for name in PHASES if name in peaks_of(made))


def peaks_of(made: Ledger) -> Mapping[str, PhasePeak | PredictedPeak]:
    """The peak of each phase, measured, else predicted."""
    if made.probe is None and made.prediction is not None:
        return made.prediction.phases
    return made.phases


def scenarios(project: Any) -> tuple[Scenario, ...]:
    """Every measurement and prediction that has a ledger, the latest first."""
    spec, measured = project.spec, project.measured
    found = [
        (one.at, Scenario(id, _line("measured", one, _device(measured, one), one.outcome)))
        for id, one in measured.probe.items()
        if one.phases or one.outcome == "out-of-memory"
    ]
    for id, one in measured.prediction.items():
        if one.phases:
            word = prediction_verdict(spec, one).word
            said = _SHORT_WORDS.get(word, word.lower())
            found.append((one.at, Scenario(id, _line("predicted", one, target_of(one), said))))
    return tuple(one for _, one in sorted(found, key=lambda item: (item[0], item[1].id), reverse=True))


def _device(measured: Measured, one: Probe) -> str:
    place = measured.environment.get(one.environment)
    if one.device == "cpu" or place is None:
        return "CPU" if one.device == "cpu" else "a CUDA device"
    return place.device.removeprefix("NVIDIA ")


def _line(kind: str, one: Probe | Prediction, device: str, outcome: str) -> str:
    length = f" x {one.length:,}" if one.length else ""
    batch = f"{one.micro_batch:,}{length}" + (f" x {one.accumulate:,}" if one.accumulate > 1 else "")
    return f"{kind:<9} {units.when(one.at)}  {device[:16]:<16}  {batch}, {one.precision}, {outcome}"
