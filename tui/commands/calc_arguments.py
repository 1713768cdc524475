"""The words of ``peakmark calc``: parsers, and values that are written as text."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

KEPT: dict[str, Any] = {"action": "store_true", "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}


WITH_VALUE = (
    "--fixed",
    "--budget",
    "--batch",
    "--ranks",
    "--strategy",
    "--dtype",
    "--largest",
    "--bucket",
    "--host",
    "--tensor-parallel",
    "--pipeline-parallel",
    "--process",
    "--device-total",
    "--pool",
)
STRATEGIES = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp2")


def add(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the calculators."""
    kinds = parser.add_subparsers(
        dest="calculator", metavar="CALCULATOR", required=True, parser_class=_mixed(type(parser))
    )
    text = "parameters of a layer or of a whole family: the formula, the numbers put in, the result"
    params = kinds.add_parser("params", help=text, description=text)
    params.add_argument(
        "kind", nargs="?", metavar="KIND", help="dense, conv, attention, decoder, ...; none: list them"
    )
    params.add_argument(
        "given", nargs="*", metavar="NAME=VALUE", help="as width=768, bias=false, depths=3,4,6,3"
    )
    params.add_argument("--list", action="store_true", help="list what KIND may be given, with its defaults")
    text = "the largest batch of samples with fixed shapes under a budget: a planning aid"
    batch = kinds.add_parser("batch", help=text, description=text)
    batch.add_argument(
        "tensors",
        nargs="+",
        metavar="NAME=SHAPE:DTYPE*COUNT",
        help="what a sample has, as logits=1024x50257:fp32*3; *COUNT may be left out",
    )
    batch.add_argument(
        "--fixed", default="0", metavar="BYTES", help="without any sample, as 2.1GiB; default: 0"
    )
    batch.add_argument("--budget", metavar="BYTES", help="that all of it has to fit in, as 60GiB")
    batch.add_argument("--batch", metavar="N", help="also the bytes of a batch of N samples")
    ranks = kinds.add_parser("ranks", help=_RANKS, description=_RANKS)
    _add_ranks(ranks)
    for one in (params, batch, ranks):
        for option in ("--json", "--plain", "--ascii"):
            one.add_argument(option, **KEPT)
        one.add_argument("-q", "--quiet", **KEPT)


_RANKS = "what one rank of many holds: DDP, ZeRO 1 to 3, FSDP2, each line with its divisor"


def _add_ranks(ranks: argparse.ArgumentParser) -> None:
    ranks.add_argument("parameters", metavar="PARAMETERS", help="trained with Adam, as 7e9 or 7B")
    ranks.add_argument("--ranks", required=True, metavar="N", help="that divide or replicate the model")
    ranks.add_argument("--strategy", required=True, choices=STRATEGIES, help="how they do")
    ranks.add_argument(
        "--dtype", default="fp32", choices=("fp32", "bf16", "fp16"), help="of weights and gradients"
    )
    ranks.add_argument("--master", action="store_true", help="fp32 copies of the weights, and fp32 moments")
    ranks.add_argument("--view", action="store_true", help="gradients are views of DDP's buckets")
    ranks.add_argument("--largest", metavar="ELEMENTS", help="of the largest group that is gathered together")
    ranks.add_argument("--bucket", metavar="ELEMENTS", help="that ZeRO 2 and 3 reduce at once")
    ranks.add_argument("--host", metavar="PARTS", help="kept in main memory: weights,gradients,optimizer")
    ranks.add_argument("--tensor-parallel", default="1", metavar="N", help="devices that divide each layer")
    ranks.add_argument("--pipeline-parallel", default="1", metavar="N", help="stages of layers")
    ranks.add_argument("--process", metavar="BYTES", help="what a process was seen to hold, to compare with")
    ranks.add_argument("--device-total", metavar="BYTES", help="of its device")
    ranks.add_argument("--pool", metavar="SHARE", help="of the device that it was told to reserve, as 0.9")


def _mixed(base: type[argparse.ArgumentParser]) -> type[argparse.ArgumentParser]:
    """A parser like ``base`` that takes options between its words, where argparse would lose the later words."""

    class Mixed(base):
        def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  it has overloads
            self, args: Iterable[str] | None = None, namespace: Any = None
        ) -> Any:
            options: list[str] = []
            words: list[str] = []
            left = iter(args or ())
            for one in left:
                (options if one.startswith("-") else words).append(one)
                if one in WITH_VALUE:
                    if (value := next(left, None)) is None or "=" in value:
                        self.error(f"argument {one}: expected a value")
                    options.append(value)
            return super().parse_known_args([*options, *words], namespace)

    return Mixed
