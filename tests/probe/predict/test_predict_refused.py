"""What cannot be predicted is refused in a sentence; what asks for values is answered and told, or built for real."""

import pytest

from probe.helpers import run_here
from tui.probe.faults import TaskError

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
{init}
    def forward(self, x):
        x = self.first(x)
{forward}
        return x.pow(2).mean()

def build():
    return Net()

def batch(n):
    return torch.randn(n, 8)
"""


def net(folder, forward="        pass", init="", semantics="cpu", micro=4, **more):
    """The ``predicted`` table of a net with these lines in it."""
    (folder / "workload.py").write_text(HEAD.format(forward=forward, init=init))
    asked = {"semantics": semantics, "points": [{"micro": micro, "accumulate": 1, "length": None}]}
    events = run_here("predict", source="workload.py", folder=folder, extra={"predict": asked}, **more)
    return events.table("predicted")


def refusal(folder, **lines):
    with pytest.raises(TaskError) as caught:
        net(folder, **lines)
    return caught.value


def test_a_shape_that_depends_on_data_is_refused_with_operator_and_line(tmp_path):
    error = refusal(tmp_path, forward="        x = x[(x > 0).nonzero()[:, 0]]")
    assert error.kind == "prediction"
    assert error.sentence == "cannot predict: aten.nonzero in Net has a shape that depends on data"
    assert error.where == "workload.py:12"
    assert error.hint.startswith("measure it: peakmark probe")


def test_a_split_by_values_is_refused(tmp_path):
    error = refusal(
        tmp_path, forward="        x = x.split(torch.tensor([3, 5]).add(x.long().sum()).tolist(), 1)[0]"
    )
    assert error.kind == "prediction"
    assert "values, which are not there" in error.sentence


def test_a_sparse_tensor_is_refused(tmp_path):
    error = refusal(
        tmp_path,
        init="        self.t = nn.Embedding(8, 8, sparse=True)\n",
        forward="        x = x + self.t(x.long()).sum(1)",
    )
    assert error.kind == "prediction"
    assert "sparse_coo" in error.sentence


def test_a_kernel_without_a_fake_one_is_refused_with_what_to_register(tmp_path):
    init = (
        "        lib = torch.library.Library('ownops', 'FRAGMENT')\n"
        "        lib.define('twice(Tensor x) -> Tensor')\n"
        "        lib.impl('twice', lambda x: x * 2, 'CPU')\n"
        "        Net.lib = lib\n"
    )
    error = refusal(tmp_path, init=init, forward="        x = torch.ops.ownops.twice(x)")
    assert error.kind == "prediction"
    assert "ownops.twice" in error.sentence
    assert "register_fake" in error.hint


def test_a_compiled_model_is_refused(tmp_path):
    (tmp_path / "workload.py").write_text(HEAD.format(forward="        pass", init=""))
    from probe.helpers import Events, plan
    from tui.probe import tasks

    made = plan(
        "predict", "workload.py", folder=tmp_path, extra={"predict": {"semantics": "cpu", "points": []}}
    )
    made.step["compile"] = True
    with pytest.raises(TaskError, match=r"workload\.step\.compile"):
        tasks.run(made, Events())


def test_a_value_that_the_program_asks_for_is_answered_and_told(tmp_path):
    found = net(tmp_path, forward="        if x.mean().item() > 3:\n            x = torch.cat((x, x))")
    assert found["items_answered"] == [{"answer": "1.0", "where": "workload.py:12 in forward", "count": 3}]


def test_a_model_that_reads_values_while_it_is_built_is_built_for_real(tmp_path):
    width = "        self.second = nn.Linear(8, int(torch.linspace(4, 6, 3)[1].item()))\n"
    found = net(tmp_path, init=width, forward="        x = self.second(x)")
    assert found["items_answered"] == []
    assert found["phases"]["forward"]["rows"]["weights"] == 4 * (8 * 8 + 8 + 8 * 5 + 5)


def test_what_the_models_own_code_raises_is_the_workloads_fault(tmp_path):
    with pytest.raises(ValueError, match="no such mode"):
        net(tmp_path, forward="        raise ValueError('no such mode')")


@pytest.mark.parametrize(
    "line",
    [
        "        import copy; x = copy.deepcopy(self.first)(x)",
        "        x = x.to(torch.float64).to(x.dtype)",
        "        x = x + torch.zeros_like(x).pin_memory() if False else x",
        "        assert not torch.equal(x, x) or True",
        "        x = x.clone(memory_format=torch.contiguous_format).to(x.device)",
    ],
)
def test_copies_casts_and_moves_are_traced(tmp_path, line):
    assert net(tmp_path, forward=line)["phases"]["backward"]["requested_bytes"] > 0


def test_inference_mode_is_traced_like_any_forward_without_gradients(tmp_path):
    both = [
        net(
            tmp_path,
            forward=f"        with torch.{name}():\n            y = torch.einsum('ij,kj->ik', x, self.first.weight)\n"
            "            y = torch.where(y > 0, y, 0.5)",
        )
        for name in ("inference_mode", "no_grad")
    ]
    assert both[0]["phases"] == both[1]["phases"]


def test_inference_mode_keeps_no_casts_of_weights_and_leaves_the_cache_as_it_was(tmp_path):
    lines = (
        "        import torch as t\n"
        "        with t.{}(), t.autocast('cpu', t.bfloat16):\n"
        "            y = self.first(x); kept = t.is_autocast_cache_enabled()\n"
        "        assert kept is {} and t.is_autocast_cache_enabled()"
    )
    net(tmp_path, forward=lines.format("inference_mode", False))
    net(tmp_path, forward=lines.format("no_grad", True))


@pytest.mark.parametrize("semantics", ["cpu", "cuda"])
def test_an_answer_is_told_whatever_is_predicted_for(tmp_path, semantics):
    found = net(tmp_path, forward="        if bool(x.sum() > 3):\n            x = x * 2", semantics=semantics)
    assert found["items_answered"] == [{"answer": "True", "where": "workload.py:12 in forward", "count": 3}]


@pytest.mark.parametrize(
    "condition",
    [
        "torch.isnan(x).any()",
        "torch.isnan(x.sum())",
        "torch.isinf(x).any()",
        "not torch.isfinite(x).all()",
        "(torch.isnan(x) | torch.isinf(x)).any()",
        "torch.isnan(x).any() or torch.isinf(x).any()",
        "not (~torch.isnan(x)).all()",
    ],
)
def test_nothing_is_taken_for_not_finite(tmp_path, condition):
    found = net(tmp_path, forward=f"        if {condition}:\n            raise ValueError('not finite')")
    assert found["phases"]["backward"]["requested_bytes"] > 0


def test_what_a_program_raises_after_an_answer_is_no_fault_of_it(tmp_path):
    error = refusal(
        tmp_path, forward="        if (x.sum() > 3).item():\n            raise ValueError('too large')"
    )
    assert error.kind == "prediction"
    assert error.sentence == (
        "cannot predict: the program raises ValueError: too large; it asked for a value at workload.py:12 in "
        "forward, where there is none, and was told True"
    )


def test_a_tensor_in_a_formatted_text_is_answered_and_told(tmp_path):
    found = net(tmp_path, forward="        f'{x.mean():.3f} {x}'")
    assert found["items_answered"] == [{"answer": "1.0", "where": "workload.py:12 in forward", "count": 3}]


def test_an_optimizer_that_decides_by_values_is_refused(tmp_path):
    (tmp_path / "workload.py").write_text(
        HEAD.format(forward="        pass", init="")
        + "\ndef optimizer(model):\n    return torch.optim.LBFGS(model.parameters())\n\ndef step(run):\n    pass\n"
    )
    asked = {"semantics": "cpu", "points": [{"micro": 4, "accumulate": 1, "length": None}]}
    with pytest.raises(TaskError, match="LBFGS goes on or stops by the values"):
        run_here("predict", source="workload.py", folder=tmp_path, extra={"predict": asked})


def test_a_compiled_function_in_the_model_is_refused(tmp_path):
    error = refusal(
        tmp_path,
        init="        Net.twice = staticmethod(torch.compile(lambda x: x * 2))\n",
        forward="        x = self.twice(x)",
    )
    assert error.kind == "prediction"
    assert "calls what torch.compile has compiled" in error.sentence


def test_a_module_on_several_gpus_of_one_process_is_refused(tmp_path):
    init = "        self.spread = nn.DataParallel(nn.Linear(8, 8))\n"
    error = refusal(tmp_path, init=init, forward="        x = self.spread(x)", semantics="cuda")
    assert "nn.DataParallel at spread" in error.sentence


def test_a_batch_that_the_host_cannot_hold_is_no_verdict_on_the_gpu(tmp_path):
    with pytest.raises(TaskError, match="not the memory to make a batch on the host") as caught:
        net(tmp_path, micro=10**12)
    assert caught.value.kind == "prediction"


def test_a_recurrent_layer_on_the_cpu_is_approximate(tmp_path):
    init = "        self.rnn = nn.LSTM(8, 8)\n"
    found = net(tmp_path, init=init, forward="        x = self.rnn(x[None])[0][0]")
    assert [one for one in found["approximate"] if "oneDNN" in one]
