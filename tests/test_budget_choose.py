from dataclasses import replace

import pytest
from sample_project import CUDA, CUDA_PROBE, CUDA_SMALLER, CUDA_SPEC, PROBE, SMALLER

from tui.budget.choose import ledger_probe
from tui.budget.ledger import ledger
from tui.project.measured import Measured

LATER, LATEST = "p-20261201T170000-0a", "p-20261201T180000-0b"
OUT = replace(CUDA_PROBE, outcome="out-of-memory", failure="out of memory: backward", phases={}, readings={})


def chosen(probes):
    found = ledger_probe(CUDA_SPEC, Measured(probe=probes))
    return found and found[0]


def test_the_projects_own_batch_comes_before_a_later_other_one():
    assert ledger_probe(CUDA_SPEC, CUDA) == (PROBE, CUDA_PROBE)
    assert chosen({PROBE: CUDA_PROBE, LATER: CUDA_PROBE, LATEST: CUDA_SMALLER}) == LATER


@pytest.mark.parametrize(
    "other",
    [
        {"micro_batch": 16},
        {"accumulate": 1},
        {"length": 512},
        {"precision": "fp32"},
        {"outcome": "cancelled"},
        {"phases": {}},
    ],
)
def test_a_probe_of_anything_else_or_of_less_is_not_the_projects_own(other):
    assert chosen({PROBE: CUDA_PROBE, LATER: replace(CUDA_PROBE, **other)}) == PROBE


def test_without_an_own_batch_the_latest_with_phases_is_shown():
    other = replace(OUT, micro_batch=64)
    assert (
        chosen({SMALLER: CUDA_SMALLER, LATER: replace(CUDA_SMALLER, micro_batch=2), LATEST: other}) == LATER
    )


def test_the_own_batch_that_ran_out_of_memory_decides_over_another_that_fits():
    assert chosen({SMALLER: CUDA_SMALLER, LATEST: OUT}) == LATEST


def test_without_phases_the_latest_that_ended_with_a_verdict_is_shown():
    cancelled, failed = replace(OUT, outcome="cancelled"), replace(OUT, outcome="failed")
    assert chosen({PROBE: OUT, LATER: cancelled, LATEST: failed}) == PROBE
    assert chosen({LATER: cancelled, LATEST: failed}) is None
    assert chosen({}) is None


def test_an_out_of_memory_alone_is_a_verdict_with_declared_rows():
    found = ledger(CUDA_SPEC, replace(CUDA, probe={PROBE: OUT}))
    assert (found.verdict.word, found.verdict.why) == ("DOES NOT FIT", "out of memory: backward")
    assert (found.row("weights").declared, found.row("weights").measured) == (497_759_232, None)
