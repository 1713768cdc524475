"""Prediction against published figures of real CUDA devices: predicted, measured, signed error, cause."""

from __future__ import annotations

import statistics
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probe.helpers import run_here
from published.jobs import HERE, JOBS, Job, rows

QUANTITIES = ("requested", "allocated", "reserved")
STEADY = ("forward", "backward", "step")
FIRST = tuple("first." + one for one in STEADY)
EXACT = "exact"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Found:
    """One row: bytes by quantity, predicted and measured."""

    name: str
    row: dict[str, Any]
    predicted: dict[str, int] = field(default_factory=dict)
    why: str = ""
    """Why nothing was predicted."""
    seconds: float = 0.0

    def error(self, quantity: str) -> float | None:
        """Predicted less measured as a fraction; what the published figure's last digit hides counts as none."""
        measured = self.row["measured"].get(quantity)
        if quantity not in self.predicted or not measured:
            return None
        off = self.predicted[quantity] - measured
        return 0.0 if abs(off) <= self.row["rounding_bytes"] else off / measured


def plan_of(job: Job) -> dict[str, Any]:
    """Arguments of ``run_here`` for a prediction of ``job``."""
    asked = {
        "semantics": "cuda",
        "target": job.target,
        "allocator": "",
        "capacity_bytes": None,
        "workspaces": {},
        "largest": None,
        "placement": {"ranks": 1, "strategy": "none", "shard_each": [], "options": {}},
        "points": [{"micro": job.micro, "accumulate": job.accumulate, "length": job.length}],
    }
    return {
        "source": job.file,
        "args": job.args,
        "folder": HERE,
        "micro": job.micro,
        "accumulate": job.accumulate,
        "length": job.length,
        "precision": job.precision,
        "optimizer": job.optimizer,
        "extra": {"predict": asked},
    }


