"""Comparing the gradients of one backward with a reference's.

Errors are relative: the norm of the difference over the norm of the reference, in fp64, in total and by module.
"""

from __future__ import annotations

import os
from typing import Any, Dict

import torch


def collect(model: torch.nn.Module, scale: float = 1.0) -> Dict[str, torch.Tensor]:
    """{parameter name: gradient as fp32 on the CPU}, divided by ``scale``; parameters without one are left out.

    Of a DTensor the local part, which is all of it on one rank.
    """
    return {
        name: getattr(one.grad, "_local_tensor", one.grad).detach().float().cpu() / scale
        for name, one in model.named_parameters()
        if one.grad is not None
    }


def write(gradients: Dict[str, torch.Tensor], path: str) -> None:
    """Keep gradients for other processes to compare with."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save(gradients, path)


def read(path: str) -> Dict[str, torch.Tensor]:
    """Gradients that ``write`` kept."""
    return torch.load(path, map_location="cpu", weights_only=True)


def compare(found: Dict[str, torch.Tensor], reference: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    """{"error", "cosine", "worst", "worst_error", "nonfinite", "zeroed"} of ``found`` against ``reference``.

    ``worst`` is the module (parameter name without its last part) with the largest relative error among those
    that hold at least a thousandth of the reference's norm; ``zeroed`` counts elements that are zero in ``found``
    and not in the reference.
    """
    modules, total, nonfinite, zeroed = {}, [0.0, 0.0, 0.0, 0.0], 0, 0
    for name, right in reference.items():
        left = found.get(name)
        if left is None:
            left = torch.zeros_like(right)
        a, b = left.double(), right.double()
        nonfinite += int((~torch.isfinite(a)).sum())
        zeroed += int(((a == 0) & (b != 0)).sum())
        parts = (float(((a - b) ** 2).sum()), float((b**2).sum()), float((a**2).sum()), float((a * b).sum()))
        module = name.rpartition(".")[0] or name
        mine = modules.setdefault(module, [0.0, 0.0])
        mine[0] += parts[0]
        mine[1] += parts[1]
        total = [have + more for have, more in zip(total, parts)]
    floor = total[1] * 1e-6
    ranked = [((part[0] / part[1]) ** 0.5, module) for module, part in modules.items() if part[1] > floor]
    worst_error, worst = max(ranked, default=(None, ""))
    return {
        "error": (total[0] / total[1]) ** 0.5 if total[1] else None,
        "cosine": total[3] / (total[1] * total[2]) ** 0.5 if total[1] and total[2] else None,
        "worst": worst,
        "worst_error": worst_error,
        "nonfinite": nonfinite,
        "zeroed": zeroed,
    }
