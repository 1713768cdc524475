"""Built-in model families: complete workloads in plain torch, with data made from a fixed seed.

Each family module has ``DEFAULTS`` (its arguments and their defaults), ``build(cfg)``,
``batch(n, index, split, length, cfg)`` and ``GROUPS``, which names the parts of its inventory.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Dict, Tuple

from ..faults import TaskError

NAMES = ("decoder", "mlp", "convnet")


def load(name: str, args: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
    """The family's module, and its arguments completed by their defaults.

    Raises:
        TaskError: an argument that the family does not have, or one of the wrong type.
    """
    family = importlib.import_module("." + name, __name__)
    return family, complete(name, family.DEFAULTS, args)


def complete(name: str, defaults: Dict[str, Any], args: Dict[str, Any]) -> Dict[str, Any]:
    """``defaults`` overlaid with ``args``; a default of None takes any type."""
    for key, value in args.items():
        if key not in defaults:
            near = difflib.get_close_matches(key, defaults, 1)
            raise TaskError(
                "workload",
                "workload.args.%s is not an argument of %s" % (key, name),
                hint="did you mean %s?" % near[0] if near else "it has %s" % ", ".join(sorted(defaults)),
            )
        default = defaults[key]
        same = isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)
        if default is not None and not same and not (isinstance(default, float) and type(value) is int):
            raise TaskError(
                "workload",
                "workload.args.%s of %s must be %s, got %r" % (key, name, type(default).__name__, value),
            )
    return {**defaults, **args}
