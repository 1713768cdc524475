"""What of the memory of a training iteration is accounted for, model by model.

``python tests/bench/zoo.py`` writes docs/zoo.md; ``--print`` only prints the table.  Every model is traced on the CPU
in this process, as the traced child does it; the totals are the allocator's own events.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from probe.helpers import run_here  # noqa: E402
from zoo_models import KINDS, Kind  # noqa: E402

STEADY = ("forward", "backward", "step")
APART = ("operator_scratch", "library_workspaces", "unattributed")
HEAD = """\
# Where the bytes of an iteration are, for {count} models

Made by `python tests/bench/zoo.py` with torch {torch} on {machine} ({isa}). Each model is traced on the CPU over
three iterations; the figures are those of the highest instant of the steady one. **Total** is what the allocator's
own events say was asked for and not freed. **Attributed** are the bytes that have a ledger row by name: weights,
gradients, optimizer state, buffers, batch, activations, temporaries. **Scratch** is what an operator asked for and
freed within itself, which no dispatch mode sees. **Unattributed** is the rest. The four add up to the byte. Scratch
of convolutions and of LSTMs depends on the processor.

| model | from | peak in | total B | attributed B | scratch B | unattributed B | unattributed |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
"""


def measure(kind: Kind) -> dict[str, Any]:
    """The row of one model."""
    with tempfile.TemporaryDirectory() as folder:
        table = run_here("traced", **kind.plan(Path(folder))).table("traced")
    steady = [one for one in STEADY if one in table["phases"]]  # a step of its own may have no backward
    name = max(steady, key=lambda one: table["phases"][one]["requested_bytes"])
    peak = table["phases"][name]
    total, rows = peak["requested_bytes"], peak["rows"]
    apart = {key: rows.get(key, 0) for key in APART}
    attributed = sum(size for key, size in rows.items() if key not in APART)
    if attributed + sum(apart.values()) != total:
        raise SystemExit(f"{kind.name}: rows do not add up")
    return {"phase": name, "total": total, "attributed": attributed, **apart}


def line(kind: Kind, found: dict[str, Any]) -> str:
    """One row of the table."""
    scratch = found["operator_scratch"] + found["library_workspaces"]
    share = 100 * found["unattributed"] / found["total"]
    sizes = (found["total"], found["attributed"], scratch, found["unattributed"])
    cells = [kind.name, kind.of, found["phase"], *(f"{one:,}" for one in sizes), f"{share:.2f} %"]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure all, write the page; 1 when more than 1 % of a model's peak is unattributed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the table and write nothing")
    parser.add_argument("names", nargs="*", help="only these models")
    given = parser.parse_args()
    head = HEAD.format(
        count=len(KINDS),
        torch=torch.__version__,
        machine=f"{platform.system()} {platform.machine()}",
        isa=torch.backends.cpu.get_cpu_capability(),
    )
    lines: list[str] = []
    worst = 0.0
    for kind in KINDS:
        if given.names and kind.name not in given.names:
            continue
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            found = measure(kind)
        worst = max(worst, found["unattributed"] / found["total"])
        lines.append(line(kind, found))
        print(lines[-1], flush=True)
    if not given.print and not given.names:
        (ROOT / "docs" / "zoo.md").write_text(head + "\n".join(lines) + "\n")
    return 1 if worst > 0.01 else 0


if __name__ == "__main__":
    sys.exit(main())
