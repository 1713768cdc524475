"""The arguments of ``peakmark ledger``."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from tui.commands.ranges import whole


@dataclass(frozen=True, slots=True)
class Shown:
    """Which ledger, and what of it."""

    phase: str | None = None
    """None: the worst one."""
    probe_id: str | None = None
    """None: the one that ``ledger_probe`` chooses."""
    alive: int | None = None
    """Rows of what is alive at the peak; None: none of it (JSON has it always)."""
    readings: bool = False
    """Every reading with its source."""
    exact: bool = False
    """Every figure as an exact number of bytes."""
    verbose: bool = False
    """What the temporaries are for, under their rows."""
    csv: Path | None = None
    markdown: Path | None = None
    """Files to write, ``-``: stdout instead of the text."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add them to ``parser``."""
    parser.add_argument("project", type=Path)
    text = "build, first.backward, forward, backward, step, ...; default: the worst"
    parser.add_argument("--phase", help=text)
    text = "id of a measurement; default: the latest of the project's own batch, else the latest"
    parser.add_argument("--probe", help=text)
    text = "what is alive at the peak: the N largest modules and storages (8)"
    parser.add_argument("--alive", type=whole(1), nargs="?", const=8, metavar="N", help=text)
    text = "every reading with its source, every phase with its end"
    parser.add_argument("--readings", action="store_true", help=text)
    text = "exact bytes instead of GiB or MiB"
    parser.add_argument("--bytes", action="store_true", help=text)
    text = "what the temporaries are for, under their rows; --phase shows it too"
    parser.add_argument("--verbose", action="store_true", help=text)
    text = "write every column of every row in exact bytes, with origins and reasons; - for stdout"
    parser.add_argument("--csv", type=Path, metavar="FILE", help=text)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the same as tables of Markdown")


def shown(given: argparse.Namespace) -> Shown:
    """What was asked for."""
    verbose = given.verbose or given.phase is not None
    return Shown(
        phase=given.phase,
        probe_id=given.probe,
        alive=given.alive,
        readings=given.readings,
        exact=given.bytes,
        verbose=verbose,
        csv=given.csv,
        markdown=given.markdown,
    )
