"""The Hugging Face configuration that a project's source names, as plain values: read, never run."""

from __future__ import annotations

import json
from typing import Any, cast

from tui.errors import ProjectError
from tui.project.load import Project

LARGEST = 4 * 2**20
"""Bytes; a configuration of a model is a few thousand."""


def of(project: Project) -> dict[str, Any] | None:
    """The table in the JSON file that ``workload.source`` names, with ``workload.args`` laid over it.

    None for any other source.

    Raises:
        ProjectError: it cannot be read, is not JSON, or is not a table.
    """
    workload = project.spec.workload
    if not workload.source.endswith(".json"):
        return None
    path = project.folder / workload.source
    try:
        with path.open("rb") as content:
            raw = content.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise ProjectError(
                f"{workload.source} is larger than {LARGEST:,} B, so it is not a model's configuration",
                where=project.at("workload.source"),
            )
        table = json.loads(raw.decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f'workload.source = "{workload.source}" cannot be read: {reason}',
            where=project.at("workload.source"),
            hint="correct the name or write that file",
        ) from error
    except (ValueError, RecursionError) as error:
        raise ProjectError(
            f"{workload.source} is not valid JSON: {error}", where=project.at("workload.source")
        ) from error
    if not isinstance(table, dict):
        raise ProjectError(
            f"{workload.source} is not a model's configuration",
            where=project.at("workload.source"),
            hint="it holds one JSON object with model_type",
        )
    return {**cast("dict[str, Any]", table), **workload.args}
