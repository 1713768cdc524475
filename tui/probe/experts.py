"""How many elements work on one token: with experts, fewer than there are."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Dict, Optional

import torch

from .identity import Holdings

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
"""Keys of configurations for how many experts a layer has, and how many a token is sent to."""
_LOOKS_ROUTED = re.compile(r"(^|_)(moe|experts?)(_|\d|$)|experts$", re.IGNORECASE)
_CLASS_ROUTED = re.compile(r"moe|experts", re.IGNORECASE)


def said(model: torch.nn.Module) -> Optional[Dict[str, Any]]:
    """``of_configuration`` of the first module that has a configuration which says it, as transformers' models have."""
    for module in model.modules():
        config = getattr(module, "config", None)
        routed = None if config is None else of_configuration(config, model)
        if routed is not None:
            return routed
    return None


def of_configuration(config: Any, model: torch.nn.Module) -> Optional[Dict[str, Any]]:
    """{"modules", "total", "used"} of Workload.experts; None where the configuration does not say all of it."""
    text = getattr(config, "text_config", config)
    total = next((found for found in (getattr(text, key, None) for key in EXPERTS) if found), None)
    used = next((found for found in (getattr(text, key, None) for key in USED) if found), None)
    if not (isinstance(total, int) and isinstance(used, int)):
        return None
    paths = [name for name, _ in model.named_modules() if name.rpartition(".")[2] == "experts"]
    patterns = {".".join("*" if part.isdigit() else part for part in path.split(".")) for path in paths}
    return {"modules": patterns.pop(), "total": total, "used": used} if len(patterns) == 1 else None


def active(found: Holdings, routed: Optional[Dict[str, Any]], unknown: Dict[str, str]) -> Optional[int]:
    """Elements that work on one token: all of them, less the experts that a token is not sent to.

    Args:
        found: what the model holds.
        routed: {"modules": dotted pattern of the routed experts, in which ``*`` stands for one part of a name,
            "total": experts of a layer, "used": those that a token is sent to}; several experts may be one
            parameter. None: nothing says.
        unknown: gets the reason when the answer is None.
    """
    total = found.elements
    if routed is None:
        name = looks_routed(found)
        if name is None:
            return total
        unknown["active_parameters"] = "%s looks like experts, and nothing says how many a token uses" % name
        return None
    pattern, all_of_them, used = str(routed["modules"]), int(routed["total"]), int(routed["used"])
    size = _size(found, pattern)
    if not size:
        unknown["active_parameters"] = "no parameter is of the experts %s" % pattern
        return None
    if not 0 < used <= all_of_them or size * (all_of_them - used) % all_of_them:
        unknown["active_parameters"] = "{:,} elements of {} are not {} equal experts with {} in use".format(
            size, pattern, all_of_them, used
        )
        return None
    return total - size * (all_of_them - used) // all_of_them


def elements(found: Holdings, routed: Optional[Dict[str, Any]], unknown: Dict[str, str]) -> Optional[int]:
    """Elements of all routed experts together, 0 without any; see ``active``."""
    if routed is not None:
        return _size(found, str(routed["modules"]))
    name = looks_routed(found)
    if name is None:
        return 0
    unknown["expert_parameters"] = "%s looks like experts, and nothing says which are" % name
    return None


def _size(found: Holdings, pattern: str) -> int:
    return sum(one.elements for one in found.parameters if any(_below(name, pattern) for name in one.names))


def _below(name: str, pattern: str) -> bool:
    """Whether the parameter ``name`` is one that ``pattern`` names, or below a module that it names."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) >= len(wanted) and all(fnmatchcase(a, b) for a, b in zip(parts, wanted))


def looks_routed(found: Holdings) -> Optional[str]:
    """The first module with parameters whose own name, else class, speaks of experts, None without one."""
    holding = set()
    for path in {one.path for one in found.parameters}:
        while path and path not in holding:
            holding.add(path)
            path = path.rpartition(".")[0]
    classed = None
    for path, module in found.modules:
        last = path.rpartition(".")[2]
        if not path or "shared" in last or path not in holding:
            continue
        if _LOOKS_ROUTED.search(last):
            return path
        if classed is None and _CLASS_ROUTED.search(type(module).__name__):
            classed = path  # also the class of a whole model, so a name says more
    return classed
