"""What the optimizers of ``torch.optim`` keep between steps.

State comes in copies (tensors of the parameter's shape, in the parameter's dtype) and in counters (fp32
scalars of 4 bytes, on the CPU unless the optimizer is fused or capturable).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COUNTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class StateRule:
    """State of one optimizer per parameter: ``copies`` of its bytes and ``counters`` scalars a tensor."""

    optimizer: str
    copies: int
    counters: int


_COPIES_COUNTERS = {
    "Adam": (2, 1),
    "AdamW": (2, 1),
    "SGD": (0, 0),
    "RMSprop": (1, 1),
    "Adagrad": (1, 1),
    "Adadelta": (2, 1),
    "Adamax": (2, 1),
    "NAdam": (2, 2),
    "RAdam": (2, 1),
}

_UNDECLARED = {
    "LBFGS": "its history grows with the number of iterations",
    "Adafactor": "its state is factored row by row, by the shape of every parameter",
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

    >>> state_rule("torch.optim.AdamW", {"amsgrad": True})
    StateRule(optimizer='AdamW', copies=3, counters=1)
    >>> state_rule("torch.optim.LBFGS", {})
    'LBFGS: its history grows with the number of iterations'
    """
    found = class_name(name)
    if found is None:
        return f"{name} is not of torch.optim: its state is known when it is measured"
    if found in _UNDECLARED:
        return f"{found}: {_UNDECLARED[found]}"
    if found not in _COPIES_COUNTERS:
        return f"{found}: no rule for its state; it is known when it is measured"
    copies, counters = _COPIES_COUNTERS[found]
    if found in ("Adam", "AdamW") and args.get("amsgrad"):
        copies += 1
    if found in ("SGD", "RMSprop") and args.get("momentum"):
        copies += 1
    if found == "RMSprop" and args.get("centered"):
        copies += 1
    return StateRule(found, copies, counters)
