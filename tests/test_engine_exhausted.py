"""What a probe keeps of children that ran out of memory; nothing is measured."""

from datetime import UTC, datetime

import pytest
from sample_project import CUDA_SPEC

from tui.engine.outcome import Outcome
from tui.engine.steps.outcomes import with_outcome
from tui.probe.protocol import Failed, IterationDone
from tui.project.encode import to_table
from tui.project.measured import PhasePeak, Probe, Reading

AT = datetime(2026, 12, 1, tzinfo=UTC)
MIB, GIB = 2**20, 2**30
ALIVE = {"alive": {"weights": 3 * GIB}, "alive_modules": {"net": 3 * GIB}, "alive_top": {"w": 3 * GIB},
         "alive_source": "the labelled iteration", "operator": "mm", "module": "net.3"}  # fmt: skip


def outcome(word, entered="first.forward", **details):
    more = {"iterations": details.pop("iterations", ())}
    failure = None if word == "done" else Failed("out-of-memory", "too much", "", "", entered, details)
    return Outcome("m-1", word, "", AT, AT, "runs/m-1.jsonl", "runs/m-1.log", failure, **more)


def ended(*outcomes, device="cuda", **changes):
    probe = Probe(AT, "s", "e-1", "fp32", 8, 1, "unknown", device=device, **changes)
    return with_outcome(CUDA_SPEC, [], probe, outcomes)


