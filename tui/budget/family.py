"""What the parameter formulas of all families share: the result, and parts that are written down alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.worked import Term, term

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
    terms: tuple[Term, ...] = ()
    """The parts with the formula of each."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank matrices beside the linear layers of a block (Hu et al. 2021, arXiv:2106.09685)."""

    rank: int
    """0: none."""
    targets: tuple[str, ...]
    """A name that a block has no layer of is without effect."""

    def attention(self, width: int, rows: int, inner: int) -> list[Term]:
        """Those of the projection of (rows, width) to queries, keys and values, and of the one of (width, inner)."""
        found: list[Term] = []
        for target, inputs, outputs in (("qkv", width, rows), ("proj", inner, width)):
            if self.rank and target in self.targets:
                size = layers.lora(self.rank, inputs, outputs)
                numbers = {"lora_rank": self.rank, "in": inputs, "out": outputs}
                found.append(term(f"adapter of {target}", "lora_rank x (in + out)", size, **numbers))
        return found

    def mlp(self, width: int, hidden: int, gated: bool) -> int:
        """Those of one MLP; its matrices all have the same two sides."""
        return self.matrices(gated) * layers.lora(self.rank, width, hidden)

    def matrices(self, gated: bool) -> int:
        """How many matrices of an MLP have one."""
        if not self.rank:
            return 0
        return sum(name in self.targets for name in (("gate", "up", "down") if gated else ("up", "down")))


LORA_ARGUMENTS = (
    Argument("lora_rank", "whole", 0, "rank of low-rank adapters, 0: none", least=0),
    Argument("lora_targets", "names", ("qkv", "proj"), "linear layers that have one", choices=LORA_TARGETS),
)


def adapters(given: Arguments) -> Adapters:
    """The adapters that ``LORA_ARGUMENTS`` ask for."""
    return Adapters(given.whole("lora_rank"), given.words("lora_targets"))


def mlp_terms(
    name: str, width: int, hidden: int, *, gated: bool, bias: bool, adapted: Adapters, experts: int = 0
) -> list[Term]:
    """The MLP of a block, or ``experts`` of them, as one line, and their adapters as another."""
    inner, adapter_count = "expert_hidden" if experts else "hidden", adapted.matrices(gated)
    text = f"{3 if gated else 2} x width x {inner}"
    text += f" + {'2 x ' if gated else ''}{inner} + width" if bias else ""
    low_rank = f"{adapter_count} x lora_rank x (width + {inner})"
    if experts:
        text, low_rank = f"experts x ({text})", f"experts x {low_rank}"
    numbers = {"width": width, inner: hidden, "experts": experts, "lora_rank": adapted.rank}
    times = experts or 1
    found = [term(name, text, times * layers.mlp(width, hidden, gated, bias), **numbers)]
    if adapter_count:
        size = times * adapted.mlp(width, hidden, gated)
        found.append(term(f"adapters of {name}", low_rank, size, **numbers))
    return found


def attention_term(
    width: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    qkv_bias: bool,
    out_bias: bool,
    qk_norm: bool,
) -> Term:
    """Attention with grouped queries as one line; raises ValueError for heads that do not fit each other."""
    size = layers.attention(
        width, heads, kv_heads, head_dim, qkv_bias=qkv_bias, out_bias=out_bias, qk_norm=qk_norm
    )
    rows = "(heads + 2 x kv_heads) x head_dim"
    text = f"width x {rows} + heads x head_dim x width"
    text += f" + {rows}" if qkv_bias else ""
    text += " + width" if out_bias else ""
    text += " + 2 x head_dim" if qk_norm else ""
    return term("attention", text, size, width=width, heads=heads, kv_heads=kv_heads, head_dim=head_dim)


def total(terms: Sequence[Term]) -> int:
    """The sum of the terms' values."""
    return sum(one.value for one in terms)


def result(
    family: str, terms: Sequence[Term], text: Sequence[str | int], *, inactive: int = 0, embedding: int = 0
) -> Formula:
    """The formula whose parts are ``terms``.

    Args:
        family: its name.
        terms: one for every part.
        text: summands of the arithmetic, those of 0 elements are not written.
        inactive: elements of experts that one token is not sent to.
        embedding: elements of tables.
    """
    parts = {one.name: one.value for one in terms}
    written = " + ".join(f"{one:,}" if isinstance(one, int) else one for one in text if one)
    return Formula(
        family, total(terms), parts, written or "0", total(terms) - inactive, embedding, tuple(terms)
    )
