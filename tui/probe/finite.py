"""Finding where a number stopped being one."""

import torch

from .faults import TaskError


def check_loss(loss, session, iteration):
    """Raise when ``loss`` (a float) is not finite, naming the first module whose output is not.

    Raises:
        TaskError: kind ``nonfinite``.
    """
    if loss is None or abs(loss) < float("inf"):
        return
    word = "NaN" if loss != loss else "infinite"
    culprit = first_nonfinite(session)
    raise TaskError(
        "nonfinite",
        "loss is %s at iteration %d" % (word, iteration + 1),
        hint=(culprit or "every module's output was finite when it was run again")
        + "; memory figures are kept, throughput is not reported",
        iteration=iteration,
    )


def first_nonfinite(session):
    """ "first non-finite: output of h.7.mlp (bf16)" for the current weights and the first batch, or ""."""
    for name, one in session.model.named_parameters():
        if not torch.isfinite(one).all():
            return "parameter %s is not finite by now" % name
    found = []

    def look(name):
        def hook(module, args, out):
            bad = isinstance(out, torch.Tensor) and out.is_floating_point() and not torch.isfinite(out).all()
            if bad and not found:
                found.append(
                    "first non-finite: output of %s (%s)"
                    % (name or type(module).__name__, str(out.dtype).replace("torch.", ""))
                )

        return hook

    hooks = [module.register_forward_hook(look(name)) for name, module in session.model.named_modules()]
    try:
        with torch.no_grad():
            batch = session.workload.batch(session.micro, 0, "train", session.length, session.plan.seed)
            session.run.loss(session.to_device(session.setting.batch(batch)))
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else ""
