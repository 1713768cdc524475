"""The tables of docs/model-states.md: published figures of model states beside ours, and what lies between.

    python tests/bench/model_states.py > docs/model-states.md

Nothing is built and nothing is downloaded: ours are the product's own formulas.  The exit code is 1 when a published
figure is not ours plus the bytes that are named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from published_states import Row, accelerate, anatomy, deepspeed, zero_figure, zero_table  # noqa: E402

HEAD = """# Published model states, reproduced

Weights, gradients, master weights and optimizer state as papers and documentation publish them, beside what Peakmark
declares for the same sizes; activations, temporaries and the context are in none of them. **Theirs** has the digits of
the source and the unit that it really is in: DeepSpeed and Hugging Face write GB and MB for GiB and MiB, the ZeRO
paper's are 10^9 bytes. **Ours** is exact, from `peakmark calc ranks` and the ledger's declared column. **Between**
names the bytes by which theirs is more; ours and those together have the published digits, which a test holds for
every row. Per-parameter figures are those of 10^9 parameters. Made by `python tests/bench/model_states.py`.
"""
COLUMNS = """
| case | theirs | ours, B | ours in their unit | between |
| --- | ---: | ---: | ---: | --- |"""
SECTIONS = (
    ("DeepSpeed's estimators", deepspeed),
    ("Bytes a parameter", anatomy),
    ("Accelerate's estimator", accelerate),
)
NOTES = {
    "DeepSpeed's estimators": "Host rows are those of all 8 processes of a node together. The product names the "
    "source's own device formula beside its own figure (`older formula`), and that one gives theirs exactly.",
    "Bytes a parameter": "An optimizer of another library is measured, not guessed: its row is n/a until then.",
    "Accelerate's estimator": "Training is four times the size of the model there. In pure float16 that is also "
    "what torch.optim keeps, as its moments have the parameters' dtype.",
}


def line(row: Row) -> str:
    """One row of the table."""
    between = "; ".join(f"{size:+,} B: {why}" for size, why in row.gaps) or "nothing"
    theirs = f"{row.theirs} {row.unit}"
    if row.ours is None:
        return f"| {row.case} | {theirs} | n/a | n/a | {row.unknown} |"
    return f"| {row.case} | {theirs} | {row.ours:,} | {row.shown(row.ours)} | {between} |"


def holds(row: Row) -> bool:
    """Whether theirs is ours and what lies between."""
    return row.ours is None or row.shown(row.explained) == row.theirs


def _table(rows: Iterable[Row]) -> list[str]:
    lines = [
        "\n## The ZeRO paper's table\n",
        "Stages 1, 2 and 3, GB of 10^9 bytes. Nothing lies between: 7.5B is rounded there, 128B and 1T are cut off.",
        "\n| model and ranks | theirs | ours, B |\n| --- | --- | --- |",
    ]
    listed = list(rows)
    for first in range(0, len(listed), 3):
        three = listed[first : first + 3]
        name = three[0].case.rpartition(",")[0]
        theirs, ours = (" / ".join(one.theirs for one in three), " / ".join(f"{one.ours:,}" for one in three))
        lines.append(f"| {name} | {theirs} | {ours} |")
    return lines


def main() -> int:
    """Print the page; 1 when a row does not hold."""
    figure, table = list(zero_figure()), list(zero_table())
    print(HEAD)
    print(f"## The ZeRO paper's example\n\n{figure[0].source}, figure 1 and section 3.1.\n{COLUMNS}")
    print("\n".join(line(row) for row in figure))
    print("\n".join(_table(table)))
    rows = [*figure, *table]
    for title, made in SECTIONS:
        found = list(made())
        print(f"\n## {title}\n\n{found[0].source}. {NOTES[title]}\n{COLUMNS}")
        print("\n".join(line(row) for row in found))
        rows += found
    return 0 if all(holds(row) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
