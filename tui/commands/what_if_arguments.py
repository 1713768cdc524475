"""The arguments of ``peakmark what-if``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tui.commands.ranges import whole

VALUED = ("--gpu", "--device", "--alloc-conf", "--nice", "--each")
"""Options with one value."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add them to ``parser``; changes may stand between options."""
    parser.add_argument("project", type=Path)
    text = "batch=16 length=2048 precision=bf16 optimizer=SGD implementation=fused checkpoint=Block ranks=8 "
    text += "strategy=fsdp2 offload=host-pinned attention=eager, or any dotted key; name= deletes the key"
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE", help=text)
    text = "one scenario more, with these changes on top of those before it"
    parser.add_argument("--then", nargs="+", action="append", default=[], metavar="NAME=VALUE", help=text)
    text = "one scenario for each value, as batch=4,8,16"
    parser.add_argument("--each", metavar="NAME=VALUES", help=text)
    text = "write the last scenario into the project; comments and order stay"
    parser.add_argument("--accept", action="store_true", help=text)
    text = "for this GPU, such as 'H100 80GB HBM3', or for one of so many bytes, such as 80GiB"
    parser.add_argument("--gpu", metavar="NAME|BYTES", help=text)
    text = "cuda | cpu | GPU-uuid: whose operators and allocator; default: CUDA's unless the project's is the CPU"
    parser.add_argument("--device", help=text)
    text = "of the caching allocator, as PYTORCH_CUDA_ALLOC_CONF has them"
    parser.add_argument("--alloc-conf", metavar="SETTINGS", help=text)
    parser.add_argument(
        "--trust", action="store_true", help="allow the project's own Python and programs to run"
    )
    text = "of the predicting process; 10 keeps keys answering"
    parser.add_argument("--nice", type=whole(0, 19), default=10, help=text)
    parser.set_defaults(force=False, search=False)
    parse = parser.parse_known_args

    def reordered(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        return parse(None if args is None else in_order(args), namespace)

    parser.parse_known_args = reordered  # type: ignore[method-assign]  # pyright: ignore[reportAttributeAccessIssue]


def in_order(words: Sequence[str]) -> list[str]:
    """Project and changes first, then options, then what follows ``--then``: argparse takes no second group of words.

    >>> in_order(["a.toml", "--gpu", "L4", "batch=16", "--json", "--then", "length=8", "--plain"])
    ['a.toml', 'batch=16', '--gpu', 'L4', '--json', '--then', 'length=8', '--plain']
    """
    first = list(words).index("--then") if "--then" in words else len(words)
    named: list[str] = []
    options: list[str] = []
    takes_value = False
    for word in words[:first]:
        (options if takes_value or word.startswith("-") else named).append(word)
        takes_value = not takes_value and word in VALUED
    return [*named, *options, *words[first:]]
