"""The words of ``peakmark snapshot``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tui import units
from tui.commands.ranges import whole


def add(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the file and what to show of it."""
    parser.add_argument("file", type=Path, help="what torch.cuda.memory._dump_snapshot wrote")
    text = "look at it in the app: the timeline, and what is alive at any instant of it"
    parser.add_argument("--app", action="store_true", help=text)
    text = "instant to look at: an event's number, peak or end (peak)"
    parser.add_argument("--at", default="peak", metavar="EVENT", help=text)
    parser.add_argument("--top", type=whole(1), default=10, metavar="N", help="rows of each table (10)")
    text = "replay under these settings, as expandable_segments:True; may be given several times"
    parser.add_argument("--alloc-conf", action="append", default=[], metavar="SETTINGS", help=text)
    text = "replay with so much to reserve, as 70GiB; a plain number is bytes"
    parser.add_argument("--capacity", type=_capacity, metavar="BYTES", help=text)


def _capacity(text: str) -> int:
    try:
        size = units.parse_bytes(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not size:
        raise argparse.ArgumentTypeError("must be more than nothing")
    return size
