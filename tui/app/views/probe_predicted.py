"""The batches that were predicted and not measured: what they would take, by the table of the batches pane."""

from __future__ import annotations

from tui import units
from tui.app.lines import cut, ending, fit, line
from tui.app.page import Row, Section
from tui.app.predicted import target_of
from tui.app.views.figures import Scale, aligned, scale_of, sized
from tui.app.views.ledger_cells import span_of
from tui.budget.prediction import prediction_verdict, process_range, worst_peak
from tui.project.measured import Measured
from tui.project.model import Spec
from tui.project.prediction import Prediction

_WORDS = {"FITS": "fits", "FITS ONLY WITHOUT THE RESERVE": "reserve", "DOES NOT FIT": "no fit"}


def newest(spec: Spec, measured: Measured) -> list[tuple[str, Prediction]]:
    """The newest prediction of each device, batch and length in the spec's precision, the smallest batch first."""
    found: dict[tuple[str, int, int, int], tuple[str, Prediction]] = {}
    for id, one in sorted(measured.prediction.items()):
        if one.phases and one.precision == spec.precision.use:
            batch = one.length or 0, one.micro_batch, one.accumulate
            found[(target_of(one), *batch)] = id, one
    return [found[key] for key in sorted(found)]


def section(spec: Spec, measured: Measured, exact: bool, width: int) -> tuple[Section, ...]:
    """A row for each prediction; () where there is none."""
    found = newest(spec, measured)
    if not found:
        return ()
    peaks = [worst_peak(one) for _, one in found]
    scale = scale_of(exact, max((one.requested_bytes for one in peaks if one is not None), default=None))
    wide = 17 if scale.exact else 11
    ends = [18 + wide, 18 + 2 * wide]
    head = ending(ending(line("  "), 8, "batch"), 18, "length")
    for end, name in zip(ends, ("requested", "process"), strict=True):
        ending(head, end, name)
    head.append(f"   {scale.unit}, and for which device")
    head.stylize("dim")
    rows = [Row(cut(head, width))]
    rows += [_row(id, one, spec, scale, ends, width) for id, one in found]
    return (Section("predicted", tuple(rows)),)


def _row(id: str, one: Prediction, spec: Spec, scale: Scale, ends: list[int], width: int) -> Row:
    peak, process = worst_peak(one), process_range(one)
    word = _WORDS.get(prediction_verdict(spec, one).word, "unknown")
    text = ending(line(" ○"), 8, f"{one.micro_batch:,}")
    ending(text, 18, "-" if one.length is None else f"{one.length:,}")
    requested = None if peak is None else peak.requested_bytes
    ending(text, ends[0], aligned(sized(requested, scale), scale))
    if process is None:
        shown = "n/a"
    elif scale.exact:
        shown = f"{process[0]:,}+"
    else:
        shown = span_of(*process, scale)
    ending(text, ends[1], shown)
    text.append(fit(f"   {word}, {target_of(one)}", max(8, width - text.cell_len - 1)))
    at_most = "" if process is None else f", process {process[0]:,} to {process[1]:,} B"
    said = f"{id}: accumulate {one.accumulate}{at_most}, {units.when(one.at)} UTC"
    return Row(cut(text, width), pick=True, detail=line((f" {fit(said, width - 2)}", "dim")))
