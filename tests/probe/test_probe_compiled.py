"""torch.compile as a setting: compiled in this process with a C++ compiler, or skipped where there is none."""

import shutil

import pytest
import torch

from probe.helpers import Events, plan, run_here
from tui.budget.timeline import levels
from tui.probe import compiling, tasks
from tui.probe.faults import TaskError
from tui.probe.protocol import ReadingTaken
from tui.probe.session import Session
from tui.project.timeline import read

NET = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))

def build():
    return Net()

def batch(n):
    return torch.randn(n, 16), torch.randint(0, 4, (n,))

def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])
"""
WEIGHTS = 4 * (16 * 64 + 64 + 64 * 4 + 4)


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """What makes a plan whose model is compiled with this machine's own compiler."""
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("torch.compile needs a C++ compiler on a CPU, and there is none")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    # Headers that are compiled beforehand pay for themselves only where much is compiled.
    monkeypatch.setattr("torch._inductor.config.cpp_cache_precompile_headers", False)
    (tmp_path / "net.py").write_text(NET)
    yield lambda task, **more: asked(task, source="net.py", folder=tmp_path, micro=32, **more)
    torch._dynamo.reset()


def asked(task, **more):
    made = plan(task, **more)
    made.step["compile"] = True
    return made


def run(made):
    found = Events()
    tasks.run(made, found)
    return found


def test_a_compiled_model_is_measured_with_the_compiler_apart(tmp_path, compiled):
    """One test of all of it: compiling costs seconds."""
    traced = run(compiled("traced", journal=tmp_path / "t.jsonl")).table("traced")
    phases = traced["phases"]
    for name, phase in phases.items():
        assert sum(phase["rows"].values()) == phase["requested_bytes"], name
    assert {"compile", "first.forward", "forward", "backward", "step"} <= set(phases)
    # The hidden layer is made by compiled code: not a label of the model as it is written is given to it.
    forward = phases["forward"]["rows"]
    assert (forward["weights"], forward["optimizer_state"]) == (WEIGHTS, 2 * WEIGHTS + 4 * 4)
    assert forward["unattributed"] >= 4 * 32 * 64
    assert "retained_activations" not in forward
    assert traced["unknown"]["unattributed"] == compiling.UNSEEN
    assert (traced["tracking_bytes"], phases["backward"]["rows"]["weights"]) == (None, WEIGHTS)
    timeline = read(tmp_path / "t.timeline.json")
    assert max(levels(timeline)) == max(
        phases[one]["requested_bytes"] for one in ("forward", "backward", "step")
    )

    events = run(compiled("timed", iterations=4, warmup=2))
    timed = events.table("timed")
    assert (timed["compile"]["why"], timed["compile"]["again"], len(timed["step_ms"])) == ("", 0, 4)
    assert timed["compile"]["count"] >= 1
    assert 0 < timed["compile"]["ms"] < timed["first_ms"]
    assert max(timed["step_ms"]) < timed["first_ms"]
    assert timed["observed_batch"] == 32
    read_in = {(one.name, one.phase): one for one in events.of(ReadingTaken)}
    assert read_in["process", "compile"].bytes > 0
    assert read_in["heap_reserved", "forward"].source == compiling.AT_EDGES

    built = Session(compiled("timed"), Events())
    assert set(built.model.state_dict()) == {"a.weight", "a.bias", "b.weight", "b.bias"}
    written = Session(plan("timed", source="net.py", folder=tmp_path, micro=32), Events())
    losses = [[one.iterate_for_loss() for _ in range(3)] for one in (built, written)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert {name for name, one in built.model.named_parameters() if one.grad is not None} == {
        *built.model.state_dict()
    }


def test_a_model_that_torchs_own_class_calls_is_compiled_too(monkeypatch):
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda fn, compile=torch.compile: compile(fn, backend=count))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    made = compiling.Compiling(model, lambda: ("forward", 0))
    told = []
    made.enter = lambda phase, micro: told.append((phase, micro))
    looked = []
    handle = made.register(lambda module, args, kwargs: looked.append(len(args)))
    model(torch.ones(2, 4))
    handle.remove()
    model(torch.ones(2, 4))
    assert (len(graphs), looked, told) == (1, [1], [("compile", None), ("forward", 0)])
    assert (made.count, made.ms > 0) == (1, True)
    with made.off():
        assert model._compiled_call_impl is None
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    made.settle()
    model(torch.ones(2, 4, dtype=torch.float32).requires_grad_())
    assert made.table()["count"] == 1
    assert told[2:] == []
    torch._dynamo.reset()


def test_what_a_model_compiles_itself_is_compiled_once_and_the_rest_keeps_its_names(tmp_path):
    text = NET.replace("torch.tanh(self.a(x))", "curved(self.a(x))").replace(
        "class Net", 'curved = torch.compile(lambda x: torch.tanh(x) * 2, backend="eager")\n\nclass Net'
    )
    (tmp_path / "net.py").write_text(text)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    table = run_here("traced", source="net.py", folder=tmp_path, micro=32).table("traced")
    frames = torch._dynamo.utils.counters["frames"]
    assert frames["total"] <= 2  # for training and for validation
    phase = table["phases"]["backward"]
    assert phase["rows"].get("unattributed", 0) <= 0.01 * phase["requested_bytes"]
    torch._dynamo.reset()


def test_what_the_compiler_refuses_is_a_sentence(tmp_path, monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("no working C++ compiler found")

    monkeypatch.setattr(torch, "compile", lambda fn, compile=torch.compile: compile(fn, backend=broken))
    (tmp_path / "net.py").write_text(NET)
    with pytest.raises(TaskError, match=r"cannot compile the model: .*no working C") as caught:
        Session(asked("timed", source="net.py", folder=tmp_path), Events()).iterate()
    assert "workload.step.compile" in caught.value.hint
    torch._dynamo.reset()


def test_without_the_setting_nothing_is_said_of_a_compiler():
    assert "compile" not in run_here("traced").table("traced")["phases"]
    assert "compile" not in run_here("timed", iterations=2, warmup=2).table("timed")
