"""Real ranks over gloo: their ledgers, and how a measurement ends when one of them does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from children.helpers import is_running

from tui.engine import child, processes, ranks
from tui.engine.outcome import Outcome
from tui.probe import tasks
from tui.probe.protocol import (
    Failed,
    Finished,
    PhaseEntered,
    Plan,
    ResultReady,
    Started,
    encode,
    rank_journal,
)

SOURCE = Path(__file__).parent / "children" / "ranked.py"
COUNT = 33 * 129 + 129 + 129 * 33 + 33
PARAMETERS = 3 * COUNT + 33 * 5 + 5


def plan(folder: Path, task: str, strategy: str, fault: str = "", **more) -> Plan:
    told = {
        "count": 2,
        "strategy": strategy,
        "shard_each": ["Block"] if strategy == "fsdp2" else [],
        "options": more.pop("options", {}),
        "timeout_s": more.pop("timeout_s", 60),
    }
    return Plan(
        id=f"m-{strategy}-{fault or task}",
        task=task,
        journal=str(folder / f"m-{strategy}-{fault or task}.jsonl"),
        workload={"source": str(SOURCE), "args": {"fault": fault}},
        batch={"micro": 4, "accumulate": 2, "length": None, "tokens": None, "weight_by": "micro-batch"},
        optimizer={"name": "torch.optim.AdamW", "implementation": "foreach", "args": {}, "clip_norm": None},
        step={"compile": False, "checkpoint": []},
        quality={"batches": 1},
        folder=str(folder),
        iterations=3,
        warmup=2,
        nice=0,
        extra={"ranks": told},
        **more,
    )


async def measure(made: Plan) -> Outcome:
    return await child.measure(made, sys.executable, (), lambda event: None)


async def until(condition: Callable[[], object], what: str) -> None:
    """Ranks import torch twice over, which takes its time on a busy machine."""
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


def left_of(made: Plan) -> list[int]:
    return [pid for pid, started in processes.marked(made.id).items() if processes.is_alive(pid, started)]


@pytest.fixture(scope="module")
def traced(tmp_path_factory) -> dict[str, Outcome]:
    """Both strategies, and buckets that gradients are views of."""
    folder = tmp_path_factory.mktemp("ranks")

    async def both() -> dict[str, Outcome]:
        view = plan(folder, "traced", "ddp", options={"gradient_as_bucket_view": True})
        view.id, view.journal = "m-view", str(folder / "m-view.jsonl")
        plans = {name: plan(folder, "traced", name) for name in ("ddp", "fsdp2")} | {"view": view}
        ended = await asyncio.gather(*[measure(one) for one in plans.values()])
        return dict(zip(plans, ended, strict=True))

    found = asyncio.run(both())
    for outcome in found.values():
        assert outcome.word == "done", outcome.sentence
    return found


def rows(outcome: Outcome, phase: str, rank: int) -> dict[str, int]:
    return outcome.ranks[rank]["phases"][phase]["rows"]


@pytest.mark.parametrize("rank", [0, 1])
def test_ddp_leaves_everything_on_every_rank_and_a_copy_of_the_gradients_in_buckets(traced, rank):
    found = rows(traced["ddp"], "step", rank)
    whole = 4 * PARAMETERS
    assert (found["weights"], found["gradients"], found["reduction_buckets"]) == (whole, whole, whole)
    assert found["optimizer_state"] == 2 * whole + 4 * 14  # a step counter a tensor
    assert found.get("unattributed", 0) < 1024  # small ones that threads of gloo free unseen


@pytest.mark.parametrize("rank", [0, 1])
def test_gradients_that_are_views_of_the_buckets_are_there_once(traced, rank):
    found = rows(traced["view"], "step", rank)
    assert found["gradients"] == 4 * PARAMETERS
    assert "reduction_buckets" not in found


def test_until_the_last_micro_batch_gradients_are_beside_the_buckets_that_they_become_views_of(traced):
    head = 5 * 33 + 5  # whose gradients come first, and are views by then
    assert rows(traced["view"], "backward", 0)["gradients"] == 4 * (2 * PARAMETERS - head)


def fullest(first: bool) -> int:
    """Elements of one of 2 ranks: rows of each parameter, the first rank with one more where they are odd."""
    shapes = 3 * [(129, 33), (129,), (33, 129), (33,)] + [(5, 33), (5,)]
    total = 0
    for rows_, *rest in shapes:
        held = -(-rows_ // 2) if first else rows_ // 2
        total += held * (rest[0] if rest else 1)
    return total


@pytest.mark.parametrize("rank", [0, 1])
def test_fsdp2_divides_rows_and_pads_weights_and_gradients_to_the_fullest_rank(traced, rank):
    found = rows(traced["fsdp2"], "step", rank)
    assert found["weights"] == found["gradients"] == 4 * fullest(True)
    assert found["optimizer_state"] == 2 * 4 * fullest(rank == 0) + 4 * 14


@pytest.mark.parametrize("rank", [0, 1])
def test_whole_weights_are_a_row_of_their_own_and_leave_before_the_step(traced, rank):
    padded = 4 * 2 * (2 * (65 * 33 + 65 + 17 * 129 + 17))  # of 2 neighbouring blocks
    root = 4 * 2 * (3 * 33 + 3)
    assert rows(traced["fsdp2"], "backward", rank)["unsharded_weights"] == padded + root
    assert "unsharded_weights" not in rows(traced["fsdp2"], "step", rank)


def test_nothing_grows_from_one_iteration_to_the_next_and_labels_change_no_peak(traced):
    for outcome in traced.values():
        for table in outcome.ranks:
            assert (table["growth_bytes"], table["tracking_bytes"]) == (0, 0)
            assert table["gradient_receiving"] == PARAMETERS


def test_samples_of_a_step_are_those_of_all_ranks_and_each_trains_on_batches_of_its_own(traced):
    assert traced["ddp"].iterations[0].samples == 2 * 4 * 2
    mine, theirs = (
        [line for line in Path(path).read_text().splitlines() if '"IterationDone"' in line]
        for path in (traced["ddp"].journal, rank_journal(traced["ddp"].journal, 1))
    )
    assert json.loads(mine[0])["loss"] != json.loads(theirs[0])["loss"]


async def test_a_rank_that_is_killed_is_named_and_the_others_are_ended(tmp_path):
    made = plan(tmp_path, "timed", "ddp", "killed")
    outcome = await measure(made)
    assert outcome.word == "crashed"
    assert outcome.sentence.startswith("rank 1: the probe child was ended by SIGKILL in phase ")
    assert "; the other ranks were ended" in outcome.sentence
    assert left_of(made) == []


async def test_out_of_memory_in_one_rank_is_an_outcome_that_names_it_and_waits_for_nobody(tmp_path):
    made = plan(tmp_path, "traced", "fsdp2", "memory")
    outcome = await measure(made)
    assert (outcome.word, outcome.failure and outcome.failure.details["rank"]) == ("out-of-memory", 1)
    assert "rank 1: " in outcome.sentence
    assert outcome.failure is not None
    assert outcome.failure.details["alive"]["weights"] > 0
    assert left_of(made) == []


async def test_a_rank_that_hangs_is_waited_for_as_long_as_the_plan_says(tmp_path):
    made = plan(tmp_path, "timed", "ddp", "hangs", timeout_s=3)
    outcome = await measure(made)
    assert outcome.word == "failed"
    assert "rank 0 waited 3 s in phase first.backward for the others: rank 1 was last " in outcome.sentence
    assert left_of(made) == []


async def test_stopping_ends_every_rank(tmp_path):
    made = plan(tmp_path, "timed", "ddp", "hangs")
    task = asyncio.ensure_future(measure(made))
    other = Path(rank_journal(made.journal, 1))
    await until(lambda: other.exists() and '"first.forward"' in other.read_text(), "rank 1")
    task.cancel()
    outcome = await task
    assert outcome.word == "cancelled"
    assert left_of(made) == []


async def test_no_rank_outlives_a_runner_that_is_killed(tmp_path):
    made = plan(tmp_path, "timed", "ddp", "hangs")
    (tmp_path / "plan.json").write_text(made.dump())
    script = (
        "import asyncio, sys; from pathlib import Path; from tui.engine import child; "
        "from tui.probe.protocol import Plan; made = Plan.load(Path(sys.argv[1]).read_text()); "
        "asyncio.run(child.measure(made, sys.executable, (), lambda event: None))"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "plan.json")],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    try:
        other = Path(rank_journal(made.journal, 1))
        await until(lambda: other.exists() and '"first.forward"' in other.read_text(), "rank 1")
        there = left_of(made)
        assert len(there) >= 3  # what started the ranks, and they
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        await until(lambda: not any(is_running(pid) for pid in there), "their ends")
    finally:
        runner.kill()


# --- who it was, from journals alone -----------------------------------------------------------------------------


def journals(folder: Path, *events: list[object]) -> Plan:
    made = plan(folder, "timed", "ddp")
    for index, told in enumerate(events):
        Path(rank_journal(made.journal, index)).write_bytes(
            b"".join(
                encode(event, wall_ns=1000 * (place + 1) + index)
                for place, event in enumerate([Started("timed", 10 + index, 1, "3", "2", 0, 1), *told])
            )
        )
    return made


def joined(made: Plan, **more) -> Outcome:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    word = more.pop("word", "done")
    base = Outcome(made.id, word, "", now, now, made.journal, made.journal[:-6] + ".log", **more)
    return ranks.joined(base, made, lambda key: "p.toml:3")


GONE = Failed("internal", "RuntimeError: Connection closed by peer", details={"secondary": "gone"})


def test_a_rank_that_was_left_alone_is_not_the_one_that_failed(tmp_path):
    own = Failed("workload", "row 7 is not there", "w.py:3")
    made = journals(tmp_path, [GONE], [PhaseEntered("forward"), own])
    outcome = joined(made, word="failed", returncode=1)
    assert (outcome.word, outcome.sentence) == ("failed", "w.py:3: rank 1: row 7 is not there")


def test_a_fault_that_every_rank_has_alike_is_told_once_and_of_none(tmp_path):
    own = Failed("workload", "row 7 is not there")
    outcome = joined(journals(tmp_path, [own], [own]), word="failed", returncode=1)
    assert outcome.sentence == "row 7 is not there"


def test_a_rank_ended_by_a_signal_is_found_by_its_code_where_the_other_only_lost_it(tmp_path):
    made = journals(tmp_path, [GONE], [PhaseEntered("backward")])
    codes = {"ranks": {"codes": {"0": 1, "1": -9}}}
    outcome = joined(made, word="failed", returncode=1, results=codes)
    assert outcome.word == "crashed"
    assert outcome.sentence.startswith("rank 1: the probe child was ended by SIGKILL in phase backward")


def test_a_finished_rank_0_does_not_hide_another_that_failed(tmp_path):
    made = journals(tmp_path, [Finished()], [Failed("workload", "the last batch is short")])
    outcome = joined(made, returncode=1)
    assert (outcome.word, outcome.sentence) == ("failed", "rank 1: the last batch is short")


def test_tokens_are_those_of_all_ranks(tmp_path):
    tables = [
        {"tokens": [3, 4], "tokens_per_iteration": 3.5},
        {"tokens": [5, 5], "tokens_per_iteration": 5.0},
    ]
    made = journals(tmp_path, *([ResultReady("timed", one), Finished()] for one in tables))
    outcome = joined(made, returncode=0, results={"timed": tables[0]})
    assert outcome.results["timed"] == {"tokens": [8, 9], "tokens_per_iteration": 8.5}


def test_the_other_ranks_are_no_other_processes(tmp_path):
    tables = [
        {"others_cpu_ratio": 0.625, "own_cpu_ratio": 0.375},
        {"others_cpu_ratio": 0.5, "own_cpu_ratio": 0.5},
    ]
    made = journals(tmp_path, *([ResultReady("timed", one), Finished()] for one in tables))
    outcome = joined(made, returncode=0, results={"timed": tables[0]})
    assert outcome.results["timed"]["others_cpu_ratio"] == 0.125


def predicted(folder: Path, strategy: str) -> dict[str, dict[str, int]]:
    """Rows by phase of the same rank predicted, in this process."""
    found: list[object] = []

    class Told(list[object]):
        phase = "start"

        def __call__(self, event: object) -> None:
            found.append(event)

        def enter(self, phase: str, iteration: int | None = None, micro: int | None = None) -> None:
            self.phase = phase

        note = enter

    made = plan(folder, "predict", strategy)
    placement = {
        "ranks": 2,
        **{key: made.extra["ranks"][key] for key in ("strategy", "shard_each", "options")},
    }
    point = {"micro": 4, "accumulate": 2, "length": None}
    made.extra = {"predict": {"semantics": "cpu", "target": None, "points": [point], "placement": placement}}
    made.journal = ""
    tasks.run(made, Told())  # type: ignore[arg-type]
    table = next(one.table for one in found if isinstance(one, ResultReady) and one.kind == "predicted")
    return {phase: {**peak["rows"], "": peak["requested_bytes"]} for phase, peak in table["phases"].items()}


PASSING = ("retained_activations", "step_temporaries", "operator_scratch", "unattributed")
"""What differs at a peak that gloo's own copies, which no GPU makes, move by an operator."""


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_a_real_rank_is_predicted_to_the_byte_but_for_what_passes_and_in_all_to_a_kib(
    traced, strategy, tmp_path
):
    told = predicted(tmp_path, strategy)
    for phase in ("backward", "step"):
        real = traced[strategy].ranks[0]["phases"][phase]
        assert _staying(real["rows"]) == _staying(told[phase])
        assert abs(real["requested_bytes"] - told[phase][""]) < 1024


def _staying(found: dict[str, int]) -> dict[str, int]:
    return {row: size for row, size in found.items() if row and row not in PASSING}
