"""Count the model's parameters, on the meta device where the model allows it."""

from __future__ import annotations

import copy
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

import torch

from .. import adapt, confined, experts, inventory, module_tree, one_backward, steady, workload
from ..faults import TaskError, is_out_of_memory, one_line, place
from ..identity import Holdings, holdings
from ..protocol import ResultReady
from ..setting import convert, weight_dtype

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter

CHEAP_S = 2.0
"""A build on the meta device that took no longer is done twice, to see whether both are alike."""


def run(plan: Plan, report: Reporter) -> None:
    """Report the count; then, for a small model, once more with what a real backward showed."""
    report.enter("build")
    source = workload.load(plan.workload["source"], plan.workload.get("args") or {}, plan.folder)
    counting = Counting(plan, source)
    counting.count()
    if plan.extra.get("backward"):
        counting.table["unknown"]["gradient_receiving"] = "the backward did not come to its end"
    report(ResultReady("inventory", copy.deepcopy(counting.table)))
    if plan.extra.get("backward"):
        report.enter("first.backward")
        counting.run_backward()
        report(ResultReady("inventory", counting.table))


class Counting:
    """One count: the model, what it holds, and the table that becomes of it."""

    def __init__(self, plan: Plan, source: workload.Workload) -> None:
        self.plan = plan
        self.source = source
        self.table: Dict[str, Any] = {}
        self.model: Optional[torch.nn.Module] = None
        self.found = Holdings([], [], [])
        self.unbuilt = ""
        """Why there is no model with values, where one was asked for."""

    def count(self) -> None:
        """Build, count, write the tree.

        Raises:
            TaskError: nothing, too little or something that changes was found, or the model cannot be built.
        """
        unknown: Dict[str, str] = {}
        self.model = self._on_meta(unknown)
        on_meta = self.model is not None
        if self.model is None:
            self.model = self._for_real()
        self._take(unknown)
        if on_meta and self.plan.extra.get("backward") and not one_backward.too_much(self.found):
            self._compare_with_real(unknown)

    def run_backward(self) -> None:
        """Complete the table and the tree by what one real backward showed.

        Raises:
            TaskError: parameters come, go or change in a forward.
        """
        unknown = self.table["unknown"]
        unknown.pop("gradient_receiving", None)
        why = self.unbuilt or one_backward.too_much(self.found)
        assert self.model is not None
        if not why and any(one.tensor.is_meta for one in self.found.parameters):
            why = "build() leaves parameters on the meta device, without values"
        seen = one_backward.Backward()
        seen.why = why
        if not why:
            batch = self.plan.batch
            length = batch.get("length_min") or batch.get("length")
            seen = one_backward.run(
                self.model,
                self.found,
                self.source,
                length,
                self.plan.seed,
                [os.path.realpath(self.plan.folder)],
            )
        self.table.update(one_backward.table(seen, self.found, unknown))
        self._write_tree(seen)

    def _built(self) -> torch.nn.Module:
        torch.manual_seed(self.plan.seed)
        model = self.source.build()
        frozen = self.plan.workload.get("frozen") or ()
        if frozen:
            adapt.freeze(model, frozen)
        return model

    def _on_meta(self, unknown: Dict[str, str]) -> Optional[torch.nn.Module]:
        """The model on the meta device, held to most of the memory that is free; None: it cannot be built there.

        Raises:
            TaskError: it needs more than that all the same.
        """
        begun = time.monotonic()
        growth = _most_growth()
        try:
            with torch.device("meta"), confined.held_to(growth):
                model = self._built()
                quick = time.monotonic() - begun <= CHEAP_S
                again = self._built() if quick else None
        except TaskError:
            raise
        except MemoryError as error:
            raise TaskError(
                "unsupported",
                "building the model, even without its values, needs more than {} of memory that are free here".format(
                    "the bytes" if growth is None else "the {:,} B".format(growth)
                ),
                hint="check how many layers build() is given, and what else it loads",
            ) from error
        except Exception as error:
            where = place(error, [os.path.realpath(self.plan.folder)])
            said = "%s: %s" % (type(error).__name__, one_line(error, 120))
            unknown["meta"] = "cannot be built on the meta device: %s%s" % (
                where + ": " if where else "",
                said,
            )
            return None
        if again is not None:
            steady.refuse_unlike(holdings(model), holdings(again))
        return model

    def _for_real(self) -> torch.nn.Module:
        """The model with its values, held to most of the memory that is free.

        Raises:
            TaskError: it needs more than that.
        """
        growth = _most_growth()
        try:
            with confined.held_to(growth):
                return self._built()
        except Exception as error:
            if growth is None or not is_out_of_memory(error):
                raise
            raise TaskError(
                "unsupported",
                "the model cannot be built on the meta device, and building it for real needs more than the "
                "{:,} B of memory that are free here".format(growth),
                hint="let build() make its layers without reading values, or count on a larger machine",
            ) from error

    def _take(self, unknown: Dict[str, str]) -> None:
        """Count ``model`` as it stands, in the bytes that it will have under the precision setting."""
        assert self.model is not None
        self.found = holdings(self.model)
        _convert(self.model, self.found, weight_dtype(self.plan.precision))
        self.found = holdings(self.model)
        self.table = inventory.take(
            self.model,
            self.source.groups,
            self.source.experts or experts.said(self.model),
            self.plan.extra.get("placement"),
            self.found,
        )
        self.table["unknown"].update(unknown)
        if self.source.unpacked and not self.table["packed_parameters"]:
            for key in ("packed_parameters", "packed_payload_bytes", "packed_metadata_bytes"):
                self.table[key] = None
                self.table["unknown"][key] = self.source.unpacked
        self._write_tree(one_backward.Backward())

    def _compare_with_real(self, unknown: Dict[str, str]) -> None:
        """Build for real too; where that holds other parameters than on meta, count that one.

        Raises:
            TaskError: two builds for real differ.
        """
        try:
            model = self._for_real()
        except TaskError as error:
            self.unbuilt = error.sentence
            return
        except Exception as error:
            where = place(error, [os.path.realpath(self.plan.folder)])
            said = "%s: %s" % (type(error).__name__, one_line(error))
            self.unbuilt = "it cannot be built for real: %s%s" % (where + ": " if where else "", said)
            return
        found = holdings(model)
        said = steady.difference(self.found, found)
        self.model = model
        if said is None:
            self.found = found
            return
        steady.refuse_unlike(found, holdings(self._for_real()))
        unknown["meta"] = "holds other parameters on the meta device than for real: %s" % said
        self._take(unknown)

    def _write_tree(self, seen: one_backward.Backward) -> None:
        if not self.plan.journal:
            return
        made = module_tree.table(self.found, seen.calls, seen.received)
        try:
            module_tree.write(made, module_tree.path_of(self.plan.journal))
        except OSError as error:
            self.table["unknown"]["modules"] = "the module tree could not be written: %s" % (
                error.strerror or error
            )


def _most_growth() -> Optional[int]:
    """Bytes by which this process may grow while it builds: most of those that are free; None: not known."""
    free = confined.available_bytes()
    return None if free is None else free * 4 // 5


def _convert(model: torch.nn.Module, found: Holdings, dtype: torch.dtype) -> None:
    """Give floating-point weights the dtype of the setting; packed and divided ones stay as they are."""
    if not any(one.packed or one.divided_by for one in found.parameters):
        convert(model, dtype)
        return
    for one in found.parameters:
        if not (one.packed or one.divided_by) and one.tensor.is_floating_point():
            one.tensor.data = one.tensor.data.to(dtype)
    for _, one, _ in found.buffers:
        if one.is_floating_point():
            one.data = one.data.to(dtype)
