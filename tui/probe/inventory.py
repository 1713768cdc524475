"""The model's parameters as a table: logical, stored, trainable, active, shared, buffers, checkpoint entries.

A tensor that two names share is one parameter; a state dictionary lists it twice, which is reported apart.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from . import experts, ranks
from .faults import TaskError, one_line
from .identity import Held, Holdings, holdings, nbytes

MOST_SHAPES = 400
"""Different shapes of tensors that are listed."""


def take(
    model: torch.nn.Module,
    groups: Optional[Dict[str, str]] = None,
    routed: Optional[Dict[str, Any]] = None,
    placement: Optional[Dict[str, Any]] = None,
    found: Optional[Holdings] = None,
) -> Dict[str, Any]:
    """The ``inventory`` table of protocol.ResultReady: fields of project.measured.Inventory.

    Args:
        model: any module, on any device, meta included.
        groups: {attribute of the model: words} naming the parts of a built-in family.
        routed: {"modules", "total", "used"} of the experts, see ``experts.active``.
        placement: {"ranks", "strategy"}; None: one rank.
        found: what the model holds, where that is known already.

    Raises:
        TaskError: a model without parameters, with uninitialised (lazy) ones, or with placeholders that do not
            say what they stand for.
    """
    found = found or holdings(model)
    parameters = found.parameters
    refuse_nothing(parameters)
    unknown: Dict[str, str] = {}
    table = {
        **_sizes(parameters),
        **_buffer_sizes(found),
        **_entries(model, found, unknown),
        **_packed_sizes(parameters),
        **ranks.shares(parameters, placement or {}, unknown),
        **ranks.gathered(model, placement or {}, unknown),
        "active_parameters": experts.active(found, routed, unknown),
        "expert_parameters": experts.elements(found, routed, unknown),
        "dtypes": _dtypes(parameters),
        "shapes": _shapes(parameters, unknown),
        "unpacked": _unpacked(found),
        "groups": grouped(model, found, groups or {}),
        "shared": [" = ".join(reversed(one.names)) for one in parameters if len(one.names) > 1],
        "modules": len(found.modules),
        "device": _device(parameters),
        "state": _state(parameters),
    }
    return {**table, "unknown": unknown}


def refuse_nothing(parameters: List[Held]) -> None:
    """Raise when there is nothing to count, or something that cannot be.

    Raises:
        TaskError: no parameters, 0 elements in all, or empty placeholders of an unknown size.
    """
    if not parameters:
        raise TaskError(
            "workload", "the model has no parameters", hint="does build() register its layers as attributes?"
        )
    total = sum(one.elements for one in parameters)
    empty = [one for one in parameters if one.shape == (0,)]
    if empty:
        raise TaskError(
            "workload",
            "{:,} of {:,} parameters are empty placeholders, such as {}, and do not say what they stand for; "
            "the others have {:,} elements, which is not the model's size".format(
                len(empty), len(parameters), empty[0].name, total
            ),
            hint="count the model before it is divided over ranks or emptied",
        )
    if not total:
        raise TaskError(
            "workload",
            "the parameters have 0 elements in all, the first of {:,} is {} of shape {}".format(
                len(parameters), parameters[0].name, list(parameters[0].shape)
            ),
            hint="check the sizes that build() is given",
        )


def _sizes(parameters: List[Held]) -> Dict[str, Any]:
    trained = [one for one in parameters if one.trainable]
    return {
        "unique_parameters": sum(one.elements for one in parameters),
        "tensors": len(parameters),
        "parameter_bytes": sum(one.bytes for one in parameters),
        "trainable_parameters": sum(one.elements for one in trained),
        "trainable_tensors": len(trained),
        "stored_elements": sum(one.stored for one in parameters),
        "storage_bytes": storage_bytes(
            tensor for one in parameters for tensor in [*one.payload, *one.metadata]
        ),
    }


def _packed_sizes(parameters: List[Held]) -> Dict[str, int]:
    packed = [one for one in parameters if one.packed]
    return {
        "packed_parameters": sum(one.elements for one in packed),
        "packed_payload_bytes": sum(one.payload_bytes for one in packed),
        "packed_metadata_bytes": sum(one.metadata_bytes for one in packed),
    }


def _buffer_sizes(found: Holdings) -> Dict[str, int]:
    kept = [one for _, one, persistent in found.buffers if persistent]
    return {
        "buffer_elements": sum(one.numel() for _, one, _ in found.buffers),
        "buffer_bytes": sum(nbytes(one) for _, one, _ in found.buffers),
        "persistent_buffer_elements": sum(one.numel() for one in kept),
        "persistent_buffer_bytes": sum(nbytes(one) for one in kept),
    }


def _entries(model: torch.nn.Module, found: Holdings, unknown: Dict[str, str]) -> Dict[str, int]:
    """Tensors of the state dictionary and their elements; a model whose own cannot be made is counted by name."""
    try:
        entries = [one for one in model.state_dict().values() if isinstance(one, torch.Tensor)]
    except Exception as error:
        unknown["state_entries"] = "state_dict() failed, so names are counted: %s" % one_line(error)
        entries = [one.tensor for one in found.parameters for _ in one.names]
        entries += [one for _, one, kept in found.buffers if kept]
    return {
        "state_entries": len(entries),
        "state_entry_elements": sum(one.numel() for one in entries),
    }


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the different storages behind ``tensors``: views of one storage are one, on meta too."""
    storages = {}
    loose = 0
    for one in tensors:
        try:
            storage = one.untyped_storage()
            storages[storage._cdata] = storage  # kept, so that no address is used twice
        except (RuntimeError, NotImplementedError):  # a sparse tensor, a wrapper without a storage of its own
            loose += nbytes(one)
    return loose + sum(one.nbytes() for one in storages.values())


