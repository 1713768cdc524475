"""Real children: what they write, what they refuse, and that nothing of them or of the user's stands in the way."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from probe.helpers import BOOT, DEADLINE_S, child, journal, plan, run_here
from tui.probe.protocol import (
    REQUESTED_ROWS,
    SETTINGS,
    CheckDone,
    EnvironmentSeen,
    Failed,
    Finished,
    IterationDone,
    PhaseEntered,
    Plan,
    ProtocolError,
    ReadingTaken,
    Started,
)

MIB = 1 << 20
OWN = """
import os
import sys

import torch
import trace
import protocol
import tui
from torch import nn

assert (trace.WHOSE, protocol.WHOSE, tui.WHOSE) == ("mine",) * 3
print("a line on stdout")
sys.stderr.write("a line on stderr\\n")

def build():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

def batch(n, index):
    if os.fork() == 0:
        print("from a forked copy")
        os._exit(0)
    os.wait()
    return {"x": torch.randn(n, 8), "y": torch.randn(n, 1), "labels": torch.tensor([1, -100] * (n // 2))}

def loss(model, batch):
    return ((model(batch["x"]) - batch["y"]) ** 2).mean()
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A user's own workload beside modules named like ours, timed for three iterations."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "work.py").write_text(OWN)
    for name in ("trace.py", "protocol.py"):
        (folder / name).write_text("WHOSE = 'mine'\n")
    (folder / "tui").mkdir()
    (folder / "tui" / "__init__.py").write_text("WHOSE = 'mine'\n")
    return child(folder, "timed", source="work.py", iterations=3, warmup=2, tokens="labels", accumulate=2)


def test_a_timed_child_ends_well_and_begins_by_saying_who_it_is(own):
    assert own.rc == 0, own.err
    started = own.events[0]
    assert isinstance(started, Started)
    assert (started.task, started.nice) == ("timed", 0)
    assert started.sid == started.pid
    assert isinstance(own.events[-1], Finished)


def test_a_users_own_tui_trace_and_protocol_modules_are_what_the_user_imports(own):
    assert not own.events.of(Failed)


def test_what_user_code_prints_stays_out_of_the_journal(own):
    assert "a line on stdout" in own.out
    assert "a line on stderr" in own.err
    assert "from a forked copy" in own.out


def test_a_forked_copy_writes_nothing_into_the_journal(own):
    assert (len(own.events.of(Started)), len(own.events.of(Finished))) == (1, 1)


def test_a_timed_result_has_every_iteration_and_its_tokens(own):
    table = own.events.table("timed")
    assert (len(table["step_ms"]), len(table["losses"]), table["warmup"]) == (3, 3, 2)
    assert (table["samples_per_iteration"], table["tokens_per_iteration"]) == (8, 4.0)
    assert all(ms > 0 for ms in [*table["step_ms"], table["first_ms"]])
    kinds = [one.kind for one in own.events.of(IterationDone)]
    assert kinds[:3] == ["first", "warmup", "warmup"]


def test_phases_come_in_the_order_of_the_protocol(own):
    seen = list(dict.fromkeys(one.phase for one in own.events.of(PhaseEntered)))
    assert seen == [
        "build",
        "optimizer",
        "first.forward",
        "first.backward",
        "first.step",
        "forward",
        "backward",
        "step",
        "warmup",
        "validate",
    ]


def test_readings_of_the_process_have_a_source_and_a_size(own):
    readings = {(one.name, one.phase): one for one in own.events.of(ReadingTaken)}
    assert {name for name, _ in readings} == {
        *("heap_in_use", "heap_reserved", "process", "host_rss"),
        *("inactive_split", "pinned"),  # of a GPU: why there are none
    }
    process = readings["process", "backward"]
    assert process.bytes >= process.end > 50 * MIB
    assert all(one.meaning and (one.source or one.unknown) for one in readings.values())
    assert all(0.1 < one.at_s < 300 for one in readings.values())  # after torch was imported


def test_allocated_bytes_of_iterations_are_those_of_tensors_alone(own):
    known = 3 * 4 * 81  # 81 parameters, and two moments each
    table = own.events.table("timed")
    assert len(table["loader_ms"]) == len(table["completed"]) == 3
    assert all(0 < one < 1000 for one in table["loader_ms"])
    trace = table["allocated_trace"]
    assert len(trace) == 9
    assert all(abs(value - known) < MIB for value in trace)


def test_an_inventory_is_taken_without_memory_for_the_weights(tmp_path):
    found = child(tmp_path, "inventory", args={"inputs": 100_000, "hidden": [100_000], "outputs": 1})
    table = found.events.table("inventory")
    assert (table["unique_parameters"], table["device"]) == (100_000 * 100_000 + 2 * 100_000 + 1, "meta")


def test_verify_saves_a_checkpoint_that_a_fresh_process_goes_on_from(tmp_path):
    extra = {"checkpoint": str(tmp_path / "ckpt" / "v.pt")}
    verified = child(tmp_path, "verify", source="convnet", args={"channels": [4], "size": 8}, extra=extra)
    reloaded = child(tmp_path, "reload", source="convnet", args={"channels": [4], "size": 8}, extra=extra)
    assert verified.events.table("fingerprint") == reloaded.events.table("fingerprint")
    checks = {one.key: one.outcome for one in verified.events.of(CheckDone) + reloaded.events.of(CheckDone)}
    assert set(checks.values()) == {"pass"}
    assert {
        "iterations",
        "finite",
        "placement",
        "deterministic",
        "gradients",
        "descent",
        "saved",
        "loaded",
    } <= set(checks)
    facts = verified.events.of(EnvironmentSeen)[0].facts
    assert facts["device_id"] == "cpu"


def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(tmp_path):
    more = {"source": "mlp", "accumulate": 2}
    path = str(tmp_path / "r.pt")
    whole = child(tmp_path, "resume", iterations=3, extra={}, **more)
    killed = child(
        tmp_path, "resume", iterations=3, extra={"save_after": 1, "checkpoint": path, "kill_in": 2}, **more
    )
    assert killed.rc == -signal.SIGKILL
    assert not killed.events.of(Finished)
    again = child(tmp_path, "resume", iterations=3, extra={"load": path}, **more).events.table("resume")
    expected = whole.events.table("resume")
    assert (again["first"], expected["first"]) == (1, 0)
    assert again["losses"] == expected["losses"][1:]
    assert again["samples"] == expected["samples"][2:]
    assert again["parameters"] == expected["parameters"]


def test_training_compares_its_first_gradients_with_a_reference(tmp_path):
    path = str(tmp_path / "gradients.pt")
    run_here("train", iterations=1, extra={"write_gradients": path})
    found = child(
        tmp_path, "train", iterations=5, precision="bf16-autocast", extra={"compare_gradients": path}
    )
    table = found.events.table("train")
    assert (len(table["losses"]), len(table["step_ms"]), table["steps"], table["skipped"]) == (5, 2, 5, 0)
    assert 0 < table["gradients"]["error"] < 0.1
    assert table["effective"].startswith("bf16 linear, fp32 weights")
    assert table["validation_loss"] > 0


RAISES = """
import torch
from torch import nn

class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x.view(3, 7))

def build():
    return Net(4, 1)

def batch(n):
    return torch.zeros(n, 4)
"""


def test_an_error_in_a_forward_is_named_with_file_and_line(tmp_path):
    (tmp_path / "work.py").write_text(RAISES)
    found = child(tmp_path, "timed", source="work.py")
    (failed,) = found.events.of(Failed)
    assert found.rc == 0  # the journal was finished; what it tells is the failure
    assert (failed.kind, failed.where, failed.phase) == ("workload", "work.py:7", "first.forward")
    assert failed.sentence.startswith("RuntimeError: shape '[3, 7]' is invalid")
    assert "Traceback" in found.err


POISON = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))

def batch(n, index):
    return torch.full((n, 4), float("nan") if index >= 2 else 1.0)

def loss(model, batch):
    return model(batch).mean()
"""


def test_a_loss_that_is_nan_ends_the_timing_and_leaves_the_memory_figures(tmp_path):
    (tmp_path / "work.py").write_text(POISON)
    (failed,) = child(tmp_path, "timed", source="work.py", iterations=2, warmup=2).events.of(Failed)
    assert (failed.kind, failed.sentence) == ("nonfinite", "loss is NaN at iteration 3")
    assert failed.hint.startswith("first non-finite: output of 0 (fp32); memory figures are kept")


def test_a_loss_that_is_nan_changes_nothing_in_a_traced_child(tmp_path):
    (tmp_path / "work.py").write_text(POISON)
    found = child(tmp_path, "traced", source="work.py")
    assert found.rc == 0, found.err
    phases = found.events.table("traced")["phases"]
    for phase in phases.values():
        assert set(phase["rows"]) <= set(REQUESTED_ROWS)
        assert sum(phase["rows"].values()) == phase["requested_bytes"]
    assert len(phases) == 9
    seen = found.events.of(IterationDone)
    assert [(one.loss is None, one.ms) for one in seen] == [(False, None), (False, None), (True, None)]


LARGE = {"inputs": 2048, "hidden": [4096, 4096], "outputs": 2048}


@pytest.mark.parametrize(("task", "limit"), [("traced", 300 * MIB), ("timed", 600 * MIB)])
def test_out_of_memory_says_what_was_asked_and_what_was_alive(tmp_path, task, limit):
    found = child(tmp_path, task, args=LARGE, limit_bytes=limit)
    (failed,) = found.events.of(Failed)
    assert (found.rc, failed.kind) == (0, "out-of-memory"), found.err
    assert failed.details["asked_bytes"] in (4 * 4096 * 4096, 4 * 2048 * 4096)
    assert failed.phase.startswith("first.")
    assert failed.details["iteration"] == 0
    assert failed.details.get("micro") == (None if failed.phase == "first.step" else 0)
    if task == "traced":
        alive = failed.details["alive"]
        assert alive["weights"] == 4 * (2048 * 4096 * 2 + 4096 * 4096 + 4096 * 2 + 2048)
        assert sum(alive.values()) == failed.details["requested_bytes"]
        assert alive.get("unattributed", 0) < 0.01 * failed.details["requested_bytes"]


def test_a_torch_that_is_too_old_is_refused_with_its_version(tmp_path):
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("__version__ = '2.3.1'\ndef get_num_threads(): return 1\n")
    found = child(tmp_path, "timed", env={"PYTHONPATH": str(tmp_path / "site")})
    (failed,) = found.events.of(Failed)
    assert (failed.kind, failed.hint) == (
        "environment",
        "upgrade torch there (nothing was installed or changed)",
    )
    assert failed.sentence == f"{sys.executable} has torch 2.3.1; peakmark needs 2.6 or newer"


def test_an_interpreter_without_torch_is_told_what_to_do(tmp_path):
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')\n")
    (failed,) = child(tmp_path, "timed", env={"PYTHONPATH": str(tmp_path / "site")}).events.of(Failed)
    assert failed.kind == "environment"
    assert failed.sentence.endswith("cannot import torch: libcudart.so.12: cannot open")


def test_a_plan_of_another_protocol_is_refused_before_anything_runs(tmp_path):
    table = {**json.loads(plan("timed").dump()), "v": 99}
    (tmp_path / "p.json").write_text(json.dumps(table))
    ended = subprocess.run(
        [sys.executable, str(BOOT), str(tmp_path / "p.json")], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "cannot read the plan: plan is not of protocol version 1\n",
    )
    with pytest.raises(ProtocolError, match="unknown task 'dance'"):
        Plan.load(plan("dance").dump())
    assert "fp32" in SETTINGS


def test_a_full_disk_ends_the_journal_at_a_whole_line_and_the_exit_code_says_so(tmp_path):
    def at_most_2_kib():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    found = child(tmp_path, "timed", before=at_most_2_kib)
    assert found.rc == 71
    assert isinstance(found.events[0], Started)
    assert not found.events.of(Finished)


WAITS = """
import time
import torch
from torch import nn

def build():
    open("built", "w").close()
    while True:
        time.sleep(0.05)

def batch(n):
    return torch.zeros(n, 1)
"""
STARTER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_when_the_process_that_started_it_is_killed(tmp_path):
    (tmp_path / "work.py").write_text(WAITS)
    made = plan("timed", source="work.py", folder=tmp_path, journal=tmp_path / "j.jsonl")
    made.parent = 0  # the pipe alone
    (tmp_path / "p.json").write_text(made.dump())
    command = [sys.executable, "-c", STARTER, str(BOOT), str(tmp_path / "p.json")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    deadline = time.monotonic() + DEADLINE_S
    while not (tmp_path / "built").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    while os.path.exists(f"/proc/{pid}") and "Z" not in _state(pid):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.02)
    assert isinstance(journal(tmp_path / "j.jsonl")[0], Started)


ASKS = """
import sys
import torch
from torch import nn

def build():
    return nn.Linear(1, len(sys.stdin.read()) + 1)

def batch(n):
    return torch.zeros(n, 1)
"""


def test_a_workload_that_reads_stdin_finds_nothing_there(tmp_path):
    (tmp_path / "work.py").write_text(ASKS)
    done = child(tmp_path, "inventory", source="work.py", args={}, before=lambda: signal.alarm(DEADLINE_S))
    assert done.events.table("inventory")["unique_parameters"] == 2


def _state(pid):
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
