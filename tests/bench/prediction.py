"""What a prediction is worth, in one page: ``python tests/bench/prediction.py`` writes docs/prediction.md.

Parts: a, recorded traces through the allocator's simulator; b, fake against real on the CPU; c, published figures of
real CUDA devices; d, speed; e, reported cases.  ``--only a,c`` makes some of them again and keeps the others as they
are in the page; ``--print`` writes nothing.  The environment variable PEAKMARK_TRACES names the traces' folder.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
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


def main() -> int:
    """Make the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, such as a,c")
    parser.add_argument("--print", action="store_true", help="write nothing")
    given = parser.parse_args()
    asked = [one.strip() for one in given.only.split(",")]
    unknown = [one for one in asked if one not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    made: dict[str, str] = {}
    for letter in asked:
        made[letter] = "\n".join(PARTS[letter]())
        if given.print:
            print(made[letter])
    if not given.print:
        texts = {**kept(), **made}
        head = HEAD.format(
            torch=torch.__version__,
            machine=f"{platform.system()} {platform.machine()}",
            cores=os.cpu_count(),
        )
        body = "\n".join(f"<!-- part {one} -->\n{texts[one].strip()}\n" for one in PARTS if one in texts)
        PAGE.write_text(f"{head}\n{body}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
