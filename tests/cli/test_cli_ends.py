"""Runs that do not end by themselves: signals, kills, a held device, a disk that is full or read-only."""

from __future__ import annotations

import os
import resource
import signal

import pytest
from cli_shell import TINY, Shell, children_of, finished, until, without_privileges

from tui.project import pending
from tui.project.load import load

LONG = ("probe", "tiny.toml", "--iterations", "1000000", "--warmup", "2")


def is_timed(shell: Shell) -> bool:
    return '"kind":"timed"' in shell.journals().replace(" ", "")


def the_run(shell: Shell) -> dict:
    (run,) = shell("runs", "--json").document["runs"]
    return run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_timed_phase_saves_what_there_is_as_cancelled(shell: Shell, number, code):
    shell.write(TINY)
    running = shell.start(*LONG)
    until(lambda: is_timed(shell), "a timed iteration")
    running.send_signal(number)
    done = finished(running)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    (probe,) = load(shell.folder / "tiny.toml").measured.probe.values()
    assert probe.outcome == "cancelled"
    assert probe.phases["backward"].requested_bytes > 0
    assert probe.first_ms is not None
    assert children_of(shell) == []
    assert the_run(shell)["exit_code"] == code


def test_a_held_device_is_refused_with_the_run_that_holds_it_and_stop_ends_that(shell: Shell):
    shell.write(TINY)
    first = shell.start(*LONG, "--json")
    until(lambda: children_of(shell), "the first child")
    held = the_run(shell)
    second = shell("probe", "tiny.toml")
    assert second.code == 4
    assert (
        f"cpu is being measured by run {held['id']} (uid {os.geteuid()}, pid {first.pid}, " in second.sentence
    )
    assert second.sentence.endswith(f"wait, or: peakmark stop {held['id']}")
    assert shell("ledger", "tiny.toml").code == 0  # looking needs no device
    until(lambda: is_timed(shell), "a timed iteration")
    stopped = shell("stop", held["id"][:-1])
    assert stopped.out == (
        f"{held['id']} was stopped; what it had finished is saved in {shell.folder / 'tiny.toml'}\n"
    )
    done = finished(first)
    assert done.code == 143
    assert done.document["outcome"] == "cancelled"
    kinds = [one["kind"] for one in done.document["iterations"]]
    assert kinds[:3] == ["first", "warmup", "warmup"]
    assert set(kinds[3:]) == {"timed"}
    assert children_of(shell) == []


def test_a_killed_runner_takes_its_child_with_it_and_the_next_run_works(shell: Shell):
    shell.write(TINY)
    running = shell.start(*LONG)
    until(lambda: children_of(shell), "the child")
    running.kill()
    running.communicate()
    until(lambda: not children_of(shell), "the child's end", 3.0)
    assert "was killed" in shell("runs").out
    run = shell("runs", "--json").document
    assert (run["runs"][0]["exit_code"], run["unknown"]["runs.0.exit_code"]) == (
        None,
        "it was killed before it could say",
    )
    assert (shell.folder / "tiny.toml").read_text() == TINY
    assert shell("params", "tiny.toml").code == 0


def test_a_result_that_cannot_be_saved_is_kept_and_taken_in_by_the_next_command(shell: Shell):
    path = shell.write(TINY + "# " + "x" * 60_000 + "\n")
    before = path.read_text()

    def small_files() -> None:
        # The project with its result is larger than this, everything else that is written is smaller.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 600, resource.RLIM_INFINITY))

    done = finished(shell.start("probe", "tiny.toml", "--iterations", "5", preexec_fn=small_files))
    assert done.code == 5
    assert "tiny.toml could not be saved: it would be larger than the limit on file sizes" in done.sentence
    kept = [one.name for one in (shell.state / "runs").glob("*.result.toml")]
    assert len(kept) == 1
    assert (
        f"it is unchanged, the result is whole in runs/{kept[0]} and is taken in by the next" in done.sentence
    )
    assert path.read_text() == before
    assert os.listdir(shell.folder) == ["tiny.toml"]
    ledger = shell("ledger", "tiny.toml")
    assert ledger.code == 0
    assert (
        f"{kept[0].removesuffix(pending.SUFFIX)}, which could not be saved when it was measured" in ledger.err
    )
    assert "\nFITS with " in ledger.out
    assert list((shell.state / "runs").glob("*.result.toml")) == []
    assert path.read_text().startswith(before)


def test_a_project_in_a_read_only_folder_can_be_looked_at_and_is_not_changed(whole_run, shell: Shell):
    source, _ = whole_run
    path = shell.write((source.folder / "tiny.toml").read_text())
    shell.folder.chmod(0o555)
    before = path.read_bytes()
    looked = finished(shell.start("ledger", "tiny.toml", preexec_fn=without_privileges))
    assert (looked.code, looked.err) == (0, "")
    done = finished(shell.start("report", "tiny.toml", preexec_fn=without_privileges))
    assert done.code == 5
    assert "tiny.md could not be saved: no permission to write in " in done.sentence
    new = finished(shell.start("new", "b.toml", preexec_fn=without_privileges))
    assert (new.code, "no permission to write in" in new.sentence) == (5, True)
    assert (os.listdir(shell.folder), path.read_bytes()) == (["tiny.toml"], before)


def test_a_run_goes_on_when_nobody_reads_what_it_says(shell: Shell):
    shell.write(TINY)
    running = shell.start("params", "tiny.toml", "--json")
    assert running.stderr is not None
    running.stderr.close()
    assert running.stdout is not None
    out = running.stdout.read()
    assert running.wait() == 0
    assert '"word": "agree"' in out
