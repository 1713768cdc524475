"""Adds every iteration of a probe to its JSON document, from the journal that the child wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tui.probe.protocol import IterationDone, ProtocolError, ResultReady, decode
from tui.project.paths import state_folder
from tui.report.envelope import Source
from tui.report.json_values import Missing, explained, known


def with_iterations(document: dict[str, Any], found: Source) -> dict[str, Any]:
    """``document`` with ``iterations``: first, warm-up and timed ones with their times and losses."""
    probe = found.measured.probe.get(str(document.get("id")))
    journal = state_folder() / probe.journal if probe is not None and probe.journal else None
    rows: Any = Missing("the journal is not on this machine")
    if journal is not None and journal.is_file():
        rows = _read(journal)
    added = explained({"iterations": rows})
    unknown = {**document["unknown"], **added.pop("unknown")}
    return {**document, **added, "unknown": unknown}


def _read(journal: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    table: dict[str, Any] = {}
    samples = 0
    for line in journal.read_bytes().splitlines():
        try:
            event = decode(line)
        except ProtocolError:
            continue  # a torn last line is normal, the probe's own outcome says whether it matters
        if isinstance(event, IterationDone):
            samples = event.samples
            row = _row(event.index, event.kind, event.ms, event.loss, samples)
            (told if event.kind == "timed" else rows).append(row)
        elif isinstance(event, ResultReady) and event.kind == "timed":
            table = event.table
    if not table:
        return rows + told  # it was stopped: of the timed ones those that it had told
    losses = table.get("losses", [])
    for place, ms in enumerate(table.get("step_ms", [])):
        loss = losses[place] if place < len(losses) else None
        rows.append(_row(len(rows), "timed", ms, loss, samples))
    return rows


def _row(index: int, kind: str, ms: float | None, loss: float | None, samples: int) -> dict[str, Any]:
    return {
        "index": index,
        "kind": kind,
        "ms": known(ms, "tracing makes a time meaningless"),
        "loss": known(loss, "the loss is not finite, or the iteration returns none"),
        "samples_count": samples,
        "completed": True,
    }
