"""What the optimizers of ``torch.optim`` keep between steps, by the rules of their own code (torch 2.13).

State comes in copies (tensors of the parameter's shape, in the parameter's dtype: a bf16 Adam keeps 2 x 2 bytes) and
in counters (fp32 scalars of 4 bytes).  Which implementation steps (foreach, fused, a loop) changes no copy; fused and
capturable ones have their counters on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

COUNTER_BYTES = 4

CountersOn = Literal["asked", "device", "host"]
"""asked: on the host, unless the optimizer is fused or capturable; device: where the parameter is; host: always."""


@dataclass(frozen=True, slots=True)
class StateRule:
    """State of one optimizer per parameter: ``copies`` of its bytes and ``counters`` scalars a tensor."""

    optimizer: str
    copies: int
    counters: int
    counters_on: CountersOn = "asked"
    early: bool = False
    """Made when the optimizer is constructed, not in its first step."""
    factored: bool = False
    """A tensor of 2 or more dimensions has a value for each row and for each column instead of a copy."""
    history: int = 0
    """Of LBFGS: pairs of vectors that it remembers at most."""

    def elements(self, shape: Sequence[int]) -> int:
        """Elements of the state of one tensor, its counters apart.

        >>> state_rule("Adafactor", {}).elements((8, 6)), state_rule("Adam", {}).elements((8, 6))
        (14, 96)
        """
        whole = prod(shape)
        if self.factored and len(shape) > 1:
            return self.copies * (whole // shape[-1] + whole // shape[-2]) if whole else 0
        return self.copies * whole

    def counters_on_device(self, args: Mapping[str, Any], implementation: str = "default") -> bool:
        """Whether the counters of a parameter on a GPU are there too."""
        if self.counters_on == "asked":
            return implementation == "fused" or any(args.get(key) for key in ("fused", "capturable"))
        return self.counters_on == "device"


_RULES = {
    "Adam": StateRule("Adam", 2, 1),
    "AdamW": StateRule("AdamW", 2, 1),
    "SGD": StateRule("SGD", 0, 0),
    "RMSprop": StateRule("RMSprop", 1, 1),
    "Adagrad": StateRule("Adagrad", 1, 1, early=True),
    "Adadelta": StateRule("Adadelta", 2, 1),
    "Adamax": StateRule("Adamax", 2, 1),
    "NAdam": StateRule("NAdam", 2, 2),  # the product of its momenta is a counter too
    "RAdam": StateRule("RAdam", 2, 1),
    "Rprop": StateRule("Rprop", 2, 1),
    "ASGD": StateRule("ASGD", 1, 3, "device"),  # step, eta and mu
    "Adafactor": StateRule("Adafactor", 1, 1, "host", factored=True),
    "Muon": StateRule("Muon", 1, 0),
    "SparseAdam": StateRule("SparseAdam", 2, 0),  # dense moments; its counter is a Python integer
    "LBFGS": StateRule("LBFGS", 2, 0, history=100),
}


def class_name(name: str) -> str | None:
    """The class of ``torch.optim`` that ``name`` means, or None when it is another library's.

    >>> class_name("torch.optim.AdamW"), class_name("SGD"), class_name("mine:Lion")
    ('AdamW', 'SGD', None)
    """
    if ":" in name or ("." in name and not name.startswith("torch.optim.")):
        return None
    return name.rsplit(".", 1)[-1]


def state_rule(name: str, args: Mapping[str, Any]) -> StateRule | str:
    """The state that an optimizer keeps with these arguments, or why that is not known.

    The first moment of Adam exists whatever the betas are.

    >>> state_rule("torch.optim.AdamW", {"amsgrad": True}).copies
    3
    >>> state_rule("mine:Lion", {})
    'mine:Lion is not of torch.optim: its state is known when it is measured'
    """
    found = class_name(name)
    if found is None:
        return f"{name} is not of torch.optim: its state is known when it is measured"
    rule = _RULES.get(found)
    if rule is None:
        return f"{found}: no rule for its state; it is known when it is measured"
    more = 0
    if found in ("Adam", "AdamW") and args.get("amsgrad"):
        more += 1
    if found in ("SGD", "RMSprop") and args.get("momentum"):
        more += 1
    if found == "RMSprop" and args.get("centered"):
        more += 1
    if found == "LBFGS":
        kept = args.get("history_size", rule.history)
        return replace(rule, history=kept) if isinstance(kept, int) and kept >= 0 else rule
    return replace(rule, copies=rule.copies + more)


def remembered(elements: int, pairs: int) -> int:
    """Elements of LBFGS's state after ``pairs`` updates of its history, in the parameters' dtype.

    Its direction and its last gradient, two vectors and two scalars for each pair, and one scale, which is no tensor
    before the first pair.

    >>> remembered(1000, 100)
    202201
    """
    return (2 + 2 * pairs) * elements + (2 * pairs + 1 if pairs else 0)
