"""``peakmark calc ranks``: what one rank of many holds of a number of parameters."""

from __future__ import annotations

import argparse
import re

from tui.budget import scope
from tui.budget.sharding import GATHERS, Groups, Options, States, sheet
from tui.budget.sharding_estimates import Estimate, older_zero2, older_zero3
from tui.commands import calc_values
from tui.commands.output import Output
from tui.errors import UsageError
from tui.report import calc_ranks as report

ITEM_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
_LETTER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMBT])", re.IGNORECASE)
_POWERS = {"K": 3, "M": 6, "B": 9, "T": 12}
HOST = {"weights": "weights", "gradients": "gradients", "optimizer": "optimizer_state"}


def ranks(given: argparse.Namespace, output: Output) -> int:
    """Work it out and print it.

    Raises:
        UsageError: a number that is none, or parts that do not go together.
    """
    count = _count("PARAMETERS", _spelled_out(given.parameters))
    world = _count("--ranks", given.ranks)
    options = _options(given)
    groups = _groups(given, options)
    item = ITEM_BYTES[given.dtype]
    if given.master and given.dtype == "fp32":
        raise UsageError("--master keeps fp32 copies of weights in bf16 or fp16", hint="add --dtype bf16")
    state = 8 * count if given.master else 2 * item * count
    states = States(item * count, item * count, state, 4 * count if given.master else 0)
    found = sheet(
        states,
        given.strategy,
        world,
        options,
        groups,
        unknown_groups="not said: --largest ELEMENTS",
        unknown_bucket="not said: --bucket ELEMENTS",
    )
    older = _older(given, count, world)
    compared = _compared(given, found.states_bytes)
    output.answer(
        lambda width: report.lines(found, older, compared, width),
        lambda: report.document(found, older, compared),
    )
    return 0


def _spelled_out(text: str) -> str:
    """``7B`` as ``7e9``: thousands, millions, billions and trillions of parameters."""
    found = _LETTER.fullmatch(text.strip())
    return text if found is None else f"{found[1]}e{_POWERS[found[2].upper()]}"


def _count(name: str, text: str) -> int:
    found = calc_values.whole(name, text)
    if found < 1:
        raise UsageError(f"{name} must be 1 or more, got {text}")
    return found


def _options(given: argparse.Namespace) -> Options:
    if given.view and given.strategy not in ("ddp", "zero1"):
        raise UsageError(f"--view is of ddp and zero1, the strategy is {given.strategy}")
    parts = [part for part in (given.host or "").split(",") if part]
    for part in parts:
        if part not in HOST:
            raise UsageError(f"--host takes {', '.join(HOST)}, got {part}")
    bucket = None if given.bucket is None else _count("--bucket", given.bucket) * ITEM_BYTES[given.dtype]
    return Options(
        gradient_as_bucket_view=given.view,
        reduce_bucket_bytes=bucket,
        host=tuple(HOST[part] for part in parts),
        tensor_parallel=_count("--tensor-parallel", given.tensor_parallel),
        pipeline_parallel=_count("--pipeline-parallel", given.pipeline_parallel),
    )


def _groups(given: argparse.Namespace, options: Options) -> Groups | None:
    if given.largest is None:
        return None
    if given.strategy not in GATHERS:
        raise UsageError(f"--largest is of {' and '.join(GATHERS)}, the strategy is {given.strategy}")
    size = _count("--largest", given.largest) * ITEM_BYTES[given.dtype]
    return Groups((size,), ahead=0) if "weights" in options.host else Groups((size, size))


def _older(given: argparse.Namespace, count: int, world: int) -> Estimate | None:
    host = (given.host or "").split(",")
    if given.strategy == "zero2":
        return older_zero2(count, world, offload_optimizer="optimizer" in host)
    if given.strategy == "zero3" and given.largest is not None:
        layer = _count("--largest", given.largest)
        return older_zero3(
            count, world, layer, offload_optimizer="optimizer" in host, offload_params="weights" in host
        )
    return None


def _compared(given: argparse.Namespace, states: int | None) -> scope.Comparison | None:
    if given.process is None or states is None:
        if given.pool is not None or given.device_total is not None:
            raise UsageError("--pool and --device-total say what --process is", hint="add --process BYTES")
        return None
    total = None if given.device_total is None else calc_values.size("--device-total", given.device_total)
    held = scope.Held(calc_values.size("--process", given.process), total, pool_fraction=_share(given.pool))
    return scope.compare(states, "training states", held)


def _share(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise UsageError(f"--pool must be a share of the device above 0 and up to 1, got {text}")
    return found
