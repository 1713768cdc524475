"""The arguments of ``peakmark predict``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tui.commands.ranges import numbers, whole


def add(parser: argparse.ArgumentParser) -> None:
    """Add them to ``parser``."""
    parser.add_argument("project", type=Path, nargs="?", help="the project's file")
    parser.add_argument(
        "--batch", type=numbers, help="micro-batches, as 1,2,4 or 8..64/8; default: the project's"
    )
    parser.add_argument("--length", type=numbers, help="lengths, likewise; default: the project's largest")
    text = "cuda | cpu | GPU-uuid: whose operators and allocator; default: CUDA's unless the project's is the CPU"
    parser.add_argument("--device", help=text)
    text = "for this GPU, such as 'H100 80GB HBM3', or for one of so many bytes, such as 80GiB"
    parser.add_argument("--gpu", metavar="NAME|BYTES", help=text)
    parser.add_argument(
        "--gpus", action="store_true", help="list the GPUs that are known, with their sources"
    )
    text = "of the caching allocator, as PYTORCH_CUDA_ALLOC_CONF has them"
    parser.add_argument("--alloc-conf", metavar="SETTINGS", help=text)
    text = "the largest micro-batch within the budget less the reserve, too"
    parser.add_argument("--largest", action="store_true", help=text)
    text = "rows of this phase: first.backward, forward, backward, step, ...; worst: those of the worst"
    parser.add_argument("--phase", help=text)
    parser.add_argument(
        "--trust", action="store_true", help="allow the project's own Python and programs to run"
    )
    parser.add_argument(
        "--nice", type=whole(0, 19), default=10, help="of the predicting process; 10 keeps keys answering"
    )
    parser.set_defaults(force=False, search=False)
