"""The line about what a probe kept in main memory."""

from dataclasses import replace

from sample_project import CUDA, CUDA_PROBE, CUDA_SPEC, PROBE

from tui.project.measured import Reading
from tui.report.figures import GIBIBYTES
from tui.report.text_host import host_text
from tui.report.text_probe import probe_lines

GIB = 2**30
WEIGHTS = {
    "host_weights": Reading(2 * GIB, "", "", "steady"),
    "host_gradients": Reading(2 * GIB, "", "", "steady"),
    "host_optimizer": Reading(4 * GIB, "", "", "steady"),
    "pinned": Reading(8 * GIB, "", "", "backward"),
}


def probe(**readings):
    return replace(CUDA_PROBE, readings={**CUDA_PROBE.readings, **readings})


def test_what_was_moved_is_told_with_its_bytes_beside_what_is_locked():
    assert host_text(probe(**WEIGHTS), GIBIBYTES) == (
        "weights 2.000 · gradients 2.000 · optimizer state 4.000 (GiB, not on the device); "
        "8.000 GiB locked by pinning, rounding included"
    )


def test_bytes_that_are_not_known_are_not_a_number_and_say_why():
    away = Reading(None, "", "", "steady", "a step(run) of its own")
    assert host_text(probe(host_activations=away), GIBIBYTES) == (
        "saved tensors n/a: a step(run) of its own; locked by pinning n/a: not read"
    )


def test_it_is_a_line_of_the_answer_only_where_something_was_moved():
    moved = replace(CUDA, probe={PROBE: probe(**WEIGHTS)})
    lines = probe_lines(CUDA_SPEC, moved, project="gpt.toml")
    (line,) = [one for one in lines if one.startswith("host ")]
    assert "weights 2.000" in line
    plain = probe_lines(CUDA_SPEC, CUDA, [PROBE], project="gpt.toml")
    assert not any(one.startswith("host ") for one in plain)
