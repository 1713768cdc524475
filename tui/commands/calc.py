"""``peakmark calc``: the calculators by themselves; nothing is read, measured or written."""

from __future__ import annotations

import argparse
from decimal import Decimal

from tui import units
from tui.budget.arguments import nearest
from tui.budget.fixed_shapes import Plan
from tui.budget.kinds import KINDS
from tui.commands import calc_ranks, calc_values
from tui.commands.output import Output
from tui.errors import UsageError
from tui.report import documents_calc, text_calc


def calc(given: argparse.Namespace, output: Output) -> int:
    """Work it out and print it; 1 when a batch does not fit its budget.

    Raises:
        UsageError: something that is asked for does not exist or cannot be.
    """
    if given.calculator == "batch":
        return _batch(given, output)
    if given.calculator == "ranks":
        return calc_ranks.ranks(given, output)
    if given.kind is None:
        output.answer(text_calc.kinds_lines, documents_calc.kinds_document)
        return 0
    return _params(given.kind, given.given, given.list, output)


_OTHER_NAMES = {
    "linear": "dense",
    "fc": "dense",
    "conv1d": "conv with dims=1",
    "conv2d": "conv",
    "conv3d": "conv with dims=3",
    "convtranspose2d": "conv with transposed=true",
    "layernorm": "norm",
    "rmsnorm": "norm with kind=rms",
    "batchnorm": "norm with kind=batch",
    "batchnorm2d": "norm with kind=batch",
    "multiheadattention": "attention",
    "mha": "attention",
    "gqa": "attention with kv_heads=",
    "ffn": "feed_forward",
    "swiglu": "feed_forward with gated=true",
    "moe": "experts",
    "gpt": "decoder",
    "gpt2": "decoder",
    "llama": "decoder",
    "bert": "encoder",
    "vit": "encoder with inputs=patches",
    "resnet": "convnet with block=",
}
"""Names that torch and people have for a kind, in small letters without underscores."""


def _instead(name: str) -> str:
    other = _OTHER_NAMES.get(name.lower().removeprefix("nn.").replace("_", "").replace("-", ""))
    return f"it is called {other}" if other else nearest(name, tuple(KINDS))


def _params(name: str, words: list[str], only_list: bool, output: Output) -> int:
    if name not in KINDS:
        raise UsageError(f"there is no formula of {name}", hint=_instead(name))
    kind = KINDS[name]
    see = f"see: peakmark calc params --list {name}"
    if only_list:
        if words:
            raise UsageError(
                f"--list takes no values, got {words[0]}", hint=f"leave out --list, or {words[0]}"
            )
        output.answer(
            lambda width: text_calc.kind_lines(kind, width), lambda: documents_calc.kinds_document(name)
        )
        return 0
    args = calc_values.arguments(name, kind.arguments, words, see)
    try:
        found = kind.work(args)
    except ValueError as error:
        sentence = str(error)
        raise UsageError(sentence, hint="" if ";" in sentence else see) from None
    largest = max(one.value for one in (*found.terms, *found.further))
    _refuse_absurd(max(found.total, largest), found.unit)
    output.answer(
        lambda width: text_calc.worked_lines(found, args, width),
        lambda: documents_calc.worked_document(found, kind),
    )
    return 0


def _batch(given: argparse.Namespace, output: Output) -> int:
    if given.budget is None and given.batch is None:
        raise UsageError("nothing is asked", hint="give --budget BYTES, --batch N, or both")
    plan = Plan(
        calc_values.tensors(given.tensors),
        calc_values.size("--fixed", given.fixed),
        None if given.budget is None else calc_values.size("--budget", given.budget),
        None if given.batch is None else calc_values.batch(given.batch),
    )
    _refuse_absurd(plan.bytes(plan.batch or 1), "bytes")
    output.answer(
        lambda width: text_calc.batch_lines(plan, width), lambda: documents_calc.batch_document(plan)
    )
    return 1 if plan.short_bytes else 0


def _refuse_absurd(size: int, unit: str) -> None:
    if size > units.LARGEST:
        raise UsageError(
            f"{Decimal(size):.1e} {unit} are more than any device holds", hint="check the numbers"
        )