def test_labels_are_of_the_traced_child_and_figures_of_the_one_that_decides():
    traced = outcome("out-of-memory", entered="forward", iteration=0, micro=0, asked_bytes=GIB, **ALIVE)
    timed = outcome("out-of-memory", asked_bytes=GIB, device_free_bytes=MIB, reserved_bytes=9 * GIB,
                    allocated_bytes=4 * GIB, largest_free_block_bytes=GIB // 2, free_blocks_bytes=5 * GIB)  # fmt: skip
    found = ended(traced, timed)
    assert found.failure == "out of memory: iteration 1, forward, in mm of net.3, asked for 1,073,741,824 B"
    assert (found.exhausted_class, found.largest_free_block_bytes, found.free_blocks_bytes) == (
        "fragmentation",
        GIB // 2,
        5 * GIB,
    )
    assert (found.alive, found.alive_modules, found.alive_top) == (
        {"weights": 3 * GIB},
        {"net": 3 * GIB},
        {"w": 3 * GIB},
    )
    assert (found.exhausted_phase, found.exhausted_iteration, found.exhausted_operator) == (
        "forward",
        0,
        "mm",
    )
    assert "exhausted_operator" not in found.unknown


def test_what_failed_elsewhere_while_traced_names_no_operator_of_the_other():
    traced = outcome("out-of-memory", entered="backward", iteration=0, asked_bytes=GIB, **ALIVE)
    found = ended(traced, outcome("out-of-memory", asked_bytes=GIB))
    larger = outcome("out-of-memory", entered="forward", iteration=0, asked_bytes=2 * GIB, **ALIVE)
    assert ended(larger, outcome("out-of-memory", asked_bytes=GIB)).exhausted_operator is None
    assert found.exhausted_operator is None
    assert found.unknown["exhausted_operator"] == "an untraced run does not see operators"


def test_a_traced_child_that_got_further_shows_what_was_alive_where_the_other_failed():
    there = {"alive": {"weights": 1}, "alive_modules": {"a": 1}, "alive_top": {"b": 1}}
    traced = outcome("out-of-memory", "backward", iteration=1, **ALIVE, survived={"first.forward": there})
    found = ended(traced, outcome("out-of-memory", "first.forward", asked_bytes=GIB))
    assert (found.alive, found.alive_modules, found.alive_top) == ({"weights": 1}, {"a": 1}, {"b": 1})
    assert found.alive_source == "the traced run at its peak of forward, which it survived"
    found = ended(traced, outcome("out-of-memory", "first.step", asked_bytes=GIB))
    assert found.alive == {"weights": 3 * GIB}
    assert found.alive_source == (
        "the labelled iteration; where the traced run failed (out of memory: iteration 2, backward, in mm of net.3)"
    )


def test_a_batch_that_ran_out_only_while_it_was_traced_is_decided_without_tracing():
    traced = outcome("out-of-memory", entered="backward", iteration=0, asked_bytes=GIB, **ALIVE)
    readings = {"process": Reading(GIB, "", ""), "others": Reading(0, "", "")}
    found = ended(traced, outcome("done"), readings=readings)
    assert (found.outcome, found.exhausted_class, found.alive) == ("fits", None, {})
    assert found.unknown["phases"].startswith(
        "tracing needs memory of its own, and did not have it (out of memory"
    )


def test_a_batch_that_ran_out_only_untraced_shows_what_the_traced_one_survived():
    rows = {"weights": 5, "retained_activations": 2}
    found = ended(outcome("done"), outcome("out-of-memory", asked_bytes=64), worst_phase="forward",
                  phases={"forward": PhasePeak(7, rows=rows)})  # fmt: skip
    assert found.alive == rows
    assert found.alive_source == "the traced run at its peak of forward, which it survived"


def test_a_batch_that_was_not_traced_says_that_this_is_why_nothing_is_known_of_what_was_alive():
    found = ended(outcome("out-of-memory", asked_bytes=64))
    assert (
        found.unknown["alive"]
        == found.unknown["alive_top"]
        == "it was not traced: only whether it fits was asked"
    )
    lost = ended(
        outcome("out-of-memory", alive_unknown="the record could not be read"), outcome("out-of-memory")
    )
    assert lost.unknown["alive"] == "the record could not be read"


def test_others_are_those_that_were_there_before():
    timed = outcome("out-of-memory", asked_bytes=5 * GIB, device_free_bytes=3 * GIB, reserved_bytes=GIB,
                    allocated_bytes=GIB, largest_free_block_bytes=0, free_blocks_bytes=0)  # fmt: skip
    found = ended(timed, readings={"others": Reading(19 * GIB, "NVML", "")})
    assert found.exhausted_class == "others"
    assert found.exhausted_why.endswith("other processes hold 19.000 GiB of it")


@pytest.mark.parametrize(
    ("iterations", "phase", "index"),
    [((), "first.step", 0), ((IterationDone(0, "first", 1.0, 1.0, 4),), "step", 1), ((), "build", None)],
)
def test_the_iteration_is_told_as_far_as_it_is_known(iterations, phase, index):
    found = ended(outcome("out-of-memory", phase, iterations=iterations, asked_bytes=1))
    assert found.exhausted_iteration == index
    assert ("exhausted_iteration" in found.unknown) is (index is None)


def test_a_batch_that_cannot_even_be_made_says_so():
    found = ended(outcome("out-of-memory", "optimizer", phase="batch", asked_bytes=8))
    assert found.failure == "out of memory: iteration 1, making a batch, asked for 8 B"
    assert (found.exhausted_phase, found.exhausted_iteration) == ("batch", 0)


def test_everything_that_is_not_known_has_its_reason_and_is_absent_in_the_file():
    found = ended(outcome("out-of-memory", "first.forward", place="cpu"), device="cpu")
    table = to_table(found)
    for name in ("asked_bytes", "largest_free_block_bytes", "free_blocks_bytes", "exhausted_reserved_bytes",
                 "device_free_bytes", "exhausted_operator", "alive", "alive_modules", "alive_top"):  # fmt: skip
        assert name not in table
        assert found.unknown[name]
    assert found.unknown["largest_free_block_bytes"] == "the CPU has no caching allocator"


def test_a_budget_below_torch_itself_is_told_as_that():
    found = ended(outcome("out-of-memory", "build", place="cpu", too_small_for_torch=True), device="cpu")
    assert found.exhausted_class == "limit"
    assert found.exhausted_why.endswith("failed: it is too small for them themselves")


def test_several_micro_batches_name_the_one_that_failed():
    found = ended(outcome("out-of-memory", "backward", iteration=1, micro=1, asked_bytes=8))
    assert found.failure == "out of memory: iteration 2, backward, asked for 8 B"
    probe = Probe(AT, "s", "e-1", "fp32", 8, 4, "unknown", device="cuda")
    found = with_outcome(
        CUDA_SPEC, [], probe, [outcome("out-of-memory", "backward", iteration=1, micro=1, asked_bytes=8)]
    )
    assert found.failure == "out of memory: iteration 2, backward of micro-batch 2, asked for 8 B"
