"""Under which conditions a probe was timed, as far as they matter to its figures: one line each."""

from __future__ import annotations

from tui import units
from tui.app.lines import fit, line
from tui.app.page import Row, Section
from tui.project.measured import Probe


def sections(probe: Probe, width: int) -> tuple[Section, ...]:
    """Loader, drift, clocks and what else was seen; nothing where nothing was."""
    said = sentences(probe)
    if not said:
        return ()
    rows = [Row(line(*piece(text, flagged, width))) for text, flagged in said]
    return (Section("conditions", tuple(rows)),)


def piece(text: str, flagged: bool, width: int) -> tuple[tuple[str, str], str]:
    """A line; one that puts the figures in doubt has a mark."""
    return (" ! " if flagged else "   ", "amber"), fit(text, width - 4)


def sentences(probe: Probe) -> list[tuple[str, bool]]:
    """(sentence, whether it puts the figures in doubt)."""
    said: list[tuple[str, bool]] = []
    if probe.throttled:
        said.append((f"throttled: {probe.throttle or 'the device held its clocks back'}", True))
    if probe.clocks:
        said.append((f"clocks: {probe.clocks}", False))
    if probe.drift_ratio is not None:
        drifted = abs(probe.drift_ratio) >= 0.05
        said.append((f"drift: the last third of the iterations {_change(probe.drift_ratio)}", drifted))
    if probe.slow_every is not None:
        part = probe.slow_part or "step"
        said.append((f"every {probe.slow_every:,}th iteration was slow, in its {part}", True))
    if probe.loader_ms_median is not None:
        share = (
            f", {units.percent(probe.loader_ms_median / probe.step_ms_median)} of a step"
            if probe.step_ms_median
            else ""
        )
        said.append(
            (f"loader: {units.milliseconds(probe.loader_ms_median)} ms outside the step{share}", False)
        )
    if probe.observed_batch is not None and probe.observed_batch != probe.micro_batch:
        said.append((f"the model got {probe.observed_batch:,} of {probe.micro_batch:,} samples", True))
    if probe.soaked:
        said.append((f"soaked: {probe.soaked:,} iterations, validation included", False))
    return said


def _change(ratio: float) -> str:
    if abs(ratio) < 0.0005:
        return "took as long as the first"
    return f"took {units.percent(abs(ratio))} {'longer' if ratio > 0 else 'less'} than the first"