def _dtypes(parameters: List[Held]) -> Dict[str, int]:
    """Logical elements by dtype."""
    found: Dict[str, int] = {}
    for one in parameters:
        found[one.dtype] = found.get(one.dtype, 0) + one.elements
    return found


def _shapes(parameters: List[Held], unknown: Dict[str, str]) -> Dict[str, int]:
    """Tensors by logical shape, dtype and whether they are trained: ``{"768x3072 float32": 12}``; packed ones apart."""
    found: Dict[str, int] = {}
    for one in parameters:
        if not one.packed:
            shape = "x".join(str(size) for size in one.shape) or "scalar"
            key = "%s %s%s" % (shape, one.dtype, "" if one.trainable else " frozen")
            found[key] = found.get(key, 0) + 1
    if len(found) <= MOST_SHAPES:
        return found
    unknown["shapes"] = "there are %d different shapes of tensors, more than are listed" % len(found)
    return {}


def _unpacked(found: Holdings) -> Dict[str, int]:
    """Elements that are not packed in a model with packed weights, by their kind: ``{"LayerNorm.weight": 768}``."""
    if not any(one.packed for one in found.parameters):
        return {}
    classes = {path: type(module).__name__ for path, module in found.modules}
    sizes: Dict[str, int] = {}
    for one in found.parameters:
        if not one.packed:
            key = "%s.%s" % (classes.get(one.path, "module"), one.name.rpartition(".")[2])
            sizes[key] = sizes.get(key, 0) + one.elements
    return sizes


def _state(parameters: List[Held]) -> str:
    if any(one.divided_by for one in parameters):
        return "partitioned"
    return "packed" if any(one.packed for one in parameters) else "complete"


def _device(parameters: List[Held]) -> str:
    return parameters[0].tensor.device.type


def grouped(model: torch.nn.Module, found: Holdings, words: Dict[str, str]) -> Dict[str, int]:
    """Unique elements by top-level part, in the model's order; a list of equal blocks is one part."""
    parts = _parts(model, found, words, "")
    if len(parts) == 1 and not words:
        # One wrapper around everything says nothing: look inside it.
        for name, child in model.named_children():
            if len(list(child.children())) > 1:
                return _parts(child, found, words, name + ".")
    return parts


def _parts(model: torch.nn.Module, found: Holdings, words: Dict[str, str], prefix: str) -> Dict[str, int]:
    sizes, own = _by_child(found, prefix)
    order = {name: place for place, name in enumerate(words)}
    parts: Dict[str, int] = {}
    places: Dict[str, int] = {}
    for name, child in model.named_children():
        if name in sizes or any(True for _ in child.parameters()):
            many = _blocks_in(child)
            word = words.get(name, "%s x {n}" % (prefix + name) if many > 1 else prefix + name).format(n=many)
            parts[word] = parts.get(word, 0) + sizes.get(name, 0)
            places.setdefault(word, order.get(name, len(order)))
    for name, size in own:
        word = words.get(name, prefix + "(own)")
        parts[word] = parts.get(word, 0) + size
        places.setdefault(word, order.get(name, len(order)))
    return dict(sorted(parts.items(), key=lambda one: places[one[0]]))


def _blocks_in(child: torch.nn.Module) -> int:
    listed = isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential))
    return len(list(child.children())) if listed else 0


def _by_child(found: Holdings, prefix: str) -> Tuple[Dict[str, int], List[Tuple[str, int]]]:
    """Elements below ``prefix`` by child, and (name, elements) of what the module itself holds or nobody below."""
    sizes: Dict[str, int] = {}
    own: List[Tuple[str, int]] = []
    for one in found.parameters:
        path = one.path + "." if one.path else ""
        if path == prefix or not path.startswith(prefix):
            own.append((one.name.rpartition(".")[2] if path == prefix else "", one.elements))
        else:
            name = path[len(prefix) :].partition(".")[0]
            sizes[name] = sizes.get(name, 0) + one.elements
    return sizes, own
