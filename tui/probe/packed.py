"""Low-bit weights: what they are logically, and which of their tensors are payload and which metadata.

A packed weight is one logical tensor that is stored as several: the payload (two 4-bit values a byte, eight an
int32, int8, float8) and its metadata (scales, zero points, code books, group indices).  Recognised by their
attributes alone, so that no quantization package is needed: bitsandbytes (``quant_state``, ``SCB``), tensor
subclasses as torchao's (``__tensor_flatten__``), and modules with ``qweight`` as GPTQ and AWQ have them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, List, Optional, Tuple

import torch

from . import packed_formats
from .faults import TaskError

_METADATA = re.compile(r"scal|zero|absmax|code|offset|factor|mean|idx|perm|scb|lut", re.IGNORECASE)
_OBJECTS = re.compile(r"PackedParams|CellParams")
_WORD_BITS = 32
_GROUPED = ("qweight", "qzeros", "scales", "g_idx")


@dataclass
class Packed:
    """One logical tensor in low-bit form."""

    shape: Tuple[int, ...]
    """The logical one."""
    dtype: str
    """What one value is: nf4, int4, int8, float8_e4m3fn."""
    payload: List[torch.Tensor]
    metadata: List[torch.Tensor] = field(default_factory=list)


def of_parameter(parameter: torch.Tensor, module: Optional[torch.nn.Module] = None) -> Optional[Packed]:
    """How ``parameter`` is packed, None when it is not; ``module`` holds it."""
    return four_bit(parameter) or _eight_bit(parameter, module) or _subclass(parameter)


def of_module(module: torch.nn.Module) -> List[Packed]:
    """The weights that ``module`` itself keeps in low-bit form under names of their own.

    Raises:
        TaskError: nothing says how many inputs and outputs one has.
    """
    grouped = _grouped(module)
    return ([] if grouped is None else [grouped]) + [Packed(*one) for one in packed_formats.forms(module)]


def _grouped(module: torch.nn.Module) -> Optional[Packed]:
    """The weight of a module that keeps it as ``qweight``, ``qzeros``, ``scales`` and ``g_idx``; None: not one.

    Raises:
        TaskError: nothing says how many inputs and outputs it has.
    """
    have = {name: one for name in _GROUPED if isinstance(one := _own(module, name), torch.Tensor)}
    words = have.get("qweight")
    if words is None or words.dtype not in (torch.int32, torch.int16, torch.int8, torch.uint8):
        return None
    if "scales" not in have:
        return None
    size = _inputs_and_outputs(module, words, have["scales"])
    if size is None:
        raise TaskError(
            "workload",
            "%s keeps a packed qweight and says neither in_features and out_features nor bits"
            % type(module).__name__,
            hint="set them on the module, so that its logical size is known",
        )
    bits = words.numel() * words.element_size() * 8 // max(1, size[0] * size[1])
    metadata = [one for name, one in have.items() if name != "qweight"]
    return Packed((size[1], size[0]), "int%d" % bits, [words], metadata)


def inner_tensors(tensor: torch.Tensor, prefix: str = "") -> List[Tuple[str, torch.Tensor]]:
    """(dotted attribute, plain tensor) of everything that a wrapper subclass is made of, itself if it is none."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None or type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return [(prefix, tensor)]
    found = []
    for name in flatten()[0]:
        inner = getattr(tensor, name, None)
        if isinstance(inner, torch.Tensor):
            found += inner_tensors(inner, "%s.%s" % (prefix, name) if prefix else name)
    return found


def _own(module: torch.nn.Module, name: str) -> Optional[torch.Tensor]:
    for held in (module._buffers, module._parameters):
        if name in held:  # those of a scripted module have no get()
            return held[name]
    return None


def of_object(module: torch.nn.Module) -> bool:
    """Whether ``module`` keeps weights in an object that shows no tensor, as torch's own quantized layers do."""
    objects = [one for one in vars(module).values() if isinstance(one, torch.ScriptObject)]
    return any(_OBJECTS.search(str(one._type())) for one in objects)


def _inputs_and_outputs(
    module: torch.nn.Module, words: torch.Tensor, scales: torch.Tensor
) -> Optional[Tuple[int, int]]:
    for inputs, outputs in (("in_features", "out_features"), ("infeatures", "outfeatures")):
        wide, high = getattr(module, inputs, None), getattr(module, outputs, None)
        if isinstance(wide, int) and isinstance(high, int) and min(wide, high) > 0:
            return wide, high
    bits = getattr(module, "bits", None) or getattr(module, "w_bit", None)
    if not isinstance(bits, int) or bits < 1 or words.dim() != 2:
        return None
    values = words.numel() * words.element_size() * 8 // bits
    outputs = scales.shape[-1]  # of (groups, outputs)
    return (values // outputs, outputs) if outputs and values % outputs == 0 else None


def four_bit(parameter: torch.Tensor) -> Optional[Packed]:
    """How bitsandbytes packs ``parameter`` in 4 bits, None when it does not."""
    state = getattr(parameter, "quant_state", None)
    shape = getattr(state, "shape", None)
    if state is None or shape is None:
        return None
    metadata = _state_tensors(state)
    kind = getattr(state, "quant_type", None) or getattr(parameter, "quant_type", None) or "int4"
    return Packed(tuple(shape), str(kind), [parameter.data], metadata)


def _state_tensors(state: Any) -> List[torch.Tensor]:
    """Tensors of a quantization state: scales, code book, offset, and those of a state that packs the scales."""
    named = [getattr(state, name, None) for name in ("absmax", "code", "offset")]
    found = [one for one in named if isinstance(one, torch.Tensor)]
    nested = getattr(state, "state2", None)
    return found + (_state_tensors(nested) if nested is not None and nested is not state else [])


def _eight_bit(parameter: torch.Tensor, module: Optional[torch.nn.Module]) -> Optional[Packed]:
    if parameter.dtype != torch.int8:
        return None
    # The module takes the scales over from its weight in the first forward.
    holders = (parameter, module, getattr(module, "state", None))
    scales = next(
        (one for one in (getattr(who, "SCB", None) for who in holders) if isinstance(one, torch.Tensor)), None
    )
    return None if scales is None else Packed(tuple(parameter.shape), "int8", [parameter.data], [scales])


def _subclass(parameter: torch.Tensor) -> Optional[Packed]:
    if not hasattr(parameter, "__tensor_flatten__"):
        return None
    payload, metadata = [], []
    for name, one in inner_tensors(parameter):
        is_value = one.element_size() == 1 or not one.is_floating_point()
        last = name.rpartition(".")[2]
        (payload if is_value and not _METADATA.search(last) else metadata).append(one)
    if not payload:
        return None
    return Packed(tuple(parameter.shape), _value_name(payload, parameter.numel()), payload, metadata)


def _value_name(payload: List[torch.Tensor], elements: int) -> str:
    largest = max(payload, key=lambda one: one.numel())
    if largest.is_floating_point() and largest.numel() >= elements:
        return str(largest.dtype).replace("torch.", "")
    held = sum(one.numel() * one.element_size() for one in payload) * 8
    return "int%d" % max(1, held // max(1, elements))
