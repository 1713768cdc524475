"""Parameters that an optimizer was given more than once: each of its entries would take a step of its own."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from .faults import TaskError

_TORCH_SAYS = "more than one parameter group"
HINT = "give each parameter once, as model.parameters() does; state_dict() and lists of names count a tied one twice"


def refuse(optimizer: Any, model: torch.nn.Module, what: str, where: str = "") -> None:
    """Raise before any step when a list of ``optimizer`` holds a parameter twice.

    Args:
        optimizer: anything with ``param_groups``; of others nothing is known.
        model: for the names.
        what: how the optimizer is called in the sentence.
        where: ``file:line`` of its function.

    Raises:
        TaskError: how many entries are too many, and the names of the parameters.
    """
    names, counts = names_of(model), {}
    for group in getattr(optimizer, "param_groups", None) or ():
        for one in group.get("params", ()):
            counts[id(one)] = counts.get(id(one), 0) + 1
    twice = [key for key, count in counts.items() if count > 1]
    if not twice:
        return
    told = ["%s (%d times)" % (_named(names.get(key)), counts[key]) for key in twice]
    raise TaskError(
        "workload",
        "%s was given %d of %d parameters more than once: %s"
        % (what, len(twice), len(counts), ", ".join(told[:4]) + ("" if len(told) <= 4 else ", ...")),
        where=where,
        hint=HINT,
    )


def refused(error: BaseException, model: torch.nn.Module, where: str) -> Any:
    """The TaskError for torch's own refusal of one parameter in two groups, with names; None for other errors."""
    if not isinstance(error, ValueError) or _TORCH_SAYS not in str(error):
        return None
    tied = [_named(names) for names in names_of(model).values() if len(names) > 1]
    said = "; one tensor of several names: %s" % ", ".join(tied[:4]) if tied else ""
    text = "a parameter is in more than one group of the optimizer%s" % said
    return TaskError("workload", text, where=where, hint=HINT)


def names_of(model: torch.nn.Module) -> Dict[int, List[str]]:
    """Every name of each parameter, by its id, those of tied ones included."""
    found: Dict[int, List[str]] = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(one), []).append(name)
    return found


def _named(names: Any) -> str:
    return " = ".join(names) if names else "one that is not the model's"
