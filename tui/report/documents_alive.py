"""What is alive at the peak of a step as JSON: the instant, rows, the tree of modules, groups of equal storages."""

from __future__ import annotations

from collections.abc import Iterator

from tui.budget import timeline as timelines
from tui.budget.timeline import Alike, Branch
from tui.project.timeline import Timeline
from tui.report.envelope import Document
from tui.report.json_values import Missing, known
from tui.report.text_alive import no_phase


def alive_table(timeline: Timeline, phase: str | None = None) -> Document | Missing:
    """Everything alive at the highest instant of ``phase``, None: of the iteration."""
    found = timelines.peak_in(timeline, phase)
    if found is None:
        return Missing(no_phase(phase))
    event, size, at = found
    alive = timelines.alive(timeline, event)
    return {
        "phase": at.name,
        "micro_batch_index": known(at.micro, "an optimizer step is of no micro-batch"),
        "event_index": event,
        "requested_bytes": size,
        "storages_count": len(alive),
        "rows": [{"row": row, "bytes": part} for row, part in timelines.by_row(alive).items()],
        "modules": [_branch(one) for one in _walk(timelines.by_module(alive))],
        "storages": [_group(one) for one in timelines.top(alive, len(alive))],
    }


def _walk(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.children:
        yield from _walk(child)


def _branch(one: Branch) -> Document:
    return {
        "module": one.path,
        "bytes": one.bytes,
        "own_bytes": one.own,
        "storages_count": one.count,
        "rows": [{"row": row, "bytes": size} for row, size in one.rows.items()],
    }


def _group(one: Alike) -> Document:
    held = one.storage
    return {
        "row": held.row,
        "module": one.module,
        "operator": held.operator,
        "shape": held.shape,
        "dtype": held.dtype,
        "each_bytes": held.bytes,
        "count": one.count,
        "bytes": one.bytes,
    }
