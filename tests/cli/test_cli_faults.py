"""A workload that is wrong leads to one sentence that says what and where, and leaves nothing behind."""

import pytest
from cli_shell import OWN, Shell, children_of

from tui.project.load import load


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("syntax", "workload.py:3: not valid Python: "),
        ("raises", "workload.py:2: ValueError: no data at /data"),
        ("no_module", "workload.py:2: No module named 'module_that_is_not_there' in "),
        ("no_batch", "workload.py: defines no batch(); build() and batch(n) are required"),
        ("exits", "workload.py:2: it calls exit(3) while it is imported"),
        ("other_n", "batch(n=4, ...) gave 2 samples; return n of them"),
        ("forward", "workload.py:10: RuntimeError: shapes [4, 4] and [3, 2]"),
        ("exits_in_loss", "workload.py:8: it called exit(0), which ends the measurement"),
    ],
)
def test_a_fault_of_the_workload_is_one_sentence_with_its_place(fault, name, sentence):
    shell, done = fault(name)
    assert sentence in done.sentence
    assert done.err.count(sentence) == 1
    assert done.code == 2
    assert done.out == ""
    assert (shell.folder / "tiny.toml").read_text() == OWN
    assert children_of(shell) == []


def test_what_a_workload_prints_goes_to_a_log_and_nowhere_else(fault):
    shell, done = fault("forward")
    assert len(done.err) < 2000
    assert sum(log.stat().st_size for log in (shell.state / "runs").glob("*.log")) > 4_000_000


def test_nan_in_the_third_iteration_is_a_verdict_and_keeps_the_memory(fault):
    shell, done = fault("nan")
    assert done.code == 1
    assert "loss is NaN at iteration" in done.out.replace("\n    ", " ")
    (probe,) = load(shell.folder / "tiny.toml").measured.probe.values()
    assert probe.outcome == "failed"
    assert "memory figures are kept" in probe.failure
    assert probe.worst_phase is not None
    assert probe.phases[probe.worst_phase].requested_bytes > 0
    assert probe.samples_per_s is None
    assert probe.unknown["samples_per_s"]


def test_a_workload_that_is_not_there_is_named_with_the_line_that_names_it(shell: Shell):
    shell.write(OWN)
    done = shell("probe", "tiny.toml", "--trust")
    assert done.code == 2
    assert done.sentence.startswith("tiny.toml:6: workload.source")
    assert "workload.py" in done.sentence


def test_python_of_the_project_runs_only_when_it_is_allowed(shell: Shell):
    shell.write("from pathlib import Path\nPath('ran').touch()\n", "workload.py")
    shell.write(OWN)
    done = shell("params", "tiny.toml")
    assert done.code == 2
    assert done.sentence.startswith("tiny.toml:6: workload.source is Python you have not allowed here")
    assert done.sentence.endswith("read it, then add --trust")
    assert not (shell.folder / "ran").exists()
    assert shell("params", "tiny.toml", "--trust").code == 2  # it ran, and has no build()
    assert (shell.folder / "ran").exists()


@pytest.mark.parametrize(
    ("local", "sentence"),
    [
        ('python = "/no/such/python"', 'environment.python = "/no/such/python" does not exist'),
        ('python = "./notes.txt"', "is not a program that may be executed"),
        ("launch = \"sh -c 'echo no allocation; exit 3'\"", "ended with 3 before Python started"),
        ('launch = "/no/such/srun"', 'environment.launch = "/no/such/srun" does not exist'),
        ('launch = "srun \'x"', "environment.launch cannot be split into arguments: no closing quotation"),
    ],
)
def test_an_interpreter_or_launch_prefix_that_does_not_work_is_named(shell: Shell, local, sentence):
    shell.write(OWN.replace("workload.py", "mlp"))
    shell.write("no program", "notes.txt")
    shell.write(f"[environment]\n{local}\n", "tiny.local.toml")
    done = shell("params", "tiny.toml", "--trust")
    assert sentence in done.sentence
    assert done.sentence.startswith("tiny.local.toml:2: ")
    assert done.code == (2 if "quotation" in sentence else 4)
    assert children_of(shell) == []


def test_an_interpreter_without_torch_is_named(shell: Shell):
    shell.write(OWN.replace("workload.py", "mlp"))
    python = shell.write('#!/bin/sh\nexec /usr/bin/env python3 -S "$@"\n', "bare")
    python.chmod(0o755)
    shell.write('[environment]\npython = "./bare"\n', "tiny.local.toml")
    done = shell("params", "tiny.toml", "--trust")
    assert done.code == 4
    assert "cannot import torch: No module named 'torch'" in done.sentence


def test_doctor_runs_the_interpreter_of_a_project_only_when_it_is_allowed(shell: Shell):
    shell.write(OWN.replace("workload.py", "mlp"))
    shell.write("#!/bin/sh\ntouch ran\n", "bare").chmod(0o755)
    shell.write('[environment]\npython = "./bare"\n', "tiny.local.toml")
    done = shell("doctor", "tiny.toml")
    assert (done.code, (shell.folder / "ran").exists()) == (2, False)
    assert "environment.python is a program you have not allowed here" in done.sentence
    done = shell("doctor", "tiny.toml", "--trust")
    assert (done.code, (shell.folder / "ran").exists()) == (4, True)
    assert "does not answer as Python does" in done.out.replace("\n", " ")
