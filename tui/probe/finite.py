"""Finding where a number stopped being one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Optional

import torch

from . import compiling
from .faults import TaskError, is_out_of_memory
from .setting import short

if TYPE_CHECKING:
    from .session import Session


def check_loss(loss: Optional[float], session: Session, iteration: int, micro: Optional[int] = None) -> None:
    """Raise when ``loss`` is not finite, naming the first module whose output is not.

    Args:
        iteration: counted from 0, as is ``micro``; None where the loss is the mean of all micro-batches.

    Raises:
        TaskError: kind ``nonfinite``.
    """
    if loss is None or abs(loss) < float("inf"):
        return
    place = "iteration %d" % (iteration + 1)
    if micro is not None and session.accumulate > 1:
        place += ", micro-batch %d" % (micro + 1)
    culprit = first_nonfinite(session, iteration * session.accumulate + (micro or 0))
    raise TaskError(
        "nonfinite",
        "loss is %s at %s" % ("NaN" if loss != loss else "infinite", place),
        hint=(culprit or "every module's output was finite when it was run again")
        + "; memory figures are kept, throughput is not reported",
        iteration=iteration,
    )


class FirstBad:
    """The first loss that is not finite; ``error`` is its TaskError, None as long as every loss was finite.

    What is measured goes on: a loss changes no memory.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.error: Optional[TaskError] = None

    def check(self, loss: Optional[float], iteration: int, micro: Optional[int] = None) -> None:
        """See ``check_loss``."""
        if self.error is not None:
            return
        try:
            check_loss(loss, self._session, iteration, micro)
        except TaskError as error:
            self.error = error.with_traceback(None)
            self._session.device.reset_peaks()  # the search for the module is no part of the phase

    def check_tensor(self, iteration: int, loss: torch.Tensor, micro: int) -> None:
        """The same for a loss that is still on the device."""
        self.check(float(loss), iteration, micro)


def first_nonfinite(session: Session, index: int) -> str:
    """ "first non-finite: output of h.7.mlp (bf16)" for the current weights and batch ``index``, or ""."""
    for name, one in session.model.named_parameters():
        if not torch.isfinite(one).all():
            return "parameter %s is not finite by now" % name
    found: List[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: Any, out: Any) -> None:
            bad = isinstance(out, torch.Tensor) and out.is_floating_point() and not torch.isfinite(out).all()
            if bad and not found:
                found.append(
                    "first non-finite: output of %s (%s)" % (name or type(module).__name__, short(out.dtype))
                )

        return hook

    hooks = [module.register_forward_hook(look(name)) for name, module in session.model.named_modules()]
    try:
        with torch.no_grad(), compiling.off(session.compiling):
            batch = session.workload.batch(session.micro, index, "train", session.length, session.plan.seed)
            session.run.loss(session.to_device(session.setting.batch(batch)))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return ""  # beside what the iteration still holds there is no room to look; that is no verdict on it
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else ""
