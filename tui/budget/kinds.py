"""Every layer and family whose parameters can be worked out by itself, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.budget import family_convnet, kinds_of_layers, kinds_stored, params
from tui.budget.arguments import Argument, Arguments
from tui.budget.worked import Term, Worked


@dataclass(frozen=True, slots=True)
class Kind:
    """A layer or a family."""

    name: str
    group: str
    """layers, storage or families."""
    summary: str
    arguments: tuple[Argument, ...]
    work: Callable[[Mapping[str, Any]], Worked]
    """Of its arguments; raises ValueError with one sentence."""


def _layer(
    name: str, summary: str, arguments: tuple[Argument, ...], work: Callable[[Arguments], Worked]
) -> Kind:
    group = "storage" if name in kinds_stored.KINDS else "layers"
    return Kind(name, group, summary, arguments, lambda args: work(Arguments(name, args, arguments)))


def _family(name: str, summary: str) -> Kind:
    arguments = params.ARGUMENTS[name]

    def work(args: Mapping[str, Any]) -> Worked:
        found = params.formula(name, args)
        active = found.total if found.active is None else found.active
        further = (
            Term("active on one token", "", "", active),
            Term("embedding", "", "", found.embedding),
            Term("non-embedding", "", "", found.total - found.embedding),
        )
        inputs = Arguments(name, args, arguments).values
        note = ""
        if name == "convnet":
            block = inputs["block"]
            note = f"a {block} block: {family_convnet.WHAT_A_BLOCK_IS[block]}"
        return Worked(name, inputs, "parameters", found.terms, further if _has_tokens(name) else (), note)

    return Kind(name, "families", summary, arguments, work)


def _has_tokens(family: str) -> bool:
    return family in ("decoder", "encoder")


SUMMARIES = {
    "decoder": "GPT- and Llama-like transformers, with experts where asked for",
    "encoder": "BERT- and ViT-like transformers",
    "convnet": "plain, depthwise, residual, inverted and ConvNeXt networks",
    "mlp": "linear layers in a row",
}

KINDS: dict[str, Kind] = {
    **{name: _layer(name, *kind) for name, kind in kinds_of_layers.KINDS.items()},
    **{name: _layer(name, *kind) for name, kind in kinds_stored.KINDS.items()},
    **{name: _family(name, summary) for name, summary in SUMMARIES.items()},
}
"""In the order in which they are listed."""
