"""``peakmark probe --search`` with real children that really run out of memory."""

from __future__ import annotations

import json

from tui.project.load import load
from tui.report.json_values import unexplained


def test_a_search_runs_out_of_memory_and_is_no_failure(searched):
    shell, done = searched
    assert done.code == 0, done.err
    document = done.document
    assert (document["document"], document["outcome"]) == ("search", "done")
    assert unexplained(document) == []
    by_micro = {one["micro"]: one["outcome"] for one in document["candidates"]}
    assert by_micro[document["largest"]] == "fits"
    assert by_micro[document["failed_at"]] in ("out-of-memory", "does-not-fit")
    assert document["failed_at"] == document["largest"] + 8192
    assert document["soaked_count"] >= 20
    assert "out-of-memory" in by_micro.values()
    assert all(
        one["observed_batch"] == one["micro"] for one in document["candidates"] if one["outcome"] == "fits"
    )
    kept = load(shell.folder / "tiny.toml").measured
    assert set(kept.search[document["id"]].probes) == set(kept.probe)


def test_every_candidate_of_a_search_has_a_process_of_its_own(searched):
    shell, done = searched
    started = [
        json.loads(line)
        for line in shell.journals("[pm]-*.jsonl").splitlines()
        if json.loads(line)["event"] == "Started"
    ]
    pids = [one["pid"] for one in started]
    assert len(pids) == len(set(pids)) == len(done.document["candidates"])


def test_a_search_says_its_plan_before_it_measures(searched):
    _, done = searched
    plan, measuring = done.err.index("plan: 8192 first"), done.err.index("micro-batch 8192, whether it fits")
    assert plan < measuring
    assert "each child is held to 600.0 MiB" in done.err
    assert "8192 fits, process" in done.err
