"""A small step of the real workload, and a checkpoint for another process to reload.

Every check is one line that passes, fails, or says why it does not apply; a failed one does not stop the others.
"""

from __future__ import annotations

import copy
import math
import time
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List

import torch
from torch.utils import _pytree as pytree

from .. import checkpoint, gradients, optimizers
from ..faults import TaskError, is_out_of_memory, one_line
from ..protocol import CheckDone, EnvironmentSeen, ResultReady
from ..session import Session

if TYPE_CHECKING:
    from ..protocol import Plan
    from ..reporter import Reporter

TOLERANCE = {
    "fp32": 1e-3,
    "tf32": 1e-2,
    "bf16-autocast": 5e-2,
    "fp16-autocast": 2e-2,
    "bf16": 1e-1,
    "fp16": 5e-2,
}
"""Largest relative error of all gradients against fp64 that passes."""

ITERATIONS = 3
DESCENT = 5
LARGEST_REFERENCE = 500_000_000
"""Parameters beyond which an fp64 copy is not made."""


Check = Callable[["Plan", "Reporter", "Session", List[float]], CheckDone]


def run(plan: Plan, report: Reporter) -> None:
    """See the module."""
    session = Session(plan, report)
    report(EnvironmentSeen(*session.device.facts()))
    begun = time.monotonic()
    losses = [session.iterate_for_loss() for _ in range(ITERATIONS)]
    report(
        CheckDone(
            "iterations",
            "step",
            "forward, backward, step",
            "pass",
            "%d iterations, %.2f s" % (ITERATIONS, time.monotonic() - begun),
        )
    )
    report(
        ResultReady(
            "receiving",
            {
                "gradient_receiving": sum(
                    one.numel() for one in session.model.parameters() if one.grad is not None
                )
            },
        )
    )
    report(_finite(session, losses))
    report(_placement(session))
    for title, check in (
        ("deterministic", _deterministic),
        ("gradients against fp64", _gradients),
        ("loss goes down", _descent),
    ):
        report(_guarded(title, check, plan, report, session, losses))
    report(_allocator(session))
    _save(plan, report, session)


def _guarded(
    title: str, check: Check, plan: Plan, report: Reporter, session: Session, losses: List[float]
) -> CheckDone:
    try:
        return check(plan, report, session, losses)
    except TaskError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            return CheckDone(title.split()[0], "step", title, "n/a", "needs more memory than there is")
        return CheckDone(
            title.split()[0], "step", title, "n/a", "cannot be checked: %s" % one_line(error, 120)
        )


def _finite(session: Session, losses: List[float]) -> CheckDone:
    bad = [
        name
        for name, one in session.model.named_parameters()
        if one.grad is not None and not torch.isfinite(one.grad).all()
    ]
    state = [one for _, _, one in optimizers.state_tensors(session.optimizer)]
    bad_state = sum(1 for one in state if one.is_floating_point() and not torch.isfinite(one).all())
    count = sum(1 for one in session.model.parameters() if one.grad is not None)
    if not all(math.isfinite(one) for one in losses):
        return CheckDone(
            "finite", "step", "finite", "fail", "the loss is %s" % ", ".join("%g" % x for x in losses)
        )
    if bad or bad_state:
        return CheckDone(
            "finite",
            "step",
            "finite",
            "fail",
            "%d gradients are not finite%s, %d state tensors"
            % (len(bad), ", such as %s" % bad[0] if bad else "", bad_state),
        )
    return CheckDone(
        "finite", "step", "finite", "pass", "loss, %d gradients, %d state tensors" % (count, len(state))
    )


def _placement(session: Session) -> CheckDone:
    want, home = session.device.torch_device.type, session.offload.home
    buffers = [("buffer " + name, one) for name, one in session.model.named_buffers()]
    named = [("parameter " + name, one) for name, one in session.model.named_parameters()]
    named += [
        ("gradient of " + name, one.grad)
        for name, one in session.model.named_parameters()
        if one.grad is not None
    ]
    state = optimizers.state_tensors(session.optimizer)
    counters = [one for _, key, one in state if key == "step" and one.device.type == "cpu"]
    named += [("state %s" % key, one) for _, key, one in state if key != "step"]
    for kind, group in ((home, named), (want, buffers)):
        astray = [name for name, one in group if one.device.type != kind]
        if astray:
            text = "%d tensors are not on %s, such as %s" % (len(astray), kind, astray[0])
            return CheckDone("placement", "step", "placement", "fail", text)
    if session.offload.weights == "device":
        text = "%d tensors, all on %s" % (len(named) + len(buffers), session.device.torch_device)
    else:
        parts = "%d tensors of weights, gradients and optimizer state on the host, %d buffers on %s"
        text = parts % (len(named), len(buffers), session.device.torch_device)
    if counters and home != "cpu":
        text += "; %d step counters on the CPU, as torch does" % len(counters)
    return CheckDone("placement", "step", "placement", "pass", text)


