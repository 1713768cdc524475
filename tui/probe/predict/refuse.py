"""What cannot be predicted, said in a sentence: the operator, the module, and the line of the workload."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch
from torch._subclasses import fake_tensor

from ..faults import TaskError, is_out_of_memory, one_line, place

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..session import Session

MEASURE = "measure it: peakmark probe"
_OPERATOR = re.compile(r"\b(aten|prims|torchvision|[a-z_]\w*)\.(\w+)(?:\.\w+)?")


def before(plan: Plan) -> None:
    """Raise for what is known beforehand not to be predictable.

    Raises:
        TaskError: kind prediction.
    """
    if plan.step.get("compile"):
        raise TaskError(
            "prediction",
            "cannot predict: workload.step.compile is on, and what torch.compile's kernels keep is not what the "
            "operators of the model as written would",
            hint=MEASURE + ", or set workload.step.compile to false to predict the model as it is written",
        )


def built(session: Session) -> None:
    """Raise for what a model or an optimizer is known to decide by values, or to do behind the operators' back.

    Raises:
        TaskError: kind prediction.
    """
    for name, module in session.model.named_modules():
        inside = " at %s" % name if name else ""
        if isinstance(module, torch.nn.DataParallel):
            raise TaskError(
                "prediction",
                "cannot predict: nn.DataParallel%s spreads a batch over several GPUs of one process" % inside,
                hint="build the module itself; placement.strategy says how ranks share the work",
            )
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise TaskError(
                "prediction",
                "cannot predict: the module%s is compiled, and what torch.compile's kernels keep is not what the "
                "operators as written would" % inside,
                hint=MEASURE,
            )
    for optimizer in session.optimizers:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise TaskError(
                "prediction",
                "cannot predict: LBFGS goes on or stops by the values of losses and gradients",
                hint=MEASURE,
            )


def after_answers(
    error: BaseException, answered: List[Dict[str, Any]], roots: List[str]
) -> Optional[TaskError]:
    """The sentence for what the program raised once it had been told a value; None: it was told none.

    Args:
        error: what was raised.
        answered: see ``items.Items.table``.
        roots: folders of the user's own files.
    """
    if isinstance(error, TaskError) or not answered:
        return None
    last = answered[-1]
    return TaskError(
        "prediction",
        "cannot predict: the program raises %s: %s; it asked for a value at %s, where there is none, and was told %s"
        % (type(error).__name__, one_line(error, 120), last["where"], last["answer"]),
        where=place(error, roots),
        hint=MEASURE,
    )


def roots(plan: Plan) -> List[str]:
    """Folders of the user's own files."""
    return [os.path.realpath(plan.folder)] if plan.folder else []


def refusal(error: BaseException, operator: str, module: str, roots: List[str]) -> Optional[TaskError]:
    """The sentence for what a trace raised; None: the workload itself is at fault, or peakmark.

    Args:
        error: what was raised.
        operator: the one that raised, "" where none did.
        module: path of the innermost module that was running, "" where none was.
        roots: folders of the user's own files.
    """
    if isinstance(error, TaskError):
        return None
    what = _what(error, operator)
    if what is None:
        return None
    where = place(error, roots)
    inside = " in %s" % module if module else ""
    return TaskError(
        "prediction", "cannot predict: " + what[0] % inside, where=where, hint=what[1] or MEASURE
    )


def _what(error: BaseException, failed: str) -> Optional[List[str]]:
    """[sentence with a place for the module, hint or ""]."""
    name, said = type(error).__name__, one_line(error, 200).replace("%", "%%")
    if is_out_of_memory(error):
        return [
            "this machine has not the memory to make a batch on the host%s: " + said,
            "predict fewer samples",
        ]
    if "fail_on_recompile" in said or "torch._dynamo" in type(error).__module__:
        return ["the program%s calls what torch.compile has compiled", MEASURE]
    if "NestedTensor" in said:
        return ["nested tensors%s have sizes that depend on data", ""]
    operator = failed or _operator(error)
    if name == "DynamicOutputShapeException":
        return [operator + "%s has a shape that depends on data", ""]
    if name == "DataDependentOutputException":
        return [operator + "%s asks for values, which are not there", ""]
    if isinstance(error, fake_tensor.UnsupportedOperatorException):
        return [
            operator + "%s is a kernel of its own that does not say what it returns",
            MEASURE + "; or register a fake kernel for it: torch.library.register_fake",
        ]
    if name == "UnsupportedFakeTensorException" or isinstance(error, NotImplementedError):
        return ["torch has no kernel without values for something%s: " + said, ""]
    if isinstance(error, RuntimeError) and _values_missing(said):
        return ["the program%s uses values, which are not there: " + said, ""]
    if any(mark in said for mark in ("not compiled with CUDA", "NVIDIA driver", "CUDA GPUs are available")):
        return ["the program%s calls CUDA itself: " + said, MEASURE + "; or take devices from tensors"]
    if isinstance(error, RuntimeError) and failed and _in_kernel_without_values(error):
        return [operator + "%s: torch's kernel without values says: " + said, ""]
    return None


def _operator(error: BaseException) -> str:
    func = getattr(error, "func", None)
    if func is not None:
        return str(func).replace(".default", "")
    found = _OPERATOR.search(str(error))
    return found.group(0).replace(".default", "") if found else "an operator"


def _in_kernel_without_values(error: BaseException) -> bool:
    """Whether it was raised by code of torch's that only computes shapes."""
    trace = error.__traceback__
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    marks = ("_meta_registrations.py", "_refs", "_decomp", "_prims", "fake_impls.py")
    return any(mark in name for name in names[-6:] for mark in marks)


def _values_missing(said: str) -> bool:
    marks = ("FakeTensor", "fake tensor", "fake mode", "split_sizes", "data pointer", ".numpy()", "storage")
    return any(one in said for one in marks)
