"""Built-in model families: complete workloads in plain torch, with data made from a fixed seed.

Each family module has ``ARGUMENTS`` (what it may be given; ``DEFAULTS`` are its names and defaults), ``resolve(cfg)``
(what follows from other arguments filled in), ``build(cfg)``, ``batch(n, index, split, length, cfg)``, ``GROUPS``,
which names the parts of its inventory, and, where it can have experts, ``experts(cfg)``.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, Optional, Tuple

NAMES = ("decoder", "encoder", "mlp", "convnet")


def load(name: str, args: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
    """The family's module, and its arguments completed by their defaults and what follows from them.

    Raises:
        TaskError: an argument that the family does not have, one of the wrong type or out of range, or several that
            contradict one another.
    """
    family = importlib.import_module("." + name, __name__)
    return family, family.resolve(family.ARGUMENTS.complete(args))


def routed(family: Any, cfg: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """{"modules": pattern of the paths of the routed experts' modules, "total": experts, "used": top_k}, or None."""
    found = getattr(family, "experts", None)
    return found(cfg) if found else None
