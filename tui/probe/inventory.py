"""The model's parameters as the framework's own objects: identity by object, never by name, hook or address.

A tensor that two names share is one parameter; a state dictionary lists it twice, which is reported apart.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

import torch

from .faults import TaskError


def take(model: torch.nn.Module, groups: Optional[Dict[str, str]] = None) -> Dict[str, Any]:
    """The ``inventory`` table of protocol.ResultReady.

    Args:
        model: any module, on any device, meta included.
        groups: {attribute of the model: words} naming the parts of a built-in family.

    Raises:
        TaskError: a model without parameters, or with uninitialised (lazy) ones.
    """
    lazy = [name for name, one in model.named_parameters() if torch.nn.parameter.is_lazy(one)]
    if lazy:
        raise TaskError(
            "workload",
            "%d parameters are not initialised (lazy), such as %s" % (len(lazy), lazy[0]),
            hint="run one batch through the model in build()",
        )
    unique = list(model.parameters())
    if not unique:
        raise TaskError("workload", "the model has no parameters")
    buffers = list(model.buffers())
    state = model.state_dict()
    entries = [one for one in state.values() if isinstance(one, torch.Tensor)]
    dtypes = {}
    for one in unique:
        key = str(one.dtype).replace("torch.", "")
        dtypes[key] = dtypes.get(key, 0) + one.numel()
    return {
        "unique_parameters": sum(one.numel() for one in unique),
        "tensors": len(unique),
        "parameter_bytes": sum(one.numel() * one.element_size() for one in unique),
        "trainable_parameters": sum(one.numel() for one in unique if one.requires_grad),
        "trainable_tensors": sum(1 for one in unique if one.requires_grad),
        "buffer_elements": sum(one.numel() for one in buffers),
        "buffer_bytes": sum(one.numel() * one.element_size() for one in buffers),
        "state_entries": len(entries),
        "state_entry_elements": sum(one.numel() for one in entries),
        "dtypes": dtypes,
        "groups": grouped(model, groups or {}),
        "shared": shared(model),
        "modules": sum(1 for _ in model.modules()),
        "device": unique[0].device.type,
    }


def shared(model: torch.nn.Module) -> List[str]:
    """``"lm_head.weight = wte.weight"`` for every parameter that has more than one name."""
    names = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(one), []).append(name)
    return [" = ".join(reversed(many)) for many in names.values() if len(many) > 1]


def grouped(model: torch.nn.Module, words: Dict[str, str]) -> Dict[str, int]:
    """Unique elements by top-level part, in the model's order; a list of equal blocks is one part."""
    seen, parts = set(), {}
    _add(model, words, seen, parts)
    if len(parts) == 1 and not words:
        # One wrapper around everything says nothing: look inside it.
        for name, child in model.named_children():
            if len(list(child.children())) > 1:
                seen, parts = set(), {}
                _add(child, words, seen, parts, name + ".")
                break
    return parts


def _add(
    model: torch.nn.Module, words: Dict[str, str], seen: Set[int], parts: Dict[str, int], prefix: str = ""
) -> None:
    for name, child in model.named_children():
        size = _count(child, seen)
        many = (
            len(list(child.children()))
            if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential))
            else 0
        )
        word = words.get(name, "%s x {n}" % (prefix + name) if many > 1 else prefix + name)
        if list(child.parameters()):
            parts[word.format(n=many)] = size
    own = 0
    for one in model._parameters.values():
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            own += one.numel()
    if own:
        parts[prefix + "(own)"] = own


def _count(module: torch.nn.Module, seen: Set[int]) -> int:
    total = 0
    for one in module.parameters():
        if id(one) not in seen:
            seen.add(id(one))
            total += one.numel()
    return total
