"""What one small run of every step leaves, and what the commands show of it afterwards."""

import os

import pytest
from cli_shell import LIMIT_S, TINY, children_of

from tui.project.load import load
from tui.project.marker import MARKER


@pytest.fixture
def project(whole_run):
    shell, _ = whole_run
    return load(shell.folder / "tiny.toml")


def nulls(value: object, path: str = "") -> list[str]:
    """Paths of every null in a document."""
    if isinstance(value, dict):
        return [one for key, below in value.items() for one in nulls(below, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [one for place, below in enumerate(value) for one in nulls(below, f"{path}.{place}")]
    return [path] if value is None else []


def assert_explained(document: dict) -> None:
    reasons = document.pop("unknown")
    assert set(nulls(document)) == set(reasons)
    assert all(reasons.values())


def test_every_step_ends_with_its_word_and_the_run_with_zero(whole_run):
    _, done = whole_run
    assert done.code == 0, done.err
    for word in (
        "\nAGREE\n",
        "\nVERIFIED v-",
        "\nFITS with ",
        "\nRESTORES. Next: ",
        "\nreport: tiny.md (configuration o-1",
    ):
        assert word in done.out


def test_no_line_of_a_run_is_wider_than_eighty_columns(whole_run):
    _, done = whole_run
    assert max(map(len, done.out.splitlines())) <= 80


def test_progress_goes_to_stderr_a_line_a_measurement_with_its_time(whole_run):
    _, done = whole_run
    lines = done.err.splitlines()
    assert any(line.startswith("  probe: micro-batch 4, time  ") and line.endswith(" s") for line in lines)
    assert "verify: 11 of 12 checks pass, 0 fail" in lines
    assert any("saved, then killed, killed as rehearsed" in line for line in lines)
    assert "\x1b" not in done.err
    assert "warning: this spec was never verified" not in done.err


def test_the_hand_written_part_stays_byte_for_byte(whole_run):
    shell, _ = whole_run
    written = (shell.folder / "tiny.toml").read_bytes()
    assert written.partition(MARKER.encode())[0] == TINY.encode() + b"\n"


def test_a_run_leaves_no_process_and_no_checkpoint(whole_run):
    shell, _ = whole_run
    assert children_of(shell) == []
    left = [
        path for path in shell.state.rglob("*") if path.suffix == ".pt" or path.name.endswith(".result.toml")
    ]
    assert left == []


def test_a_setting_that_this_device_has_not_is_a_column_that_says_so(whole_run, project):
    _, done = whole_run
    (found,) = project.measured.precision.values()
    assert found.settings["fp32"].verdict == "reference"
    assert found.settings["tf32"].outcome == "unsupported"
    assert "tf32: unusable: tf32 needs an NVIDIA GPU" in done.out
    assert "tf32, memory" not in done.err


def test_the_ledger_shows_the_worst_phase_and_says_the_sums(whole_run):
    shell, _ = whole_run
    done = shell("ledger", "tiny.toml")
    assert done.code == 0
    assert done.out.startswith("tiny")
    assert "sums on bytes: requested, heap-reserved agree" in done.out
    assert done.out.splitlines()[-1].startswith("FITS with ")
    assert done.err == ""


def test_the_ledger_of_a_phase_is_that_phase(whole_run):
    shell, _ = whole_run
    document = shell("ledger", "tiny.toml", "--phase", "build", "--json").document
    rows = {row["row"]: row["measured_bytes"] for row in document["rows"]}
    assert document["instant"]["phase"] == "build"
    assert (rows["weights"], rows["gradients"]) == (2704, 0)
    assert_explained(document)


def test_a_phase_that_was_not_measured_is_refused_with_those_that_were(whole_run):
    shell, _ = whole_run
    done = shell("ledger", "tiny.toml", "--phase", "save")
    assert done.code == 2
    assert done.sentence.startswith("phase save was not measured; measured phases: build, ")


def test_plain_is_one_figure_a_line(whole_run):
    shell, _ = whole_run
    done = shell("ledger", "tiny.toml", "--plain", "--phase", "step")
    lines = done.out.splitlines()
    assert "step.weights.measured_bytes 2704" in lines
    assert all(" " in line or line.count(".") for line in lines)


def test_ascii_is_ascii_on_both_streams_and_loses_no_line(whole_run):
    shell, _ = whole_run
    fancy, plain = shell("ledger", "tiny.toml"), shell("ledger", "tiny.toml", "--ascii")
    assert not fancy.out.isascii()
    assert plain.out.isascii()
    assert len(plain.out.splitlines()) == len(fancy.out.splitlines())


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
)
def test_a_locale_without_unicode_gets_ascii_and_no_error(whole_run, environment):
    shell, _ = whole_run
    done = shell("ledger", "tiny.toml", environment=environment)
    assert (done.code, done.err) == (0, "")
    assert done.out.isascii()
    assert shell("report", "tiny.toml", "-o", "-", environment=environment).out.isascii()


def test_a_reader_that_leaves_early_gets_no_traceback(whole_run):
    shell, _ = whole_run
    reading, writing = os.pipe()
    running = shell.start("ledger", "tiny.toml", stdout=writing)
    os.close(writing)
    os.close(reading)
    _, err = running.communicate(timeout=LIMIT_S)
    assert (running.returncode, err) == (128 + 13, "")


def test_a_full_stdout_is_a_sentence(whole_run):
    shell, _ = whole_run
    with open("/dev/full", "w") as full:
        running = shell.start("ledger", "tiny.toml", stdout=full)
        _, err = running.communicate(timeout=LIMIT_S)
    assert (running.returncode, err) == (5, "peakmark: stdout cannot be written: no space left on device\n")


def test_the_report_on_stdout_is_the_same_twice_and_that_of_the_file(whole_run):
    shell, _ = whole_run
    first, second = (shell("report", "tiny.toml", "-o", "-") for _ in range(2))
    assert first == second
    assert first.out == (shell.folder / "tiny.md").read_text()
    assert (first.code, first.err) == (0, "")


def test_the_report_goes_to_the_file_that_is_named(whole_run):
    shell, _ = whole_run
    before = (shell.folder / "tiny.toml").read_bytes()
    done = shell("report", "tiny.toml", "-o", "there.md", "--json")
    assert done.document["verdict"]["word"] == "validated"
    assert (shell.folder / "there.md").read_text() == (shell.folder / "tiny.md").read_text()
    assert (shell.folder / "tiny.toml").read_bytes() == before
    assert_explained(done.document)


def test_runs_names_the_run_and_how_it_ended(whole_run):
    shell, _ = whole_run
    done = shell("runs", "--json")
    listed = done.document["runs"]
    assert all(run["exit_code"] == 0 and run["alive"] is False for run in listed)
    assert ["params", "verify", "predict", "probe", "precision", "restore", "report"] in [
        run["steps"] for run in listed
    ]
    assert "ended with 0" in shell("runs").out
    (first, *_) = listed
    assert "is not running" in shell("stop", first["id"]).out
    assert shell("stop", first["id"], "--json").document["was_running"] is False


def test_params_that_agree_say_so_quietly_and_in_json(whole_run):
    shell, done = whole_run
    assert "formula mlp                   676" in done.out
    document = shell(
        "params", "tiny.toml", "-q", "--json", environment={"PEAKMARK_STATE": f"{shell.state}-2"}
    )
    assert (document.code, document.err) == (0, "")
    assert document.document["verdict"]["word"] == "agree"
    assert document.document["inventory"]["unique_parameters_count"] == 676
    assert_explained(document.document)


def test_params_that_disagree_exit_one_with_both_counts(disagreeing):
    shell, done = disagreeing
    assert done.code == 1
    assert "676  544 + 132" in done.out
    assert "10  2 tensors" in done.out
    assert "\nDISAGREE. " in done.out
    assert load(shell.folder / "tiny.toml").measured.inventory.unique_parameters == 10


def test_a_quick_probe_is_one_document_with_everything_that_was_held(quick_probe):
    _, done = quick_probe
    assert done.code == 0
    assert "warning: this spec was never verified; first: peakmark verify tiny.toml" in done.err
    document = done.document
    kinds = [one["kind"] for one in document["iterations"]]
    assert kinds == ["first", "warmup", "warmup", *["timed"] * 5]
    assert [one["index"] for one in document["iterations"]] == list(range(8))
    assert all(one["ms"] > 0 and one["loss"] > 0 for one in document["iterations"])
    assert document["timing"]["timed_count"] == 5
    assert document["environment"].startswith("e-")
    assert (document["nice"], document["contended"]) == (10, False)
    readings, phases = document["memory"]["readings"], document["memory"]["phases"]
    assert {one["name"] for one in readings} >= {"requested", "process", "others", "host_total"}
    assert all(one["meaning"] for one in readings)
    assert {one["phase"] for one in phases} >= {"build", "first.step", "backward", "validate"}
    assert all("weights" in one["rows"] for one in phases)
    assert_explained(document)


def test_a_batch_that_does_not_fit_is_a_verdict_and_the_others_are_kept(too_large):
    shell, done = too_large
    assert done.code == 0, done.err
    assert "FITS, 2 of 3." in done.out
    small, _, big = load(shell.folder / "tiny.toml").measured.probe.values()
    assert (small.outcome, big.outcome) == ("fits", "out-of-memory")
    assert (
        big.failure == "out of memory: iteration 1, forward, in relu of Perceptron, asked for 1,073,741,824 B"
    )
    assert big.asked_bytes == 131072 * 2048 * 4
    assert big.limit_bytes == 900 * 2**20
    assert big.exhausted_class == "limit"
    assert "it was held to 900.0 MiB" in big.exhausted_why
    assert sum(big.alive.values()) > 0
    assert big.would_fit.startswith("micro ")
    assert children_of(shell) == []


def test_one_batch_that_does_not_fit_exits_one_and_says_what_it_asked_for(too_large):
    shell, _ = too_large
    done = shell("probe", "tiny.toml", "--batch", "131072", "--json")
    assert done.code == 1
    assert done.document["outcome"] == "out-of-memory"
    found = done.document["out_of_memory"]
    assert (found["asked_bytes"], found["cause"]) == (131072 * 2048 * 4, "limit")
    assert_explained(done.document)
    assert "fits" in [one.outcome for one in load(shell.folder / "tiny.toml").measured.probe.values()]


def test_a_run_goes_on_after_a_failed_verify_and_says_so(failed_verify):
    shell, done = failed_verify
    assert done.code == 1
    assert "\nFAILED v-" in f"\n{done.out}"
    (warned,) = [line for line in done.err.splitlines() if line.startswith("warning: Verify FAILED (v-")]
    assert "figures of this model are not to be relied on" in warned
    assert (shell.folder / "tiny.md").exists()
