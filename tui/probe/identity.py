"""Which parameters a model has: the framework's own objects, each once, with every name that it goes by.

Never names, hooks, addresses or entries of a state dictionary: a tensor that two modules hold is one parameter.
The order is the framework's own: a module before those that it holds, a parameter where it is met first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Dict, Iterator, List, Set, Tuple

import torch

from . import packed, partitioned
from .faults import TaskError

MOST_PATHS = 1000000
"""Paths to modules that are looked at: modules that hold each other many times over have no end of them."""


@dataclass
class Held:
    """One parameter."""

    tensor: torch.Tensor
    names: List[str]
    """Dotted, the first one first."""
    path: str
    """The module that holds it first; "" is the model."""
    shape: Tuple[int, ...]
    """The logical one."""
    dtype: str
    trainable: bool
    payload: List[torch.Tensor]
    """What its values are stored in, here."""
    metadata: List[torch.Tensor] = field(default_factory=list)
    """Scales, zero points and the like of a packed one."""
    packed: bool = False
    divided_by: str = ""
    """Who left only a part of it here; "": it is whole."""

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]

    @property
    def elements(self) -> int:
        """Logical elements."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Elements of its payload here."""
        return sum(one.numel() for one in self.payload)

    @property
    def payload_bytes(self) -> int:
        """See ``payload``."""
        return sum(nbytes(one) for one in self.payload)

    @property
    def metadata_bytes(self) -> int:
        """See ``metadata``."""
        return sum(nbytes(one) for one in self.metadata)

    @property
    def bytes(self) -> int:
        """Bytes of what is here, metadata included."""
        return self.payload_bytes + self.metadata_bytes


@dataclass
class Holdings:
    """What a model holds."""

    parameters: List[Held]
    buffers: List[Tuple[str, torch.Tensor, bool]]
    """(path of the module, tensor, whether a checkpoint has it), each tensor once, without those of packed weights."""
    modules: List[Tuple[str, torch.nn.Module]]
    """Each module once by its first path, parents first."""

    @property
    def elements(self) -> int:
        """Logical elements of all parameters."""
        return sum(one.elements for one in self.parameters)


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's own elements, those of a wrapper's inner tensors."""
    inner = packed.inner_tensors(tensor)
    return sum(one.numel() * one.element_size() for _, one in inner)


def holdings(model: torch.nn.Module) -> Holdings:
    """Everything that ``model`` holds, each object once.

    Raises:
        TaskError: uninitialised (lazy) parameters or buffers, or packed ones whose size nothing says.
    """
    paths = list(_paths(model))
    refuse_lazy(paths)
    refuse_hidden(paths)
    names: Dict[int, List[str]] = {}
    for path, module, _ in paths:
        for key, one in module._parameters.items():
            if one is not None:
                names.setdefault(id(one), []).append(_join(path, key))
    divided = partitioned.originals(model)
    parameters: List[Held] = []
    taken: Set[int] = set()
    # A scale belongs to a packed weight that may stand after it.
    groups = {path: packed.of_module(module) for path, module, first in paths if first}
    taken.update(id(one) for group in groups.values() for form in group for one in form.metadata)
    for path, module, first in paths:
        if first:
            _add(module, path, groups[path], names, divided, taken, parameters)
    modules = [(path, module) for path, module, first in paths if first]
    return Holdings(parameters, _buffers(paths, taken), modules)


def _add(
    module: torch.nn.Module,
    path: str,
    group: List[packed.Packed],
    names: Dict[int, List[str]],
    divided: Dict[int, Tuple[int, ...]],
    taken: Set[int],
    parameters: List[Held],
) -> None:
    """Append what ``module`` itself holds and nobody held before."""
    buffers = dict(module._buffers.items())
    for form in group:
        whole = form.payload[0]
        if id(whole) not in taken:
            taken.add(id(whole))
            held_as = [_join(path, key) for key, one in buffers.items() if one is whole]
            parameters.append(_packed(whole, names.get(id(whole), held_as), path, form))
    if group:
        bias = buffers.get("bias")
        if bias is not None and id(bias) not in taken:  # such modules keep this weight as a buffer too
            taken.add(id(bias))
            parameters.append(_plain(bias, [_join(path, "bias")], path))
    for one in module._parameters.values():
        if one is None or id(one) in taken:
            continue
        taken.add(id(one))
        part = partitioned.of_parameter(one, divided)
        form = packed.of_parameter(one, module) if part is None else None
        if part is not None:
            parameters.append(_part(one, names[id(one)], path, part))
        elif form is not None:
            parameters.append(_packed(one, names[id(one)], path, form))
        else:
            parameters.append(_plain(one, names[id(one)], path))


def _plain(one: torch.Tensor, names: List[str], path: str) -> Held:
    return Held(one, names, path, tuple(one.shape), _dtype(one), one.requires_grad, [one])


def _packed(one: torch.Tensor, names: List[str], path: str, form: packed.Packed) -> Held:
    return Held(
        one, names, path, form.shape, form.dtype, one.requires_grad, form.payload, form.metadata, packed=True
    )


def _part(one: torch.Tensor, names: List[str], path: str, part: partitioned.Part) -> Held:
    here = [] if part.local is None else [part.local]
    return Held(one, names, path, part.shape, _dtype(one), one.requires_grad, here, divided_by=part.by)


def _dtype(one: torch.Tensor) -> str:
    return str(one.dtype).replace("torch.", "")


def _join(path: str, key: str) -> str:
    return "%s.%s" % (path, key) if path else key


def _paths(model: torch.nn.Module) -> Iterator[Tuple[str, torch.nn.Module, bool]]:
    """(path, module, whether it is met for the first time) by every path there is, in the framework's order."""
    seen: Set[int] = set()
    stack: List[Tuple[str, Any, Tuple[int, ...]]] = [("", model, ())]
    for _ in range(MOST_PATHS):
        if not stack:
            return
        path, module, above = stack.pop()
        yield path, module, id(module) not in seen
        seen.add(id(module))
        for key, _ in module._modules.items():  # a scripted model's holder iterates by items alone
            _refuse_name(key, path)
        inside = (*above, id(module))
        children = [
            (_join(path, key), child, inside)
            for key, child in module._modules.items()
            if child is not None and id(child) not in inside
        ]
        stack += reversed(children)
    raise TaskError(
        "workload",
        "modules hold each other by more than {:,} paths".format(MOST_PATHS),
        hint="let a module be held in fewer places",
    )


