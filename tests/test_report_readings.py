"""Readings, loader, clocks and what makes times doubtful, as text and JSON."""

from dataclasses import replace

import pytest
from sample_project import CPU, CPU_PROBE, CPU_PROBE_ID, CPU_SPEC, CUDA, CUDA_PROBE, CUDA_SPEC

from tui.project.measured import Reading
from tui.report import documents_readings
from tui.report.figures import GIBIBYTES, MEBIBYTES
from tui.report.json_values import explained, unexplained
from tui.report.lines import columns
from tui.report.text import probe_lines
from tui.report.text_readings import batches_text, clocks_text, phases_lines, readings_lines, time_warnings


def test_a_reading_has_its_phase_its_second_and_its_source():
    read = Reading(2**30, "memory_stats", "blocks", "backward", "", 12.34)
    probe = replace(CUDA_PROBE, readings={"tensor_allocated": read})
    assert readings_lines(probe, GIBIBYTES, 10, 80) == [
        "readings  tensor allocated      1.000 GiB  backward at 12.3 s: memory_stats"
    ]


def test_an_unknown_reading_is_not_a_number_and_says_why_in_full():
    why = "pid namespace: the driver lists pids that do not exist here, so none can be told apart"
    probe = replace(CUDA_PROBE, readings={"process_nvml": Reading(None, "", "own", "", why)})
    lines = readings_lines(probe, GIBIBYTES, 10, 80)
    assert " ".join(" ".join(lines).split()) == f"readings process nvml n/a: {why}"
    assert max(map(columns, lines)) <= 80


def test_readings_that_a_cpu_has_not_are_in_the_document_alone():
    away = Reading(None, "", "pinned", "forward", "no GPU is used, so torch pins nothing", 3.0)
    probe = replace(CPU_PROBE, readings={**CPU_PROBE.readings, "pinned": away})
    assert not any("pinned" in line for line in readings_lines(probe, MEBIBYTES, 10, 80))
    document = explained({"readings": documents_readings.readings(probe)})
    assert document["unknown"]["readings.5.bytes"] == away.unknown
    assert unexplained(document) == []


def test_the_loader_is_told_apart_with_the_workers_that_hide_it():
    probe = replace(CPU_PROBE, loader_ms_median=434.0, step_ms_median=100.0, cpus_allowed=2)
    assert batches_text(probe) == (
        "434.0 ms an iteration to make its batches, not in the time: without workers the device waits 81.3 % of it; "
        "5 workers keep up if workers scale perfectly, but 5 workers share the 2 processors that are allowed here"
    )
    quick = batches_text(replace(probe, loader_ms_median=10.0))
    assert quick.endswith("waits 9.1 % of it; 1 worker keeps up if workers scale perfectly")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"drift_ratio": 0.2}, "drift: the last third of the iterations took 20.0 % longer than the first"),
        ({"throttled": True, "throttle": "power cap in 12 of 40 looks"}, "(power cap in 12 of 40 looks)"),
        ({"clock_ratio": 1237 / 1425 - 1}, "clocks: the SM clock ended 13.2 % lower than it began"),
        ({"slow_every": 4, "slow_part": "step"}, "periodic: one iteration in 4 is slow"),
        (
            {"slow_every": 4, "slow_part": "loader"},
            "periodic: the batches of one iteration in 4 take long to make",
        ),
    ],
)
def test_what_makes_times_doubtful_is_a_warning_in_words(changes, words):
    (warning,) = time_warnings(replace(CUDA_PROBE, **changes))
    assert words in warning
    assert time_warnings(CUDA_PROBE) == []


def test_clocks_are_told_with_whether_they_were_held_back():
    probe = replace(CUDA_PROBE, clocks="SM 1,980 to 1,755 MHz", throttled=True)
    assert clocks_text(probe) == "SM 1,980 to 1,755 MHz; throttled"
    silent = replace(probe, throttled=None, unknown={"throttled": "NVML: Not Supported"})
    assert clocks_text(silent) == "SM 1,980 to 1,755 MHz; throttling n/a: NVML: Not Supported"
    assert (
        clocks_text(replace(CUDA_PROBE, unknown={"clocks": "NVML: GPU is lost"})) == "n/a: NVML: GPU is lost"
    )


def test_every_unknown_of_times_and_phases_has_a_reason_in_the_document():
    for probe in (CUDA_PROBE, CPU_PROBE):
        document = explained(
            {"timing": documents_readings.timing(probe), "phases": documents_readings.phases(probe)}
        )
        assert unexplained(document) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_probe_with_every_reading_fits_the_terminal(width):
    probe = replace(CPU_PROBE, loader_ms_median=434.0, cpus_allowed=2, slow_every=4, drift_ratio=-0.5)
    measured = replace(CPU, probe={CPU_PROBE_ID: probe})
    lines = probe_lines(CPU_SPEC, measured, project="mlp.toml", width=width)
    assert max(map(columns, lines)) <= width


@pytest.mark.parametrize(
    ("drift", "said"),
    [
        (0.0, "Fastest 4."),
        (1 - 1425 / 1237, "Fastest 4; 8 within 15.2 % of it, by which times drifted: not decided."),
    ],
)
def test_a_batch_that_is_slower_by_less_than_the_drift_is_not_decided(drift, said):
    """Case T07 of the reported faults: 5 % slower, while the clocks fell by 13 %."""
    probes = {
        f"p-{micro}": replace(CUDA_PROBE, micro_batch=micro, samples_per_s=rate, drift_ratio=drift)
        for micro, rate in ((4, 1000.0), (8, 950.0))
    }
    lines = probe_lines(CUDA_SPEC, replace(CUDA, probe=probes), list(probes), project="gpt.toml")
    assert said in " ".join(line.strip() for line in lines)


def test_phases_are_told_with_what_they_leave_where_that_is_known():
    assert phases_lines(CPU_PROBE, MEBIBYTES, 10, 80) == []
    peak = replace(CPU_PROBE.phases["backward"], end_requested_bytes=2**20, end_process_bytes=300 * 2**20)
    probe = replace(CPU_PROBE, phases={"backward": peak})
    assert phases_lines(probe, MEBIBYTES, 10, 80) == [
        "phases    MiB            requested      end     heap      end  process      end",
        "          backward            2.93     1.00   200.00      n/a   320.00   300.00",
    ]
