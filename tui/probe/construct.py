"""Finding a class that the spec names, and calling it with the arguments that the spec gives.

Used for the optimizer and the scheduler.  What is wrong is one sentence that names the key of the spec, what is
taken instead, and the nearest name.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .faults import TaskError, one_line

SHOWN = 12
"""Arguments or classes that a sentence lists at most."""


def find(name: str, key: str, folder: str, base: Tuple[type, ...]) -> Callable[..., Any]:
    """The class or function named ``package.module.Class`` or ``module:Class``.

    Args:
        name: as the spec says it.
        key: of the spec, for sentences: ``workload.optimizer``.
        folder: the project's, whose modules are found before installed ones.
        base: what a class of torch must be a subclass of; those of others only have to behave like it.

    Raises:
        TaskError: no such module or class, or it is something else.
    """
    module_name, _, cls_name = name.partition(":") if ":" in name else name.rpartition(".")
    is_torch = module_name.partition(".")[0] == "torch"
    if not is_torch and folder and os.path.abspath(folder) not in sys.path:
        sys.path.insert(0, os.path.abspath(folder))  # as if the project's folder held a script
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise TaskError(
            "workload",
            "%s.name = %r cannot be found: %s" % (key, name, one_line(error)),
            hint=_where_from(module_name, error),
        ) from error
    found = getattr(module, cls_name, None)
    if not callable(found) or (is_torch and not _is(found, base)):
        what = "there is no %s in %s" % (cls_name, module_name)
        if found is not None:
            what = "it is not a class of that kind" if is_torch else "it cannot be called"
        known = [one for one in dir(module) if one[0] != "_" and _is(getattr(module, one, None), base)]
        near = difflib.get_close_matches(cls_name, known, 1)
        raise TaskError(
            "workload",
            "%s.name = %r cannot be found: %s" % (key, name, what),
            hint="did you mean %s?" % near[0] if near else "it has %s" % listed(known) if known else "",
        )
    return found


def _where_from(module_name: str, error: ImportError) -> str:
    top = module_name.partition(".")[0]
    missing = (error.name or "").partition(".")[0]
    if top == "torch":
        return "such as torch.optim.AdamW or torch.optim.lr_scheduler.CosineAnnealingLR"
    if missing in ("", top):
        return "write %s.py beside the project, or install the package that has it" % top
    return "install %s there" % missing


def _is(found: Any, base: Tuple[type, ...]) -> bool:
    return isinstance(found, type) and issubclass(found, base)


def listed(names: List[str]) -> str:
    """At most SHOWN of ``names``."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def parameters_of(cls: Callable[..., Any]) -> Optional[Mapping[str, inspect.Parameter]]:
    """The parameters that ``cls`` can be called with by name; None where it does not say, or takes any."""
    try:
        found = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_KEYWORD for one in found.values()):
        return None
    return {
        name: one for name, one in found.items() if one.kind not in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL)
    }


def check_arguments(
    cls: Callable[..., Any], name: str, key: str, args: Dict[str, Any], given: Dict[str, Any]
) -> None:
    """Raise for an argument that ``cls`` does not take, or one that it needs and does not get.

    Args:
        cls: see ``find``.
        name: as the spec says it.
        key: of the spec.
        args: those of the spec.
        given: what it gets beside them, such as the parameters, by the names of the signature.

    Raises:
        TaskError: with the nearest name, or those that it takes.
    """
    known = parameters_of(cls)
    if known is None:
        return
    short = name.replace(":", ".").rpartition(".")[2]
    own = [one for one in known if one not in given]
    for one in args:
        if one not in own:
            near = difflib.get_close_matches(one, own, 1)
            raise TaskError(
                "workload",
                "%s.args.%s: %s is not an argument of %s" % (key, one, one, short),
                hint="did you mean %s?" % near[0] if near else "it takes %s" % (listed(own) or "none"),
            )
    for one in own:
        if one not in args and known[one].default is inspect.Parameter.empty:
            raise TaskError(
                "workload",
                "%s needs the argument %s" % (name, one),
                hint="write %s = ... into %s.args" % (one, key),
            )


def refused(name: str, key: str, error: BaseException) -> TaskError:
    """The sentence for what a constructor raised."""
    return TaskError("workload", "%s: %s refuses its arguments: %s" % (key, name, one_line(error)))
