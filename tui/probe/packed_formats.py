"""Layers that keep low-bit weights under names of their own, recognised by these names alone.

HQQ (``W_q`` and ``meta``), compressed-tensors (``weight_packed``), MXFP4 experts as gpt-oss has them (``*_blocks`` and
``*_scales``: OCP Microscaling Formats 1.0, 32 values a scale, two in a byte) and float8 with scales beside it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

Form = Tuple[Tuple[int, ...], str, List[torch.Tensor], List[torch.Tensor]]
"""Logical shape, what one value is, payload, metadata."""

_BESIDE = ("weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape", "weight_global_scale")
_FLOAT8_SCALES = ("weight_scale_inv", "weight_scale")


def forms(module: torch.nn.Module) -> List[Form]:
    """Every weight that ``module`` itself keeps in one of these ways."""
    held = {
        name: one
        for group in (module._buffers, module._parameters)
        for name, one in group.items()
        if isinstance(one, torch.Tensor)
    }
    found = [_hqq(module, held), _compressed(module, held), _float8(held)]
    return [one for one in found if one is not None] + _microscaled(held)


def _hqq(module: torch.nn.Module, held: Dict[str, torch.Tensor]) -> Optional[Form]:
    meta: Any = vars(module).get("meta")
    if "W_q" not in held or not isinstance(meta, dict) or "shape" not in meta:
        return None
    scales = [one for one in meta.values() if isinstance(one, torch.Tensor)]
    return tuple(meta["shape"]), "int%s" % meta.get("nbits", ""), [held["W_q"]], scales


def _compressed(module: torch.nn.Module, held: Dict[str, torch.Tensor]) -> Optional[Form]:
    packed = held.get("weight_packed")
    if packed is None or "weight_scale" not in held:
        return None
    high, wide = getattr(module, "out_features", None), getattr(module, "in_features", None)
    if not (isinstance(high, int) and isinstance(wide, int)):
        shape = held.get("weight_shape")
        if shape is None or shape.is_meta:
            return None
        high, wide = (int(one) for one in shape.tolist())
    bits = packed.numel() * packed.element_size() * 8 // max(1, high * wide)
    return (high, wide), "int%d" % bits, [packed], [held[name] for name in _BESIDE if name in held]


def _float8(held: Dict[str, torch.Tensor]) -> Optional[Form]:
    weight = held.get("weight")
    scales = [held[name] for name in _FLOAT8_SCALES if name in held]
    if weight is None or not scales or not str(weight.dtype).startswith("torch.float8"):
        return None
    return tuple(weight.shape), str(weight.dtype).replace("torch.", ""), [weight], scales


def _microscaled(held: Dict[str, torch.Tensor]) -> List[Form]:
    found: List[Form] = []
    for name, one in held.items():
        scales = held.get(name[: -len("_blocks")] + "_scales") if name.endswith("_blocks") else None
        if scales is not None and one.dtype == torch.uint8 and one.shape[:-1] == scales.shape:
            shape = (*one.shape[:-2], 2 * one.shape[-2] * one.shape[-1])
            found.append((shape, "mxfp4", [one], [scales]))
    return found
