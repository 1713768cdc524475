"""What a prediction is worth, in one page: ``python tests/bench/prediction.py`` writes docs/prediction.md.

Parts: a, recorded traces through the allocator's simulator; b, fake against real on the CPU; c, published figures of
real CUDA devices; d, speed; e, reported cases.  ``--only a,c`` makes some of them again and keeps the others as they
are in the page; ``--print`` writes nothing.  A part that takes longer than ``--limit`` seconds is stopped, and the
page says so.  The page is written after every part.  The environment variable PEAKMARK_TRACES names the traces' folder.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

import prediction_cases  # noqa: E402
import prediction_cpu  # noqa: E402
import prediction_cuda  # noqa: E402
import prediction_speed  # noqa: E402
import prediction_traces  # noqa: E402
import torch  # noqa: E402

PAGE = ROOT / "docs" / "prediction.md"
HEAD = """\
# What a prediction is worth

Made by `python tests/bench/prediction.py` with torch {torch} on {machine}, {cores} cores, no GPU.
"""
PARTS = {
    "a": prediction_traces.section,
    "b": prediction_cpu.section,
    "c": prediction_cuda.section,
    "d": prediction_speed.section,
    "e": prediction_cases.section,
}


def kept() -> dict[str, str]:
    """The parts that the page has now, by letter."""
    text = PAGE.read_text() if PAGE.exists() else ""
    found = re.findall(r"<!-- part (\w) -->\n(.*?)(?=<!-- part|\Z)", text, re.DOTALL)
    return dict(found)


class Late(BaseException):
    """A part took longer than it may; no part may take it for an error of its own."""


def made(letter: str, limit: int) -> str:
    """The text of a part, or that it did not finish within ``limit`` seconds."""

    def stop(number: int, frame: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        return "\n".join(PARTS[letter]())
    except Late:
        return f"## Part {letter}\n\nNot made: it did not finish within {limit} s; `--only {letter}` makes it alone.\n"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def write(texts: dict[str, str]) -> None:
    """Write the page of these parts."""
    head = HEAD.format(
        torch=torch.__version__,
        machine=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count(),
    )
    body = "\n".join(f"<!-- part {one} -->\n{texts[one].strip()}\n" for one in PARTS if one in texts)
    PAGE.write_text(f"{head}\n{body}")


def main() -> int:
    """Make the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, such as a,c")
    parser.add_argument("--print", action="store_true", help="write nothing")
    parser.add_argument("--limit", type=int, default=1800, metavar="SECONDS", help="of one part (1800)")
    given = parser.parse_args()
    asked = [one.strip() for one in given.only.split(",")]
    unknown = [one for one in asked if one not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if given.limit < 1:
        parser.error("--limit is at least 1 s")
    warnings.simplefilter("ignore")
    for letter in asked:
        text = made(letter, given.limit)
        if given.print:
            print(text)
        else:
            write({**kept(), letter: text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
