"""A search and a sweep over children that end as a limit says; nothing is measured, everything is saved."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import mlp_project
import pytest

from tui.budget.search import Trial
from tui.engine.context import Context, Options
from tui.engine.device import Device
from tui.engine.outcome import Outcome
from tui.engine.steps import evidence, probe, sweep
from tui.errors import PeakmarkError
from tui.probe.protocol import EnvironmentSeen, Failed, Planned, ReadingTaken
from tui.project.load import load
from tui.project.measured import Probe

AT = datetime(2026, 12, 1, tzinfo=UTC)
MIB = 2**20
BASE, EACH = 100 * MIB, 10 * MIB
PROJECT = mlp_project.text(4, "1200 MiB", "100 MiB", '[environment]\ndevice = "cpu"')
LIMIT = 100
"""Samples whose process takes budget less reserve: 100 + 10 x 100 = 1,100 MiB."""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = Path("tiny.toml")
    path.write_text(PROJECT)
    return path


class World:
    """Children of a workload that takes BASE and EACH a sample, as their plans ask; out of memory at the budget."""

    def __init__(self, project: Path, **options: Any) -> None:
        device = Device("cpu", "cpu", "CPU", 64 * 1024 * MIB, unknown={"others_used_bytes": "not read"})
        self.events: list[Any] = []
        state = project.absolute().parent / "state"
        options = Options(**{"search": True, **options})
        self.context = Context(
            project, options, "run-1", state, device, self.events.append, lambda event: None
        )
        self.context.measure = self.measure  # type: ignore[method-assign]
        self.plans: list[Any] = []
        self.fails: dict[int, Failed] = {}
        self.rate = lambda micro: 100.0 * micro
        self.seconds = 4.0
        self.soak_bytes = 0
        self.validates = lambda micro: True
        self.torch = "2.13"
        self.stop_after = 10**6

    async def measure(self, plan: Any, title: str) -> Outcome:
        if len(self.plans) == self.stop_after:
            raise asyncio.CancelledError
        self.plans.append(plan)
        micro = plan.batch["micro"]
        if micro in self.fails:
            return self.outcome(
                plan, "failed", failure=self.fails[micro], sentence=self.fails[micro].sentence
            )
        size = BASE + EACH * micro + (self.soak_bytes if "validation_batches" in plan.extra else 0)
        if size > plan.limit_bytes:
            return self.outcome(plan, "out-of-memory", failure=Failed("out-of-memory", "", "", "", "forward"))
        if plan.task == "traced":
            phase = {"requested_bytes": EACH * micro, "rows": {"retained_activations": EACH * micro}}
            phase |= {"operator": "", "module": "", "micro_batch": 0}
            return self.outcome(plan, results={"traced": {"phases": {"backward": phase}, "source": "record"}})
        validation = plan.extra.get("validation_micro", micro)
        table = {
            "step_ms": [1000 * micro / self.rate(micro)] * plan.iterations, "samples_per_iteration": micro,
            "tokens_per_iteration": None, "allocated_trace": [], "warmup": plan.warmup, "first_ms": 9.0,
            "losses": [1.0], "loss_first": 1.0, "allocated_source": "", "others_cpu_ratio": None,
            "observed_batch": micro, "batch_ms": [],
        }  # fmt: skip
        more: dict[str, Any] = {"results": {"timed": table}}
        more["readings"] = (ReadingTaken("process", "backward", size, "VmHWM", "peak"),)
        if not self.validates(validation):
            more["failure"] = Failed("out-of-memory", "", "", "", "validate")
            return self.outcome(plan, "out-of-memory", **more)
        return self.outcome(plan, **more)

    def outcome(self, plan: Any, word: Any = "done", sentence: str = "", **more: Any) -> Outcome:
        seen = EnvironmentSeen({"device": "CPU", "device_id": "cpu", "torch": self.torch, "python": "3.11"})
        ended = AT + timedelta(seconds=self.seconds)
        return Outcome(plan.id, word, sentence, AT, ended, plan.journal, "", environment=seen, **more)

    async def run(self) -> Any:
        self.result = await probe.run(self.context)
        return self.result

    @property
    def saved(self) -> Any:
        return load(self.context.project_path).measured

    @property
    def search(self) -> Any:
        return self.saved.search[max(self.saved.search)]

    @property
    def tried(self) -> list[tuple[str, int]]:
        return [(one.task, one.batch["micro"]) for one in self.plans]

    @property
    def told(self) -> str:
        return "\n".join(one.text for one in self.events if isinstance(one, Planned))


async def test_a_search_ends_with_a_soak_of_the_largest_and_a_failure_of_the_next(project):
    world = World(project)
    result = await world.run()
    found, probes = world.search, world.saved.probe
    assert (result.code, result.outcome, result.result_id) == (0, "done", max(world.saved.search))
    assert (found.outcome, found.largest, found.failed_at) == ("done", LIMIT, LIMIT + 1)
    soak = probes[found.largest_probe]
    assert (soak.micro_batch, soak.soaked, soak.tasks, soak.outcome) == (
        LIMIT,
        50,
        ("traced", "timed"),
        "fits",
    )
    assert probes[found.failed_probe].outcome == "fits-without-reserve"
    assert [(one.task, one.batch["micro"]) for one in world.plans[-2:]] == [
        ("timed", LIMIT),
        ("traced", LIMIT),
    ]
    assert len({one.id for one in world.plans}) == len(world.plans)
    assert "4 first (nothing was measured yet)" in world.told


async def test_candidates_that_only_decide_have_one_child_and_complete_more_than_two_steps(project):
    world = World(project)
    await world.run()
    deciding = [one for one in world.saved.probe.values() if not one.soak]
    assert {one.tasks for one in deciding} == {("timed",)}
    assert all(plan.iterations >= 2 and plan.warmup >= 2 for plan in world.plans if plan.task == "timed")
    assert all("not traced" in one.unknown["phases"] for one in deciding if one.outcome == "fits")


async def test_earlier_measurements_bracket_the_search(project):
    await World(project, search=False, batches=(4, 8)).run()
    world = World(project)
    await world.run()
    assert world.tried == [("timed", 100), ("timed", 101), ("timed", 100), ("traced", 100)]
    assert "by the line through earlier measurements" in world.told
    assert "about 4 measurements; expected" in world.told


async def test_the_fastest_is_measured_in_full_when_it_is_not_the_largest(project):
    world = World(project)
    world.rate = lambda micro: 900.0 if micro == 8 else 100.0
    await world.run()
    found = world.search
    assert (found.largest, found.fastest) == (LIMIT, 8)
    assert world.tried[-2:] == [("traced", 8), ("timed", 8)]
    assert world.saved.probe[found.fastest_probe].tasks == ("traced", "timed")


async def test_quick_measures_less_and_says_so(project):
    world = World(project, quick=True)
    world.rate = lambda micro: 900.0 if micro == 8 else 100.0
    await world.run()
    assert {one.task for one in world.plans} == {"timed"}
    assert {one.iterations for one in world.plans} == {2, 20}
    assert "--quick: 2 timed iterations a candidate, soak 20, nothing traced" in world.told
    assert world.search.quick


async def test_a_soak_that_takes_more_lowers_the_largest(project):
    world = World(project)
    world.soak_bytes = 25 * MIB
    await world.run()
    found = world.search
    assert (found.largest, found.failed_at) == (97, 98)
    assert world.saved.probe[found.failed_probe].soak
    assert [one for one in world.tried if one[0] == "traced"] == [("traced", 97)]
    assert found.fastest == 97
    assert world.tried[5:] == [("timed", 100), ("timed", 97), ("traced", 97), ("timed", 98)]


async def test_what_fits_for_a_few_iterations_only_is_not_the_fastest(project):
    world = World(project, upper=16)
    world.soak_bytes = 1100 * MIB
    result = await world.run()
    assert (result.code, world.search.largest, world.search.fastest) == (1, None, None)


async def test_an_error_that_is_not_of_memory_stops_the_search_and_says_so(project):
    world = World(project)
    world.fails[64] = Failed("workload", "RuntimeError: shapes", "net.py:3", "", "forward")
    result = await world.run()
    assert (result.outcome, result.code) == ("failed", 2)
    assert result.text == "micro-batch 64 failed, not for memory: RuntimeError: shapes"
    assert (world.search.outcome, world.search.why) == ("failed", result.text)
    assert (world.search.largest, world.search.failed_at) == (8, None)


async def test_a_batch_that_the_data_cannot_fill_is_not_tested_and_ends_the_search_above(project):
    world = World(project)
    few = Failed(
        "workload", "batch(n=16, ...) gave 10 samples", "", "", "first.forward", {"observed_batch": 10}
    )
    world.fails |= dict.fromkeys(range(11, 200), few)
    result = await world.run()
    found = world.search
    assert (result.code, found.largest, found.failed_at) == (0, 10, None)
    untested = [one for one in world.saved.probe.values() if one.outcome == "not-tested"]
    assert [(one.micro_batch, one.observed_batch) for one in untested] == [(64, 10)]
    assert found.why == "above 10 nothing was tested: the data are too few"


async def test_a_sweep_goes_on_after_a_batch_that_the_data_cannot_fill(project):
    world = World(project, search=False, batches=(4, 16, 8))
    world.fails[16] = Failed("workload", "gave 10 samples", "", "", "first.forward", {"observed_batch": 10})
    result = await world.run()
    outcomes = {one.micro_batch: one.outcome for one in world.saved.probe.values()}
    assert outcomes == {4: "fits", 16: "not-tested", 8: "fits"}
    assert (result.code, "1 not tested" in result.text) == (0, True)


async def test_a_single_batch_that_the_data_cannot_fill_is_refused(project):
    world = World(project, search=False, batches=(16,))
    world.fails[16] = Failed("workload", "gave 10 samples", "", "", "first.forward", {"observed_batch": 10})
    result = await world.run()
    assert (result.code, world.saved.probe) == (2, {})


async def test_a_model_that_sees_fewer_samples_than_asked_gives_no_verdict(project):
    world = World(project, search=False)
    measure = world.measure

    async def halved(plan, title):
        outcome = await measure(plan, title)
        if plan.task == "timed":
            outcome.results["timed"]["observed_batch"] = 2
        return outcome

    world.context.measure = halved
    result = await world.run()
    (saved,) = world.saved.probe.values()
    assert (result.code, saved.outcome, saved.observed_batch) == (1, "not-tested", 2)
    assert saved.failure == "not tested: the model got 2 of 4 samples, the data are too few"


async def test_validation_that_runs_out_lowers_the_validation_batch_and_keeps_training(project):
    world = World(project, upper=32, multiple_of=32, batches=(32,))
    world.validates = lambda micro: micro <= 20
    result = await world.run()
    found = world.search
    assert (result.code, found.largest, found.validation_batch) == (0, 32, 16)
    first, soak = sorted(world.saved.probe.values(), key=lambda one: one.soak)
    assert (first.outcome, first.failed_phase) == ("out-of-memory", "validate")
    assert (soak.outcome, soak.validation_batch) == ("fits", 16)


async def test_a_search_that_was_ended_goes_on_from_what_it_saved(project):
    ended = World(project)
    ended.stop_after = 3
    with pytest.raises(asyncio.CancelledError):
        await ended.run()
    cut = ended.search
    assert (cut.outcome, len(cut.candidates)) == ("interrupted", 3)
    world = World(project)
    await world.run()
    assert len(world.saved.search) == 1
    assert (world.search.outcome, world.search.largest) == ("done", LIMIT)
    assert not {one[1] for one in ended.tried} & {one[1] for one in world.tried}
    assert world.search.reused == cut.probes


async def test_a_candidate_saved_just_before_a_kill_counts_though_no_search_lists_it(project):
    ended = World(project)
    ended.stop_after = 2
    with pytest.raises(asyncio.CancelledError):
        await ended.run()
    from tui.project import save

    id = max(ended.saved.search)
    cut = dataclasses.replace(ended.search, candidates={}, probes=(), environment="")
    save.record(project, lambda measured: dataclasses.replace(measured, search={id: cut}))
    world = World(project)
    await world.run()
    assert len(world.search.reused) == 2


async def test_in_another_environment_nothing_of_the_earlier_part_counts(project):
    ended = World(project)
    ended.stop_after = 3
    with pytest.raises(asyncio.CancelledError):
        await ended.run()
    world = World(project)
    world.torch = "2.14"
    await world.run()
    assert "the environment is another one than before" in world.told
    assert world.search.reused == ()
    assert {world.saved.probe[id].environment for id in world.search.probes} == {world.search.environment}


async def test_measurements_of_another_environment_guide_no_further_than_the_first_candidate(project):
    guiding = World(project, search=False, batches=(4, 8))
    guiding.torch = "2.12"
    await guiding.run()
    world = World(project)
    await world.run()
    assert world.search.largest == LIMIT
    assert len({world.saved.probe[id].environment for id in world.search.probes}) == 1


async def test_an_environment_that_changes_during_a_search_ends_it(project):
    world = World(project)
    measure = world.measure

    async def changing(plan, title):
        world.torch = f"2.{len(world.plans)}"
        return await measure(plan, title)

    world.context.measure = changing
    result = await world.run()
    assert (result.outcome, result.code) == ("failed", 4)
    assert world.search.why == "the environment became another one while it was searched"


async def test_another_budget_begins_a_search_of_its_own(project):
    ended = World(project)
    ended.stop_after = 3
    with pytest.raises(asyncio.CancelledError):
        await ended.run()
    project.write_text(project.read_text().replace("1200 MiB", "900 MiB"))
    world = World(project)
    await world.run()
    assert len(world.saved.search) == 2
    assert world.search.largest == 70


async def test_within_begins_nothing_that_would_take_longer(project):
    await World(project, search=False, batches=(4, 8)).run()
    world = World(project, within_s=3.0)
    result = await world.run()
    assert (result.outcome, result.code, world.plans) == ("interrupted", 0, [])
    assert "s, the next one would take 4." in world.search.why
    assert world.search.outcome == "interrupted"


async def test_a_sweep_within_a_time_says_what_it_did_not_try(project):
    world = World(project, search=False, batches=(4, 8, 16), within_s=5.0)
    world.seconds = 30.0
    result = await world.run()
    assert {micro for _, micro in world.tried} == {4}
    assert "not tried: 8, 16, because --within 5.0 s leaves" in result.text


async def test_nothing_that_fits_is_a_negative_verdict_and_no_failure(project):
    project.write_text(project.read_text().replace("1200 MiB", "105 MiB").replace('"100 MiB"', '"1 MiB"'))
    world = World(project)
    result = await world.run()
    assert (result.outcome, result.code, world.search.largest) == ("done", 1, None)
    assert (world.search.outcome, world.search.failed_at) == ("done", 1)


async def test_a_multiple_beyond_the_upper_bound_is_refused(project):
    with pytest.raises(PeakmarkError, match=r"no multiple of 64 is within the upper bound 32 \(--upper\)"):
        await World(project, upper=32, multiple_of=64).run()


async def test_the_data_set_bounds_the_search(project):
    project.write_text(project.read_text().replace("micro = 4", "micro = 4\ndataset = 30"))
    world = World(project)
    await world.run()
    assert (world.search.largest, world.search.failed_at) == (30, None)
    assert world.search.why == "above 30 nothing was tried: workload.batch.dataset is 30"


async def test_every_length_has_a_search_of_its_own(project):
    world = World(project, lengths=(16, 32), iterations=30)
    result = await world.run()
    found = {one.length: one.largest for one in world.saved.search.values()}
    assert (found, result.code) == ({16: LIMIT, 32: LIMIT}, 0)
    assert result.text.startswith("length 16: largest 100, fastest 100; length 32: largest 100")
    assert {one.soaked for one in world.saved.probe.values() if one.soak} == {30}


async def test_a_grid_measures_every_length_with_every_batch(project):
    world = World(project, search=False, batches=(1, 2), lengths=(16, 32))
    await world.run()
    seen = [(one.length, one.micro_batch) for one in world.saved.probe.values()]
    assert seen == [(16, 1), (16, 2), (32, 1), (32, 2)]
    assert "4 measurements, micro-batch 1, 2 at length 16, 32, a fresh process each" in world.told


async def test_a_batch_is_measured_at_its_longest_though_others_are_typical(project):
    """Four samples of at most 512 tokens are 2,048 padded ones, whatever the mean of a batch is."""
    lengths = [30, 60, 90, 120, 200, 180, 220, 210, 512, 20, 25, 30, 16, 16, 16, 16]
    text = f"micro = 4\nlength = {{ min = {min(lengths)}, typical = 109, max = {max(lengths)} }}"
    project.write_text(project.read_text().replace("micro = 4", text))
    world = World(project, search=False)
    await world.run()
    assert {plan.batch["micro"] * plan.batch["length"] for plan in world.plans} == {2048}
    padded = [4 * max(lengths[place : place + 4]) for place in range(0, len(lengths), 4)]
    assert max(padded) == 2048


def test_the_hosts_memory_bounds_what_a_device_could_hold(project, monkeypatch):
    """Images of 3 x 224 x 224 in fp32, four micro-batches of which are made ahead of an iteration."""
    project.write_text(project.read_text().replace("micro = 4", "micro = 4\naccumulate = 4"))
    spec = load(project).spec
    monkeypatch.setattr(evidence.host, "memory_total_bytes", lambda: 2_466_250_752)
    one = Probe(AT, "s", "e", "fp32", 2, 4, "fits", batch_bytes=2 * 3 * 224 * 224 * 4)
    card = Device("cuda", "GPU-1", "H100", 80 * 1024 * MIB)
    assert evidence.host_bound(spec, card, [one]) == 1024
    assert evidence.host_bound(spec, card, []) is None
    assert evidence.host_bound(spec, Device("cpu", "cpu", "CPU", 1), [one]) is None


def test_running_out_under_a_lower_cap_proves_nothing_under_a_higher_one(project):
    spec = load(project).spec
    out = Probe(AT, "s", "e", "fp32", 8, 1, "out-of-memory", limit_bytes=500 * MIB, failed_phase="forward")
    assert evidence.trial_of(spec, out, 500 * MIB) == Trial(8, "fails")
    assert evidence.trial_of(spec, out, 501 * MIB) is None


def test_a_plan_names_a_long_range_by_its_ends():
    assert sweep._listed(range(1, 9)) == "1, 2, 3, 4, 5, 6, 7, 8"
    assert sweep._listed(range(8, 80, 8)) == "8 to 72 (9 of them)"