def _deterministic(plan: Plan, report: Reporter, session: Session, losses: List[float]) -> CheckDone:
    if not all(math.isfinite(one) for one in losses):
        return CheckDone("deterministic", "step", "deterministic", "n/a", "the loss is not finite")
    mine = checkpoint.parameter_digest(session)
    other = Session(plan, report)
    again = [other.iterate_for_loss() for _ in range(ITERATIONS)]
    if again == losses and checkpoint.parameter_digest(other) == mine:
        return CheckDone("deterministic", "step", "deterministic", "pass", "two runs equal, bit for bit")
    apart = max(abs(a - b) for a, b in zip(again, losses))
    return CheckDone(
        "deterministic",
        "step",
        "deterministic",
        "note",
        "two runs differ by %.1e in loss after %d steps" % (apart, ITERATIONS),
    )


def _gradients(plan: Plan, report: Reporter, session: Session, losses: List[float]) -> CheckDone:
    title = "gradients against fp64"
    size = sum(one.numel() for one in session.model.parameters())
    if size > LARGEST_REFERENCE:
        return CheckDone(
            "gradients", "step", title, "n/a", "an fp64 copy of %d parameters is not made" % size
        )
    if session.offload.weights != "device":
        return CheckDone(
            "gradients", "step", title, "n/a", "weights that FSDP2 keeps on the host cannot be copied"
        )
    batch = session.to_device(
        session.setting.batch(session.workload.batch(session.micro, 0, "train", session.length, plan.seed))
    )
    exact = copy.deepcopy(session.model).double()
    found = _backward(session, session.model, batch, session.setting.context())
    doubled = pytree.tree_map_only(
        torch.Tensor, lambda one: one.double() if one.is_floating_point() else one, batch
    )
    right = _backward(session, exact, doubled, torch.autocast(session.device.kind, enabled=False))
    verdict = gradients.compare(found, right)
    limit = TOLERANCE[session.setting.name]
    if verdict["error"] is None:
        return CheckDone("gradients", "step", title, "n/a", "every gradient of the fp64 copy is zero")
    if verdict["nonfinite"] or not math.isfinite(verdict["error"]):
        text = "%d of their elements are not finite" % verdict["nonfinite"]
        return CheckDone("gradients", "step", title, "fail", text)
    passed = verdict["error"] <= limit
    return CheckDone(
        "gradients",
        "step",
        title,
        "pass" if passed else "fail",
        "error %.1e, limit %.0e; worst %.1e in %s"
        % (verdict["error"], limit, verdict["worst_error"] or 0.0, verdict["worst"]),
    )


def _backward(
    session: Session, model: torch.nn.Module, batch: Any, context: ContextManager[Any]
) -> Dict[str, torch.Tensor]:
    """Gradients of one loss in eval mode, so that dropout and running statistics say the same to both."""
    was = model.training
    model.eval()
    model.zero_grad(set_to_none=True)
    with context:
        loss = session.workload.loss(model, batch)
    loss.backward()
    found = {
        name: one.grad.detach().double().cpu()
        for name, one in model.named_parameters()
        if one.grad is not None
    }
    model.zero_grad(set_to_none=True)
    model.train(was)
    return found


def _descent(plan: Plan, report: Reporter, session: Session, losses: List[float]) -> CheckDone:
    other = Session(plan, report)
    batches = list(other.host_batches())
    seen = [other.iterate_for_loss(iter(batches)) for _ in range(DESCENT)]
    text = "%.3f to %.3f in %d steps on one batch" % (seen[0], seen[-1], DESCENT)
    return CheckDone("descent", "step", "loss goes down", "pass" if seen[-1] < seen[0] else "fail", text)


def _allocator(session: Session) -> CheckDone:
    value = session.device.facts()[0]["allocator"]
    return CheckDone(
        "allocator",
        "step",
        "allocator settings",
        "note" if value else "pass",
        "PYTORCH_ALLOC_CONF is %s" % value if value else "default; none in the environment",
    )


def _save(plan: Plan, report: Reporter, session: Session) -> None:
    report.enter("save")
    begun = time.monotonic()
    sizes, total, digest = checkpoint.save(session, plan.extra["checkpoint"])
    seconds = time.monotonic() - begun
    report(
        ResultReady(
            "checkpoint",
            {
                "path": plan.extra["checkpoint"],
                "sha256": digest,
                "bytes": total,
                "parts": sizes,
                "seconds": seconds,
            },
        )
    )
    report(
        CheckDone(
            "saved",
            "checkpoint",
            "saved",
            "pass",
            "%.3f MiB in %.1f s, sha256 %s" % (total / 2**20, seconds, digest[:4]),
        )
    )
    loss = session.iterate_for_loss()
    report(
        ResultReady(
            "fingerprint", {"losses": [loss.hex()], "parameters": checkpoint.parameter_digest(session)}
        )
    )
