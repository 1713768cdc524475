"""What a prediction stands on: its device, what it assumed, what it was asked, what it does not cover."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tui import units
from tui.app.lines import line, wrap
from tui.app.page import Page, Row, Scene, Section, answer
from tui.app.views import predicting
from tui.app.views.figures import scale_of, sized, title
from tui.budget.prediction import worst_peak
from tui.project.prediction import Prediction

KEYS = (("↑↓", "read on"), ("Enter", "choose a GPU"), ("p", "predict"), ("d", "ledger"))


def page(scene: Scene, found: tuple[str, Prediction] | None, width: int) -> Page:
    """Every sentence of the prediction, one under the other."""
    where = scene.gpu or "what the project and this machine say"
    told = line((f" p predicts for {where}; Enter chooses another GPU", "dim"))
    if found is None:
        said = answer(width, "○", "EMPTY", f"nothing is predicted of this batch: {predicting.offer(scene)}")
        why = "A prediction traces an iteration on tensors that have no values; what it assumes stands here."
        return Page(
            predicting.refused(scene, width) or said,
            (Section("", (*predicting.whole(scene, width), *_lines([why], width))),),
            told,
            KEYS,
        )
    key, one = found
    shown = predicting.by_prediction(one, scene.project.spec, width)
    parts = (
        ("", [*_made(key, one)]),
        (f"{one.worst_phase}, at its peak", _rows(one, scene)),
        ("assumed", one.assumptions),
        ("values that the program asked for, and what it was told", one.answered),
        ("approximate", one.approximate),
        ("not covered", (*one.not_covered, "other processes", *_ranges(one))),
        ("the largest batch, on paper", _largest(one)),
        ("unknown", list(_unknown(one))),
    )
    sections = tuple(Section(name, _lines(said, width)) for name, said in parts if said)
    return Page(predicting.going_on(scene, width) or shown, sections, told, KEYS, folds=False)


def _lines(said: Iterable[str], width: int) -> tuple[Row, ...]:
    """Each sentence in as many rows as it needs; the cursor goes over them, so that all can be read."""
    rows: list[Row] = []
    for one in said:
        first, *rest = wrap(one, min(width, 110) - 4)
        rows.append(Row(_indented(first, 1), pick=True))
        rows += [Row(_indented(part, 3), pick=True) for part in rest]
    return tuple(rows)


def _indented(part: str, columns: int) -> Text:
    return line(" " * columns + part)


def _made(key: str, one: Prediction) -> Iterable[str]:
    took = f", in {units.duration(one.seconds)}" if one.seconds is not None else ""
    yield f"{predicting.told(one)}{took}, {key}"
    semantics = "a CUDA device" if one.semantics == "cuda" else "the CPU"
    yield f"torch {one.torch}, operators and allocator of {semantics}, allocator {one.allocator or 'default'}"
    if one.context_low_bytes is not None and one.context_high_bytes is not None:
        size = predicting.between(one.context_low_bytes, one.context_high_bytes)
        yield f"context, kernels and NCCL: {size} GiB, from {one.context_from}"
    if one.exhausted:
        yield one.exhausted


def _rows(one: Prediction, scene: Scene) -> list[str]:
    """The peak in a few sentences, largest rows first: the ledger has them only beside what was measured."""
    peak = worst_peak(one)
    if peak is None:
        return []
    scale = scale_of(scene.exact, peak.requested_bytes)
    sizes = sorted(peak.rows.items(), key=lambda item: -item[1])
    rows = ", ".join(f"{title(name)} {sized(size, scale)}" for name, size in sizes if size)
    allocated, reserved = sized(peak.allocated_bytes, scale), sized(peak.reserved_bytes, scale)
    held = f"tensor-allocated {allocated}, allocator-reserved {reserved}"
    return [f"requested {sized(peak.requested_bytes, scale)} {scale.unit}: {rows}", held]


def _unknown(one: Prediction) -> Iterable[str]:
    """What is not known of what was asked for, by reason: the app never asks for the largest batch."""
    names: dict[str, list[str]] = {}
    for name, why in one.unknown.items():
        if name != "largest":
            names.setdefault(why, []).append(_named(name))
    return (f"{', '.join(dict.fromkeys(found))}: {why}" for why, found in names.items())


def _named(key: str) -> str:
    """``phases.first.forward.allocated_bytes`` is said once for all phases."""
    return key.rpartition(".")[2].removesuffix("_bytes").replace("_", " ")


def _ranges(one: Prediction) -> list[str]:
    return [
        f"{name.replace('_', ' ')}: {units.size(size[0])} to {units.size(size[-1])}"
        for name, size in one.ranges.items()
        if size
    ]


def _largest(one: Prediction) -> list[str]:
    if one.largest is None:
        return []
    limit = f" within {units.size(one.largest_limit_bytes)}" if one.largest_limit_bytes is not None else ""
    said = [f"micro-batch {one.largest:,}{limit} of reserved memory"]
    if one.line_fixed_bytes is not None and one.line_per_sample_bytes is not None:
        fixed, each = units.size(one.line_fixed_bytes), units.size(one.line_per_sample_bytes)
        said.append(f"{fixed} and {each} a sample")
    return said
