"""What the spec's batch means, in sentences: steps, tokens, weights, epoch and remainder, scheduler."""

from __future__ import annotations

from tui.budget import semantics
from tui.budget.semantics import Dealt, Epoch, Lengths, Semantics
from tui.project.model import Spec
from tui.report.sentences import batch


def batch_semantics(spec: Spec) -> list[str]:
    """One sentence for each thing that the spec says of its batch; what it does not say is left out."""
    found = semantics.of(spec)
    told = [_step(found)]
    if found.accumulate > 1:
        told += _weights(found, spec.workload.batch.tokens)
    if found.epoch is not None:
        told.append(_epoch(found, found.epoch))
    if spec.workload.scheduler is not None and found.scheduler_steps is not None:
        told.append(_scheduler(spec.workload.scheduler.name, found.scheduler_steps, found.epoch))
    return told


def frozen(spec: Spec) -> str:
    """The patterns of parameters that are not trained; "none" without any."""
    return ", ".join(spec.workload.frozen) or "none"


def _step(found: Semantics) -> str:
    head = f"An optimizer step takes {batch(found.micro, found.accumulate, found.ranks, None)}"
    if found.length is None:
        return f"{head} of the shape that the workload knows."
    longest = f"memory is measured at the longest, {found.length.maximum:,}"
    if found.tokens is None:
        return f"{head} of {_span(found.length)} {found.length_of}; {longest}."
    return f"{head}: {_span(found.tokens, 'tokens')}; {longest}."


def _span(lengths: Lengths, unit: str = "") -> str:
    """``8,192 to 65,536 tokens, typically 57,600``, as far as it is said."""
    low = f"{lengths.minimum:,} to " if lengths.minimum is not None else "at most "
    typical = f", typically {lengths.typical:,}" if lengths.typical is not None else ""
    return f"{low}{lengths.maximum:,}{' ' if unit else ''}{unit}{typical}"


def _weights(found: Semantics, tokens: str | None) -> list[str]:
    if found.weight_by == "tokens":
        return [
            f"Accumulated losses are weighted by the labels that count ({tokens}), as in one large batch."
        ]
    if found.length is None and tokens is None:
        return []
    return [
        f"The losses of {found.accumulate:,} accumulated micro-batches count the same, whatever labels count in each."
    ]


def _epoch(found: Semantics, one: Epoch) -> str:
    head = f"An epoch of {one.dataset:,} samples is {one.steps:,} step{'' if one.steps == 1 else 's'}"
    if not one.left:
        return f"{head}; no sample is left over."
    if found.remainder == "drop":
        return f"{head}; the {one.left:,} left over are dropped, never seen in it."
    if found.remainder == "pad":
        return f"{head}; {one.padded:,} samples are added to fill the last one."
    memory = (
        "and needs no more memory than the others"
        if one.steps > 1
        else f"and its largest micro-batch is {one.largest_micro:,}"
    )
    kept = f"{one.left:,} sample{'' if one.left == 1 else 's'}"
    return f"{head}; the last one keeps {kept}: {_dealt(one.last, found.ranks)}, {memory}."


def _dealt(groups: tuple[Dealt, ...], ranks: int) -> str:
    """``8, 8 and 4 on each of 2 ranks``; the ranks are left out where there is one."""
    said: list[str] = []
    for group in groups:
        sizes = [f"{size:,}" for size in group.micro_batches]
        text = " and ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1]))) if sizes else "none"
        if ranks > 1:
            text += " on 1 rank" if group.ranks == 1 else f" on each of {group.ranks:,} ranks"
        said.append(text)
    return " and ".join(said)


def _scheduler(name: str, steps: int, epoch: Epoch | None) -> str:
    often = f"{steps:,} scheduler step{'' if steps == 1 else 's'} an optimizer step"
    whole = "" if epoch is None or epoch.scheduler_steps is None else f", {epoch.scheduler_steps:,} an epoch"
    return f"The learning rate follows {name}, {often}{whole}."