def read(job: Job, phases: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The bytes at the instant that the published figure is of."""

    def highest(names: Iterable[str], key: str) -> int:
        return max(phases[one][key] for one in names if one in phases)

    def end(names: Iterable[str]) -> dict[str, int]:
        last = [one for one in names if one in phases][-1]
        keys = {
            "requested": "end_bytes",
            "allocated": "end_allocated_bytes",
            "reserved": "end_reserved_bytes",
        }
        return {quantity: phases[last][key] for quantity, key in keys.items()}

    if job.read == "built":
        return end(("build", "optimizer"))
    if job.read == "end":
        return end(STEADY)
    chosen = {"steady": STEADY, "first": FIRST, "overall": tuple(phases)}[job.read]
    return {one: highest(chosen, one + "_bytes") for one in QUANTITIES}


def predict(name: str, row: dict[str, Any]) -> Found:
    """The prediction of one row that is eligible."""
    job = JOBS.get(name)
    if job is None:
        return Found(name, row, why="its program was not rebuilt")
    begun = time.monotonic()
    try:
        table = run_here("predict", **plan_of(job)).table("predicted")
    except Exception as error:
        return Found(name, row, why=str(error).split("\n")[0] or type(error).__name__)
    bytes_at = read(job, table["phases"])
    bytes_at["device_less_context"] = bytes_at["reserved"]
    kept = {one: bytes_at[one] for one in row["measured"] if one in bytes_at}
    return Found(name, row, kept, seconds=time.monotonic() - begun)


def causes(table: str = "differs") -> dict[str, str]:
    """By name what is known of why a row differs, or what of its program was ``corrected`` later."""
    return tomllib.loads((Path(HERE) / "causes.toml").read_text())[table]


def cause(found: Found, known: dict[str, str]) -> str:
    """Why predicted and measured differ, EXACT where they do not, UNEXPLAINED where it is not known."""
    if found.why:
        return "not predicted: " + found.why
    errors = [found.error(one) for one in found.row["measured"]]
    if all(one == 0 for one in errors if one is not None):
        return EXACT if not found.row["rounding_bytes"] else "exact within the figure's digits"
    return known.get(found.name, UNEXPLAINED)


def told(found: Found, known: dict[str, str], corrected: dict[str, str]) -> str:
    """The cause, and what of the program was corrected after its first prediction."""
    later = corrected.get(found.name)
    text = cause(found, known)
    return f"{text}; the program was corrected after its first prediction: {later}" if later else text


def lines_of(found: Found, known: dict[str, str], corrected: dict[str, str]) -> list[str]:
    """One line a quantity."""
    out = []
    for quantity, measured in found.row["measured"].items():
        predicted = found.predicted.get(quantity)
        off = None if predicted is None else predicted - measured
        cells = [
            found.name,
            found.row["confidence"],
            found.row["looked_at"],
            quantity.replace("_", " "),
            "n/a" if predicted is None else f"{predicted:,}",
            f"{measured:,}",
            "n/a" if off is None else f"{off:+,}",
            "n/a" if off is None else f"{100 * off / measured:+.4f} %",
            told(found, known, corrected),
        ]
        out.append(f"| {' | '.join(cells)} |")
    return out


def summary(found: list[Found], title: str, wanted: Callable[[Found], bool]) -> list[str]:
    """Medians and maxima of the absolute errors of some rows, a line a quantity."""
    out = []
    for quantity in (*QUANTITIES, "device_less_context"):
        errors = [one.error(quantity) for one in found if wanted(one)]
        known = [100 * abs(one) for one in errors if one is not None]
        if known:
            exact = sum(1 for one in known if one == 0)
            middle, most = statistics.median(known), max(known)
            cells = [title, quantity.replace("_", " "), str(len(known)), str(exact)]
            out.append(f"| {' | '.join(cells)} | {middle:.4f} % | {most:.4f} % |")
    return out


def predictions(only: Iterable[str] = ()) -> list[Found]:
    """The prediction of every eligible row, told as it is made."""
    found = []
    for name, row in rows().items():
        if not row["eligible"] or (only and name not in only):
            continue
        found.append(predict(name, row))
        errors = {one: found[-1].error(one) for one in row["measured"]}
        told = [f"{one} n/a" if e is None else f"{one} {100 * e:+.4f} %" for one, e in errors.items()]
        print(name, found[-1].why or ", ".join(told), f"{found[-1].seconds:.1f} s", flush=True)
    return found


def section() -> list[str]:
    """The lines of the page."""
    return page(predictions())


def page(found: list[Found]) -> list[str]:
    """The lines of the page for these predictions."""
    table, known, corrected = rows(), causes(), causes("corrected")
    verdicts = [cause(one, known) for one in found]
    unexplained = sum(1 for one in verdicts if one.startswith(UNEXPLAINED))
    missing = sum(1 for one in found if one.why)
    away = {name: row for name, row in table.items() if not row["eligible"]}
    return [
        "## Prediction against published figures of real CUDA devices",
        "",
        f"Of {len(table)} published figures with confidence high or medium {len(table) - len(away)} are eligible "
        f"(the list was written before any prediction); {len(found) - missing} of them were predicted, {missing} not, "
        f"and {unexplained} differ without an explanation. Looked at: whether the figure was known while the "
        "rules were made; the others judge them. An error within the last digit of a published figure counts as none.",
        "",
        "After their first predictions, and because those differed, the programs of "
        f"{sum(one.name in corrected for one in found)} figures were corrected by facts of their sources or of the "
        "torch of their time; the last column says what. So were rules, none for one figure: a "
        "product's result is made before the library's workspace, inference mode is traced operator by operator and "
        "keeps no casts, and values are copied before indices are sorted.",
        "",
        "| rows | quantity | figures | exact | median error | largest error |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *summary(found, "all", lambda one: True),
        *summary(found, "high confidence", lambda one: one.row["confidence"] == "high"),
        *summary(found, "medium confidence", lambda one: one.row["confidence"] == "medium"),
        *summary(found, "not looked at", lambda one: one.row["looked_at"] == "no"),
        *summary(found, "program not corrected", lambda one: one.name not in corrected),
        "",
        "| figure | confidence | looked at | quantity | predicted B | measured B | difference B | error | cause |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
        *(line for one in found for line in lines_of(one, known, corrected)),
        "",
        "Not eligible:",
        "",
        *(f"* {name}: {row['why']}" for name, row in away.items()),
        "",
    ]
