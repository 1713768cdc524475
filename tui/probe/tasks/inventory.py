"""Count the model's parameters, on the meta device where the model allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .. import inventory, workload
from ..faults import TaskError
from ..protocol import ResultReady
from ..setting import convert, weight_dtype

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    report.enter("build")
    torch.manual_seed(plan.seed)
    source = workload.load(plan.workload["source"], plan.workload.get("args") or {}, plan.folder)
    unknown = {}
    try:
        with torch.device("meta"):
            model = source.build()
    except TaskError:
        raise
    except Exception as error:
        unknown["meta"] = "cannot be built on the meta device: %s" % type(error).__name__
        model = source.build()
    lazy = any(torch.nn.parameter.is_lazy(one) for one in model.parameters())
    if not lazy:
        convert(model, weight_dtype(plan.precision))  # counted in the bytes that they will have
    table = inventory.take(model, source.groups)
    table["unknown"] = unknown
    report(ResultReady("inventory", table))
