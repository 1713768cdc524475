"""Which parameter formula a project is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.budget import configurations, params
from tui.budget.params import Formula
from tui.project.model import Spec


def formula_of(spec: Spec, configuration: Mapping[str, Any] | None = None) -> Formula | None:
    """The formula of ``workload.formula``, else of the source; None where none is known or none is wanted.

    Args:
        spec: the project's.
        configuration: of a source that is a Hugging Face configuration, see ``project.configuration``.

    Raises:
        ValueError: the family's arguments are wrong, or a configuration of another kind has none; one sentence.
    """
    workload = spec.workload
    family = workload.formula or (workload.source if workload.source in params.FAMILIES else "")
    if family == "none":
        return None
    if workload.formula_args is not None and family:
        return params.formula(family, workload.formula_args)
    if configuration is not None:
        mapped = configurations.arguments_of(configuration)
        if mapped is not None and family in ("", mapped[0]):
            return params.formula(*mapped)
        if family:
            raise ValueError(
                f"{workload.source} does not say the arguments of {family}; write them into workload.formula_args"
            )
    return params.formula(family, workload.args) if family else None
