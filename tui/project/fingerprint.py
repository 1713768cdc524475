"""What a measurement was made of, as one short hash: when that differs, it was of something else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, cast

from tui.errors import ProjectError
from tui.project.load import Project
from tui.project.measured import Measured
from tui.project.schema import FAMILIES, PACKAGES

DIGITS = 12
LEAST_DIGITS = 8

EARLIER = frozenset(
    {
        "workload.formula",
        "workload.batch.length.min",
        "workload.batch.length.typical",
        "workload.batch.remainder",
    }
)
"""Keys that counted in hashes of earlier versions, though they change no measurement."""
UNMEASURED = EARLIER | {
    "workload.formula_args",
    "workload.batch.global_batch",
    "workload.batch.dataset",
    "workload.batch.length_of",
}
"""Keys of the workload that no measuring process is told, or that it does nothing with."""

UNCOUNTED = UNMEASURED | {"workload.batch", "workload.optimizer", "workload.scheduler", "workload.step"}
"""Keys on which no count of parameters depends."""


def source_file(project: Project) -> Path | None:
    """The file that ``workload.source`` names, in the project's folder; None for a family or an installed package.

    Raises:
        ProjectError: there is no such file.
    """
    source = project.spec.workload.source
    if source in FAMILIES or source.startswith(PACKAGES):
        return None
    named = source.partition(":")[0]
    found = project.folder / named
    if not found.is_file():
        raise ProjectError(
            f'workload.source = "{source}": there is no file {named} beside {project.path.name}',
            where=project.at("workload.source"),
            hint="correct the name or write that file",
        )
    return found


def file_sha256(path: Path, project: Project, key: str) -> str:
    """The SHA-256 of a file's content, in hex.

    Raises:
        ProjectError: it cannot be read; ``key`` is what names it.
    """
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f"{key} names {path}, which cannot be read: {reason}",
            where=project.at(key),
            hint="check its permissions",
        ) from error


def spec_hash(project: Project) -> str:
    """``sha256:`` and 12 hex digits over the workload, its file's content, the placement and the precision.

    Title, budget, notes, quality and what is compared do not count: they change no measurement.  Nor does what
    of the workload is there to be checked or to describe (``UNMEASURED``).  A value that is the default counts
    the same whether it is written or not.  Measurements from before ``EARLIER`` stopped to count stay valid for
    as long as nothing else changes: then the hash is theirs.

    Raises:
        ProjectError: the workload's file is missing or cannot be read.
    """
    now, before = _hash(project, UNMEASURED), _hash(project, UNMEASURED - EARLIER)
    if before == now:
        return now
    found = _measured_specs(project.measured)
    return before if _is_one_of(before, found) and not _is_one_of(now, found) else now


def model_hash(project: Project) -> str:
    """Like ``spec_hash``, over what a count of the model's parameters depends on: batch and optimizer do not.

    Raises:
        ProjectError: the workload's file is missing or cannot be read.
    """
    return _hash(project, UNCOUNTED)


def is_counted(project: Project) -> bool:
    """Whether the inventory is of the model as the spec has it now.

    Raises:
        ProjectError: see ``spec_hash``.
    """
    inventory = project.measured.inventory
    if inventory is None:
        return False
    if not inventory.model:  # counted by an earlier version, of the whole spec
        return not stale(inventory.spec, project)
    return inventory.model == model_hash(project)


def _hash(project: Project, left_out: frozenset[str]) -> str:
    spec = project.spec
    named = source_file(project)
    facts = {
        "workload": _said(spec.workload, left_out, "workload"),
        "file": named and file_sha256(named, project, "workload.source"),
        "placement": _said(spec.placement, left_out, "placement"),
        "precision": spec.precision.use,
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode(errors="replace")).hexdigest()[:DIGITS]


def _measured_specs(measured: Measured) -> set[str]:
    """The ``spec`` of every entry of the measured part."""
    tables = (
        measured.verify,
        measured.probe,
        measured.precision,
        measured.restore,
        measured.prediction,
        measured.operating,
    )
    found = {one.spec for table in tables for one in table.values()}
    return found | ({measured.inventory.spec} if measured.inventory is not None else set())


def _is_one_of(fingerprint: str, measured: set[str]) -> bool:
    enough = len("sha256:") + LEAST_DIGITS
    return any(len(one) >= enough and fingerprint.startswith(one) for one in measured)


def stale(measured_spec: str, project: Project) -> bool:
    """Whether a measurement with that ``spec`` is of another workload, placement or precision than now.

    Raises:
        ProjectError: see ``spec_hash``.
    """
    return not _is_one_of(spec_hash(project), {measured_spec})


def _said(value: Any, left_out: frozenset[str], key: str) -> Any:
    """Fields that are not their default, so that a field added later changes no old hash."""
    if not dataclasses.is_dataclass(value):
        return value
    said: dict[str, Any] = {}
    for spec in dataclasses.fields(value):
        one = getattr(value, spec.name)
        default = spec.default_factory() if callable(spec.default_factory) else spec.default
        if one != default and f"{key}.{spec.name}" not in left_out:
            said[spec.name] = _said(one, left_out, f"{key}.{spec.name}")
    return cast(Any, said)