def _refuse_name(key: str, path: str) -> None:
    """Raise for a name that ``add_module`` refuses too: the path would lead elsewhere.

    Raises:
        TaskError: an empty name, or one with a dot.
    """
    if not key or "." in key:
        raise TaskError(
            "workload",
            "a module in %s is named %r; names of modules are not empty and have no dot"
            % (path or "the model", key),
            hint="add it with add_module() under another name",
        )


def refuse_lazy(paths: List[Tuple[str, torch.nn.Module, bool]]) -> None:
    """Raise when parameters, or buffers, have no shape yet.

    Raises:
        TaskError: how many of how many, the first one's name, and what the others add up to.
    """
    every: Dict[int, Tuple[str, torch.Tensor]] = {}
    for path, module, _ in paths:
        for key, one in module._parameters.items():
            if one is not None:
                every.setdefault(id(one), (_join(path, key), one))
    lazy = [name for name, one in every.values() if torch.nn.parameter.is_lazy(one)]
    if lazy:
        known = sum(one.numel() for _, one in every.values() if not torch.nn.parameter.is_lazy(one))
        raise TaskError(
            "workload",
            "{:,} of {:,} parameters are not initialised (lazy), such as {}; the others have {:,} elements, "
            "which is not the model's size".format(len(lazy), len(every), lazy[0], known),
            hint="run one batch through the model in build()",
        )
    for path, module, _ in paths:
        for key, one in module._buffers.items():
            if one is not None and torch.nn.parameter.is_lazy(one):
                raise TaskError(
                    "workload",
                    "the buffer %s is not initialised (lazy), so its size is not known" % _join(path, key),
                    hint="run one batch through the model in build()",
                )


def refuse_hidden(paths: List[Tuple[str, torch.nn.Module, bool]]) -> None:
    """Raise when modules keep weights where no parameter or buffer shows them: the others are a part of the model.

    Raises:
        TaskError: how many modules, the first one's path and class.
    """
    hidden = [(path, module) for path, module, first in paths if first and packed.of_object(module)]
    if hidden:
        path, module = hidden[0]
        raise TaskError(
            "workload",
            "{:,} module{} weights in a packed object that shows no tensor, such as {} ({}.{}), so the count "
            "would be a part of the model".format(
                len(hidden),
                " keeps" if len(hidden) == 1 else "s keep",
                path or "the model",
                type(module).__module__,
                type(module).__name__,
            ),
            hint="count the model before it is converted for inference",
        )


def _buffers(
    paths: List[Tuple[str, torch.nn.Module, bool]], taken: Set[int]
) -> List[Tuple[str, torch.Tensor, bool]]:
    found: Dict[int, Tuple[str, torch.Tensor, bool]] = {}
    for path, module, _ in paths:
        for key, one in module._buffers.items():
            if one is None or id(one) in taken:
                continue
            kept = key not in module._non_persistent_buffers_set
            before = found.get(id(one))
            found[id(one)] = (before[0] if before else path, one, kept or bool(before and before[2]))
    return list(found.values())
