"""Measures a set of workloads on one CUDA device and predicts each: one table, predicted against measured.

``python tests/gpu/measure.py [--out DIR] [--minutes 8]`` with any interpreter that has torch; nothing else is
needed.  Every figure comes from children of the product's own measuring side: ``timed`` for what the allocator, the
process and the device show, ``predict`` for the prediction, and ``traced`` for the rows where time is left.  Results
are written after every job, so that a script that is stopped leaves what it has.  Without CUDA it says so and
measures nothing; ``--device cpu --quick`` tries the script on tiny models, requested bytes alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import children
from jobs import JOBS, Job

QUANTITIES = ("requested", "allocated", "reserved", "process", "device")
SLOWEST_S = 90.0
"""More than one child may take."""


class Script:
    """One run of the script: what is known, and where it is written."""

    def __init__(self, given: argparse.Namespace, facts: dict[str, Any]) -> None:
        self.given = given
        self.kind = given.device
        self.facts = facts
        self.end = time.monotonic() + 60 * given.minutes
        self.out = Path(given.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="peakmark-gpu-"))
        self.found: list[dict[str, Any]] = []
        self.context: Optional[int] = None
        """Process less reserved, as the first job that was measured had it."""
        self._plan = children.protocol().Plan

    def left(self) -> float:
        """Seconds that a child may still take."""
        return min(SLOWEST_S, self.end - time.monotonic())

    def plan(self, job: Job, task: str, number: int) -> Any:
        """The plan of ``task`` for ``job``."""
        micro = 2 if self.given.quick else job.micro
        args = {"model": job.model, "small": bool(self.given.quick), "kernel": job.kernel or None}
        id = f"{number:02d}-{task}"
        extra: dict[str, Any] = {}
        if task == "predict":
            extra["predict"] = {
                "semantics": self.kind,
                "target": self.facts["device"],
                "allocator": "",
                "capacity_bytes": None,
                "workspaces": {},
                "points": [{"micro": micro, "accumulate": job.accumulate, "length": None}],
                "largest": None,
                "placement": {"ranks": 1, "strategy": "none", "shard_each": [], "options": {}},
            }
        return self._plan(
            id=id,
            task=task,
            journal=str(self.scratch / (id + ".jsonl")),
            workload={"source": "models.py", "args": args},
            batch={"micro": micro, "accumulate": job.accumulate, "length": None, "tokens": None},
            optimizer=job.optimizer,
            step={"compile": False, "checkpoint": list(job.checkpoint)},
            quality={"batches": 1},
            precision=job.precision,
            device="cpu" if task == "predict" else self.kind,
            iterations=2,
            warmup=1,
            nice=0,
            folder=str(children.HERE),
            extra=extra,
        )

    def child(self, job: Job, task: str, number: int) -> children.Ended:
        """One child of ``task``."""
        return children.run(self.plan(job, task, number), sys.executable, self.scratch, self.left())

    def measure(self, job: Job, number: int) -> dict[str, Any]:
        """Predicted and measured figures of one job; what is unknown is absent and ``why`` says why.

        The prediction needs no GPU, so it runs beside the measurement, which is of memory and not of time.
        """
        found: dict[str, Any] = {"name": job.name, "predicted": {}, "measured": {}, "why": {}}
        with ThreadPoolExecutor(1) as beside:
            predicting = beside.submit(self.child, job, "predict", number)
            measured = self._on_gpu(job, number, found) if self.kind == "cuda" else None
            predicted = predicting.result()
        if predicted.why:
            found["why"]["predicted"] = predicted.why
        else:
            table = predicted.tables["predicted"]
            found["predicted"] = worst(table["phases"])
            found["approximate"], found["not_covered"] = table["approximate"], table["not_covered"]
            found["assumptions"] = table["assumptions"]
            found["predict_s"] = round(predicted.seconds, 1)
            found["predicted_phases"] = table["phases"]
        if self.kind == "cuda":
            self._outside(found, measured)
        else:
            self._traced(job, number, found)
            found["measured"] = dict(found.get("traced", {}))
        return found

    def _on_gpu(self, job: Job, number: int, found: dict[str, Any]) -> int | None:
        """Measure; returns what was used on the device before, None where that is not known."""
        before = children.used_bytes()
        timed = self.child(job, "timed", number)
        if timed.why:
            found["why"]["measured"] = timed.why
            return None
        for name, reading in (
            ("requested", "requested"),
            ("allocated", "tensor_allocated"),
            ("reserved", "allocator_reserved"),
            ("device", "device_used"),
        ):
            if reading in timed.readings:
                found["measured"][name] = timed.readings[reading]
        return before

    def _outside(self, found: dict[str, Any], before: int | None) -> None:
        """Process and device: the first job that was measured gives the context of all."""
        measured, predicted = found["measured"], found["predicted"]
        if "device" not in measured:
            return
        if before is None:
            found["why"]["process"] = "nvidia-smi did not say what was used before"
            return
        measured["process"] = measured["device"] - before
        if self.context is None:
            self.context = measured["process"] - measured["reserved"]
            found["why"]["process"] = "this job gives the context of all: process less reserved"
        if "reserved" in predicted:
            predicted["process"] = predicted["reserved"] + self.context
            predicted["device"] = predicted["process"] + before

    def _traced(self, job: Job, number: int, found: dict[str, Any]) -> None:
        if self.left() < 5:
            found["why"]["traced"] = "no time was left"
            return
        traced = self.child(job, "traced", number)
        if traced.why:
            found["why"]["traced"] = traced.why
            return
        found["traced"] = worst(traced.tables["traced"]["phases"])
        found["traced_phases"] = traced.tables["traced"]["phases"]

    def run(self) -> None:
        """All jobs that can run here, then their rows, until the time is over."""
        jobs = [one for one in JOBS if self.kind in one.kinds]
        for number, job in enumerate(jobs):
            if self.left() < 15:
                print(f"no time left for {len(jobs) - number} of {len(jobs)} jobs")
                break
            self.found.append(self.measure(job, number))
            self.write()
            print(summary(self.found[-1]), flush=True)
        for number, found in enumerate(self.found):
            if self.kind == "cuda" and self.left() > 25:
                self._traced(jobs[number], number, found)
                self.write()

    def write(self) -> None:
        """Both files, whole or not at all."""
        table = {"facts": self.facts, "device": self.kind, "quick": self.given.quick, "jobs": self.found}
        for name, text in (("gpu.json", json.dumps(table, indent=1)), ("gpu.md", markdown(table))):
            made = self.out / (name + ".new")
            made.write_text(text)
            made.replace(self.out / name)


def worst(phases: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The highest requested, allocated and reserved bytes of the iterations; absent where they are not known."""
    found: dict[str, int] = {}
    for name, phase in phases.items():
        if name.split(".")[-1] not in ("forward", "backward", "step"):
            continue
        for quantity in QUANTITIES[:3]:
            size = phase.get(quantity + "_bytes")
            if size is not None:
                found[quantity] = max(found.get(quantity, 0), size)
    return found


