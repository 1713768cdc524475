"""What the parameter formulas of all families share: the result, and parts that are written down alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments

LORA_TARGETS = ("qkv", "proj", "gate", "up", "down")
"""Linear layers of a transformer block that can have an adapter."""


@dataclass(frozen=True, slots=True)
class Formula:
    """How many parameters a family has with given arguments."""

    family: str
    total: int
    """Elements of unique parameters."""
    parts: dict[str, int]
    """Elements by part, in the order of the data's way through the model; 0 for a part that is shared."""
    text: str
    """The arithmetic, as ``12 x 7,087,872 + 38,597,376 + 786,432 + 1,536``."""
    active: int | None = None
    """Elements that work on one token: total without the experts that it is not sent to."""
    embedding: int = 0
    """Of total: tables that are looked up or projected onto the vocabulary (token, position, segment, untied head)."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank matrices beside the linear layers of a block (Hu et al. 2021, arXiv:2106.09685)."""

    rank: int
    """0: none."""
    targets: tuple[str, ...]

    def dense(self, name: str, inputs: int, outputs: int, bias: bool = True) -> int:
        """The linear layer ``name`` with its adapter, if it has one."""
        adapter = layers.lora(self.rank, inputs, outputs) if self.rank and name in self.targets else 0
        return layers.dense(inputs, outputs, bias) + adapter

    def mlp(self, width: int, hidden: int, gated: bool, bias: bool) -> int:
        """The MLP of a block with its adapters."""
        gate = self.dense("gate", width, hidden, bias) if gated else 0
        return gate + self.dense("up", width, hidden, bias) + self.dense("down", hidden, width, bias)


LORA_ARGUMENTS = (
    Argument("lora_rank", "whole", 0, "rank of low-rank adapters, 0: none", least=0),
    Argument("lora_targets", "names", ("qkv", "proj"), "linear layers that have one", choices=LORA_TARGETS),
)


def adapters(given: Arguments, gated: bool) -> Adapters:
    """The adapters that ``LORA_ARGUMENTS`` ask for.

    Raises:
        ValueError: one on the gate of an MLP that has none.
    """
    found = Adapters(given.whole("lora_rank"), given.words("lora_targets"))
    if found.rank and "gate" in found.targets and not gated:
        raise ValueError('lora_targets names "gate", but the MLP has no gate')
    return found


def result(
    family: str,
    parts: Mapping[str, int],
    terms: Sequence[tuple[int, int]],
    *,
    inactive: int = 0,
    embedding: int = 0,
) -> Formula:
    """The formula whose total is that of its parts.

    Args:
        family: its name.
        parts: elements by part.
        terms: (how often, elements) of the arithmetic; those of 0 elements are not written.
        inactive: elements of experts that one token is not sent to.
        embedding: elements of tables.
    """
    total = sum(parts.values())
    if total != sum(times * size for times, size in terms):
        raise AssertionError(f"{family}: the parts and the arithmetic differ")
    text = " + ".join(f"{times} x {size:,}" if times != 1 else f"{size:,}" for times, size in terms if size)
    return Formula(family, total, dict(parts), text or "0", total - inactive, embedding)
