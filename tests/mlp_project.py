"""The project file of a small mlp, whose runs the tests of the engine play."""

from __future__ import annotations


def text(micro: int, job: str, reserve: str = "", *tables: str) -> str:
    """The file.

    Args:
        micro: samples of a micro-batch.
        job: the budget, with its unit.
        reserve: of the budget, with its unit; "": the file names none.
        tables: of TOML, each with its head, which come last.
    """
    lines = [
        "schema = 1",
        "[workload]",
        'source = "mlp"',
        "args = { inputs = 4, hidden = [8], outputs = 2 }",
        "[workload.batch]",
        f"micro = {micro}",
        "[budget]",
        f'job = "{job}"',
        *([f'reserve = "{reserve}"'] if reserve else []),
        *tables,
    ]
    return "\n".join(lines) + "\n"
