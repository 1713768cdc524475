"""Hugging Face configurations as arguments of a family, for the kinds of model whose parameters we can write down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def arguments_of(configuration: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """(family, arguments) of a configuration by its ``model_type``; None for a kind that is not known."""
    known = KINDS.get(str(configuration.get("model_type")))
    return None if known is None else known(configuration)


KINDS: dict[str, Any] = {}
