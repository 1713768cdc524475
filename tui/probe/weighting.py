"""How much of an iteration's loss each accumulated micro-batch is, when it is weighted by counted labels.

The mean loss of micro-batch i over its n_i counted labels, times n_i / (n_1 + ... + n_k), summed, is the mean over
all labels of the iteration: accumulation then gives the loss and the gradients of one large batch.  The plain mean
of the means does not, unless every n_i is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Sequence

import torch

from .faults import TaskError

if TYPE_CHECKING:
    from .session import Session

IGNORED = -100
"""The label that torch's losses leave out (``ignore_index``)."""


def shares(batches: Sequence[Any], session: Session) -> List[float]:
    """The share of each of ``batches``, all of one iteration; they add up to 1.  One without labels has 0.

    Raises:
        TaskError: the batch has no such entry, or no label of the whole iteration counts.
    """
    entry = session.plan.batch.get("tokens") or ""
    shifted = shifts_labels(session, entry)
    counts = [counted(batch, entry, shifted) for batch in batches]
    whole = sum(counts)
    if not whole:
        raise TaskError(
            "workload",
            'every label of an iteration is -100: batch["%s"] counts none, so its loss is a mean of nothing'
            % entry,
            hint="correct the labels of batch(), or workload.batch.tokens",
        )
    return [count / whole for count in counts]


def entry_of(batch: Any, entry: str) -> Any:
    """The entry of a batch: by key, by attribute, or by place ("1") of a tuple; None without it."""
    if isinstance(batch, dict):
        return batch.get(entry)
    if isinstance(batch, (tuple, list)) and entry.isdecimal():
        return batch[int(entry)] if int(entry) < len(batch) else None
    return getattr(batch, entry, None)


def counted(batch: Any, entry: str, shifted: bool = False) -> int:
    """Labels that count in ``batch[entry]``; ``shifted``: the model leaves out the first of every sample.

    Raises:
        TaskError: there is no such tensor.
    """
    labels = entry_of(batch, entry)
    if not isinstance(labels, torch.Tensor):
        have = sorted(batch) if isinstance(batch, dict) else []
        raise TaskError(
            "workload",
            'workload.batch.tokens = "%s" is no tensor of what batch() gives' % entry,
            hint="it gives %s" % ", ".join(map(str, have))
            if have
            else "name the entry that holds the labels",
        )
    if shifted and labels.dim() > 1:
        labels = labels[..., 1:]
    return int((labels != IGNORED).sum())


def shifts_labels(session: Session, entry: str) -> bool:
    """Whether the model predicts label t + 1 at t by itself, so that the first label of a sample counts nowhere.

    Language models of transformers do, with ``labels`` among their inputs.
    """
    cls = type(session.model)
    return (
        entry == "labels"
        and cls.__module__.startswith("transformers.")
        and cls.__name__.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))
        and (session.plan.workload["source"].endswith(".json") or not session.workload.has("loss"))
    )
