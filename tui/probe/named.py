"""Modules that a spec names by their class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, List

from .faults import TaskError

if TYPE_CHECKING:
    import torch


def of_classes(model: torch.nn.Module, names: Iterable[str], key: str) -> List[torch.nn.Module]:
    """The modules of every class in turn, ``model`` itself included where it is of one.

    Args:
        model: whose modules are looked at.
        names: of classes, without their modules.
        key: of the spec that has the names, for the sentence.

    Raises:
        TaskError: kind workload: the model has no module of one of the classes.
    """
    chosen: List[torch.nn.Module] = []
    for name in names:
        found = [one for one in model.modules() if type(one).__name__ == name]
        if not found:
            have = sorted({type(one).__name__ for one in model.modules()})
            raise TaskError(
                "workload",
                "%s names %s, which the model does not have" % (key, name),
                hint="it has %s" % ", ".join(have[:12]),
            )
        chosen += found
    return chosen