def error(found: dict[str, Any], quantity: str) -> Optional[float]:
    """Predicted less measured, a fraction of what was measured; None where one is not known."""
    predicted, measured = found["predicted"].get(quantity), found["measured"].get(quantity)
    return None if predicted is None or not measured else predicted / measured - 1


def summary(found: dict[str, Any]) -> str:
    """One line for the terminal."""
    told = [f"{one} {100 * e:+.3f} %" for one in QUANTITIES if (e := error(found, one)) is not None]
    return "{}: {}".format(found["name"], ", ".join(told) or "; ".join(found["why"].values()) or "nothing")


def markdown(table: dict[str, Any]) -> str:
    """The table for people."""
    facts = table["facts"]
    device = (facts["device"] or {}).get("name", "the CPU") if table["device"] == "cuda" else "the CPU"
    lines = [
        f"# Predicted and measured on {device}",
        "",
        "torch {}, CUDA {}. The highest instant of two iterations; the context of every process is taken from the "
        "first job.".format(facts["torch"], facts["cuda"] or "none"),
        "",
        "| workload | quantity | predicted B | measured B | error |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for found in table["jobs"]:
        for quantity in QUANTITIES:
            predicted, measured = found["predicted"].get(quantity), found["measured"].get(quantity)
            if predicted is None and measured is None:
                continue
            off = error(found, quantity)
            cells = [
                found["name"],
                quantity,
                *("n/a" if one is None else f"{one:,}" for one in (predicted, measured)),
            ]
            lines.append(
                "| {} | {} |".format(" | ".join(cells), "n/a" if off is None else "%+.4f %%" % (100 * off))
            )
        lines += ["| {} | {} | n/a | n/a | n/a |".format(found["name"], why) for why in unknown(found)]
    for quantity in QUANTITIES:
        errors = sorted(abs(e) for one in table["jobs"] if (e := error(one, quantity)) is not None)
        if errors:
            middle = errors[len(errors) // 2]
            lines += [
                "",
                f"{quantity}: {len(errors)} jobs, median {100 * middle:.4f} %, largest {100 * errors[-1]:.4f} %",
            ]
    return "\n".join(lines) + "\n"


def unknown(found: dict[str, Any]) -> list[str]:
    """Why a job has no figures."""
    return ["{}: {}".format(*one) for one in found["why"].items() if one[0] in ("predicted", "measured")]


def main(arguments: Optional[list[str]] = None) -> int:
    """0: measured, or there is nothing to measure on; 1: a job had no figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default=".", help="folder of gpu.md and gpu.json")
    parser.add_argument("--minutes", type=float, default=8.0, help="stop beginning children after so long")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny models")
    parser.add_argument("--only", default="", help="jobs whose name has this in it")
    given = parser.parse_args(arguments)
    facts = children.facts(sys.executable, 120)
    if given.device == "cuda" and facts["device"] is None:
        print("no CUDA device that torch {} can use: nothing was measured".format(facts["torch"]))
        return 0
    if given.only:
        JOBS[:] = [one for one in JOBS if given.only in one.name]
    script = Script(given, facts)
    script.run()
    print("written: %s" % (script.out / "gpu.md"))
    return 1 if any(unknown(one) for one in script.found) else 0


if __name__ == "__main__":
    sys.exit(main())
