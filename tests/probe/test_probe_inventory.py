"""What a count is: one parameter an object, everything else apart, and a refusal where it would not hold."""

import json

import pytest
import torch
from torch import nn

from tui.probe import experts, families, inventory, tasks
from tui.probe.faults import TaskError
from tui.probe.identity import holdings
from tui.probe.protocol import ResultReady

from .helpers import DECODER, Events, child, plan, run_here


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(10, 4)
        self.lm_head = nn.Linear(4, 10, bias=False)
        self.lm_head.weight = self.wte.weight


class Cell(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.act = act


def counted(tmp_path, code, frozen=(), length_min=None, **more):
    """The table and the tree of a workload file, after one real backward."""
    (tmp_path / "workload.py").write_text("import torch\nfrom torch import nn\n" + code)
    more.setdefault("extra", {"backward": True})
    made = plan("inventory", "workload.py", {}, tmp_path, journal=tmp_path / "t.jsonl", **more)
    made.workload["frozen"] = list(frozen)
    made.batch["length_min"] = length_min
    events = Events()
    tasks.run(made, events)
    tables = [one.table for one in events if isinstance(one, ResultReady)]
    return tables[-1], json.loads((tmp_path / "t.modules.json").read_text())


def calls(tree):
    return {row[0]: row[-1] for row in tree["modules"]}


# --- identity ------------------------------------------------------------------------------------------------


def test_a_shared_parameter_is_counted_once_and_named():
    found = inventory.take(Tied())
    assert (found["unique_parameters"], found["tensors"], found["parameter_bytes"]) == (40, 1, 160)
    assert (found["state_entries"], found["state_entry_elements"]) == (2, 80)
    assert found["shared"] == ["lm_head.weight = wte.weight"]


def test_a_15m_decoder_with_a_tied_head_has_15_191_712_parameters_and_24_407_712_in_its_checkpoint():
    args = {"vocab": 32000, "width": 288, "layers": 6, "heads": 6, "hidden": 768, "gated": True, "tied": True}
    args |= {"norm": "rmsnorm", "positions": "rotary", "bias": False}
    family, cfg = families.load("decoder", args)
    with torch.device("meta"):
        found = inventory.take(family.build(cfg), family.GROUPS)
    assert (found["unique_parameters"], found["state_entry_elements"]) == (15_191_712, 24_407_712)
    assert found["state_entry_elements"] - found["unique_parameters"] == 32000 * 288
    assert len(found["shared"]) == 1


def test_all_names_of_a_tensor_that_three_modules_share_are_told():
    one = nn.Linear(2, 3, bias=False)
    others = [nn.Linear(2, 3, bias=False) for _ in range(2)]
    for other in others:
        other.weight = one.weight
    found = inventory.take(nn.ModuleDict({"a": one, "b": others[0], "c": others[1]}))
    assert (found["unique_parameters"], found["shared"]) == (6, ["c.weight = b.weight = a.weight"])


def test_two_tensors_of_equal_values_are_two_parameters():
    model = Tied()
    model.lm_head.weight = nn.Parameter(model.wte.weight.detach().clone())
    found = inventory.take(model)
    assert (found["unique_parameters"], found["shared"]) == (80, [])


def test_batch_norm_over_ten_channels_has_20_parameters_and_21_buffer_elements():
    found = inventory.take(nn.BatchNorm2d(10))
    assert (found["unique_parameters"], found["buffer_elements"], found["buffer_bytes"]) == (20, 21, 88)
    assert (found["persistent_buffer_elements"], found["persistent_buffer_bytes"]) == (21, 88)


def test_buffers_that_no_checkpoint_has_are_told_apart():
    model = nn.Linear(2, 2)
    model.register_buffer("kept", torch.zeros(3))
    model.register_buffer("mask", torch.zeros(5, dtype=torch.bool), persistent=False)
    found = inventory.take(model)
    assert (found["buffer_elements"], found["buffer_bytes"]) == (8, 17)
    assert (found["persistent_buffer_elements"], found["persistent_buffer_bytes"]) == (3, 12)
    assert found["state_entries"] == 3


def test_a_module_that_is_used_twice_is_counted_once():
    layer = nn.Linear(3, 3)
    found = inventory.take(nn.Sequential(layer, layer))
    assert (found["unique_parameters"], found["tensors"]) == (12, 2)
    assert found["shared"] == ["1.weight = 0.weight", "1.bias = 0.bias"]


def test_cells_that_share_an_activation_count_what_their_layers_hold():
    act = nn.ReLU()
    assert inventory.take(nn.Sequential(*[Cell(act) for _ in range(3)]))["unique_parameters"] == 6 * 20


def test_one_activation_object_with_a_parameter_at_two_places_is_one_parameter():
    act = nn.PReLU()
    found = inventory.take(nn.Sequential(nn.Linear(2, 2), act, nn.Linear(2, 2), act))
    assert found["unique_parameters"] == 13


def test_weight_norm_stores_magnitudes_beside_directions():
    model = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3))
    found = inventory.take(model)
    assert (found["unique_parameters"], found["tensors"]) == (8 + 8 + 96, 3)


def test_modules_that_hold_each_other_do_not_hang_the_count():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    one.other, other.one = other, one
    assert inventory.take(one)["unique_parameters"] == 12


@pytest.mark.parametrize("name", ["", "a.b"])
def test_a_module_whose_name_is_no_part_of_a_path_is_refused(name):
    model = nn.Sequential(nn.Linear(2, 2))
    model[0]._modules[name] = nn.Linear(2, 2)
    with pytest.raises(TaskError, match=r"a module in 0 is named .*; names of modules are not empty"):
        inventory.take(model)


CIRCLE = """
class Circle(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.layer.parent = self
def build(): return Circle()
def batch(n): return torch.ones(n, 2)
"""


def test_modules_in_a_circle_cannot_be_trained_and_that_is_said(tmp_path):
    with pytest.raises(TaskError, match="some hold each other in a circle"):
        counted(tmp_path, CIRCLE)


def test_a_scripted_model_counts_what_it_was_made_from():
    tied = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3, bias=False))
    tied[2].weight = tied[0].weight
    found = inventory.take(torch.jit.script(tied))
    assert (found["unique_parameters"], found["tensors"], found["buffer_elements"]) == (9 + 3 + 6, 4, 7)
    assert found["shared"] == ["2.weight = 0.weight"]


def test_frozen_parameters_are_not_trainable():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    found = inventory.take(model)
    assert (found["unique_parameters"], found["trainable_parameters"], found["trainable_tensors"]) == (
        9,
        3,
        2,
    )


def test_dtypes_are_counted_apart():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).to(torch.bfloat16))
    found = inventory.take(model)
    assert (found["dtypes"], found["parameter_bytes"]) == ({"float32": 6, "bfloat16": 3}, 30)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_parameters_that_are_views_of_one_storage_are_stored_once(device):
    whole = torch.zeros(10, 4, device=device)
    model = nn.ParameterList([nn.Parameter(whole[:6]), nn.Parameter(whole[4:])])
    found = inventory.take(model)
    assert (found["unique_parameters"], found["parameter_bytes"], found["storage_bytes"]) == (48, 192, 160)


def test_the_meta_device_counts_the_same():
    with torch.device("meta"):
        found = inventory.take(Tied())
    assert (found["unique_parameters"], found["storage_bytes"], found["device"]) == (40, 160, "meta")


def test_a_state_dict_that_fails_is_counted_by_name_and_says_so():
    class Refuses(Tied):
        def state_dict(self, *args, **kwargs):
            raise RuntimeError("not gathered")

    found = inventory.take(Refuses())
    assert (found["state_entries"], found["state_entry_elements"]) == (2, 80)
    assert "not gathered" in found["unknown"]["state_entries"]


# --- refusals ------------------------------------------------------------------------------------------------


def test_lazy_parameters_are_refused_with_what_the_others_come_to():
    with pytest.raises(TaskError) as caught:
        inventory.take(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2)))
    assert "2 of 4 parameters are not initialised (lazy), such as 0.weight" in caught.value.sentence
    assert "the others have 10 elements, which is not the model's size" in caught.value.sentence
    assert "build()" in caught.value.hint


def test_lazy_buffers_are_refused_by_name():
    with pytest.raises(TaskError) as caught:
        inventory.take(nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d(affine=False)))
    assert caught.value.sentence.startswith("the buffer 1.running_mean is not initialised (lazy)")


@pytest.mark.filterwarnings("ignore")
def test_weights_in_an_object_that_shows_no_tensor_are_refused_rather_than_left_out():
    packed = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)), {nn.Linear})
    with pytest.raises(TaskError) as caught:
        inventory.take(nn.Sequential(nn.Linear(4, 4), packed))
    assert "1 module keeps weights in a packed object that shows no tensor" in caught.value.sentence


def test_a_model_without_parameters_is_refused():
    with pytest.raises(TaskError, match="no parameters"):
        inventory.take(nn.ReLU())


def test_parameters_of_no_elements_at_all_are_refused():
    said = r"the parameters have 0 elements in all, the first of 1 is weight of shape \[0, 5\]"
    with pytest.raises(TaskError, match=said):
        inventory.take(nn.Linear(5, 0, bias=False))


def test_empty_placeholders_that_say_no_size_are_refused_rather_than_left_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].weight.data = torch.empty(0)
    with pytest.raises(TaskError) as caught:
        inventory.take(model)
    assert "1 of 4 parameters are empty placeholders, such as 0.weight" in caught.value.sentence
    assert "the others have 8 elements" in caught.value.sentence


def test_builds_from_one_seed_that_differ_are_refused(tmp_path):
    code = "made = []\ndef build():\n    made.append(1)\n    return nn.Linear(4, 1 + len(made))\n"
    code += "def batch(n): return torch.ones(n, 4)\n"
    with pytest.raises(TaskError) as caught:
        counted(tmp_path, code, extra={})
    assert (
        "two builds from the same seed have 10 and 15 parameters: weight is [2, 4], then weight is [3, 4]"
        in (caught.value.sentence)
    )


def test_parameters_that_a_forward_makes_are_refused(tmp_path):
    code = """
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
    def forward(self, x):
        if not hasattr(self, "late"):
            self.late = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1, bias=False)])
        return self.late[0](self.first(x)).mean() + self.late[1](x).mean()
def build(): return Late()
def batch(n): return torch.ones(n, 4)
"""
    with pytest.raises(TaskError) as caught:
        counted(tmp_path, code)
    said = "3 parameters are made in the first forward only, such as late.0.weight (9 elements)"
    assert said in caught.value.sentence
    assert "the count of 20 does not hold" in caught.value.sentence
    assert caught.value.kind == "workload"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("self.a = None", "1 parameter is gone after the first forward, a (2 elements)"),
        (
            "self.a = nn.Parameter(torch.ones(2))",
            "1 parameter is replaced by new ones in the first forward, a",
        ),
        (
            "self.a.data = torch.ones(3)",
            "1 parameter is of another size after the first forward, a (3 elements)",
        ),
    ],
)
def test_parameters_that_go_or_change_in_a_forward_are_refused(tmp_path, change, said):
    code = f"""
class Changes(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    def forward(self, x):
        out = (self.b * x).sum()
        {change}
        return out
def build(): return Changes()
def batch(n): return torch.ones(n, 2)
"""
    with pytest.raises(TaskError) as caught:
        counted(tmp_path, code)
    assert said in caught.value.sentence


@pytest.mark.parametrize(
    ("held", "used", "said"),
    [
        (
            "[nn.Linear(3, 3) for _ in range(4)]",
            "for one in self.held: x = one(x)",
            "8 parameters (48 elements",
        ),
        (
            "{'t': nn.Parameter(torch.ones(3))}",
            "x = x * self.held['t']",
            "1 parameter (3 elements, of shape [3])",
        ),
    ],
)
def test_parameters_that_work_in_a_forward_and_are_not_registered_are_refused(tmp_path, held, used, said):
    code = f"""
class Hides(nn.Module):
    def __init__(self):
        super().__init__()
        self.held, self.last = {held}, nn.Linear(3, 1)
    def forward(self, x):
        {used}
        return self.last(x).sum()
def build(): return Hides()
def batch(n): return torch.ones(n, 3)
"""
    with pytest.raises(TaskError) as caught:
        counted(tmp_path, code)
    assert said in caught.value.sentence
    assert "not registered with the model, so the count of 4 does not hold" in caught.value.sentence


# --- one real backward ---------------------------------------------------------------------------------------


def test_a_convolution_on_two_inputs_has_10_parameters_and_2_calls(tmp_path):
    code = """
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
    def forward(self, a, b): return self.conv(a).mean() + self.conv(b).mean()
def build(): return Twice()
def batch(n): return (torch.randn(n, 1, 16, 16), torch.randn(n, 1, 28, 28))
"""
    table, tree = counted(tmp_path, code)
    assert (table["unique_parameters"], table["gradient_receiving"]) == (10, 10)
    assert calls(tree) == {"": 1, "conv": 2}


def test_calls_are_told_of_a_model_whose_output_is_no_loss(tmp_path):
    code = """
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.other = nn.Conv2d(1, 4, 3), nn.Linear(1, 1)
    def forward(self, a, b): return self.conv(a), self.conv(b)
def build(): return Twin()
def batch(n): return (torch.randn(n, 1, 8, 8), torch.randn(n, 1, 8, 8))
"""
    table, tree = counted(tmp_path, code)
    assert (table["unique_parameters"], table["gradient_receiving"]) == (42, None)
    assert calls(tree) == {"": 1, "conv": 2, "other": 0}


def test_a_model_that_is_compiled_in_build_gets_its_gradients(tmp_path):
    code = "def build(): return torch.compile(nn.Linear(3, 1), backend='eager')\n"
    code += "def batch(n): return torch.ones(n, 3)\ndef loss(model, batch): return model(batch).sum()\n"
    table, tree = counted(tmp_path, code)
    assert (table["unique_parameters"], table["gradient_receiving"]) == (4, 4)
    assert tree["parameters"][0][0] == "_orig_mod.weight"


def test_trainable_parameters_without_a_gradient_are_named_in_the_tree(tmp_path):
    code = """
class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(3, 1), nn.Linear(3, 2), nn.Linear(3, 1)
    def forward(self, x): return (self.used(x) + self.frozen(x)).mean()
def build(): return Half()
def batch(n): return torch.ones(n, 3)
"""
    table, tree = counted(tmp_path, code, frozen=["frozen.*"])
    assert (table["trainable_parameters"], table["gradient_receiving"]) == (12, 4)
    received = {row[0]: row[6] for row in tree["parameters"]}
    assert [name for name, got in received.items() if not got] == [
        "unused.weight",
        "unused.bias",
        "frozen.weight",
        "frozen.bias",
    ]
    assert calls(tree)["unused"] == 0


def test_the_shortest_declared_length_is_enough_for_a_backward(tmp_path):
    code = """
def build(): return nn.Embedding(4, 2)
def batch(n, length):
    assert length == 3, length
    return torch.zeros(n, length, dtype=torch.long)
def loss(model, batch): return model(batch).sum()
"""
    table, _ = counted(tmp_path, code, length=4096, length_min=3)
    assert table["gradient_receiving"] == 8


def test_a_batch_norm_that_cannot_take_one_sample_is_given_two(tmp_path):
    code = "def build(): return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))\n"
    code += (
        "def batch(n): return torch.randn(n, 3)\ndef loss(model, batch): return model(batch).square().sum()\n"
    )
    table, _ = counted(tmp_path, code)
    assert table["gradient_receiving"] == 8 + 4


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def batch(n): raise OSError('no data here')", "OSError: no data here"),
        ("def batch(n): return torch.ones(n, 9)", "one sample could not be run: workload.py"),
        ("def batch(n): return torch.ones(n, 4)\ndef step(run): pass", "a step(run) of its own"),
        ("def batch(n): return torch.ones(n, 4)\ndef loss(model, batch): raise SystemExit(3)", "SystemExit"),
        (
            "def batch(n): return torch.ones(n, 4)\ndef loss(model, batch): return model(batch)",
            "not a scalar",
        ),
    ],
)
def test_a_backward_that_cannot_be_run_leaves_the_count_and_a_reason(tmp_path, code, said):
    build = "class M(nn.Linear):\n    def forward(self, x): return super().forward(x)\ndef build(): return M(4, 2)\n"
    table, tree = counted(tmp_path, build + code)
    assert (table["unique_parameters"], table["gradient_receiving"]) == (10, None)
    assert said in table["unknown"]["gradient_receiving"]
    assert [row[6] for row in tree["parameters"]] == [None, None]


def test_a_large_model_is_counted_without_a_backward(tmp_path, monkeypatch):
    monkeypatch.setattr("tui.probe.one_backward.MOST_BYTES", 39)
    code = "def build(): return nn.Linear(4, 2)\ndef batch(n): raise AssertionError\n"
    table, tree = counted(tmp_path, code)
    assert table["device"] == "meta"
    assert table["unknown"]["gradient_receiving"] == (
        "40 B of parameters in fp32 are too many for a backward while counting; verify runs one"
    )
    assert calls(tree) == {"": None}


def test_a_build_that_needs_too_much_memory_even_without_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tui.probe.confined.available_bytes", lambda: 1 << 28)
    code = """
def build(): return nn.Linear(4, len([bytearray(1 << 20) for _ in range(1 << 12)]))
def batch(n): return torch.ones(n, 4)
"""
    with pytest.raises(
        TaskError, match="even without its values, needs more than the 214,748,364 B of memory"
    ):
        counted(tmp_path, code)


def test_a_model_that_reads_its_values_is_built_for_real_and_says_why(tmp_path):
    code = """
def build():
    model = nn.Linear(4, 2)
    assert model.weight.abs().sum().item() > 0
    return model
def batch(n): return torch.ones(n, 4)
def loss(model, batch): return model(batch).sum()
"""
    table, _ = counted(tmp_path, code)
    assert (table["unique_parameters"], table["device"], table["gradient_receiving"]) == (10, "cpu", 10)
    assert "cannot be built on the meta device: workload.py:6: RuntimeError" in table["unknown"]["meta"]


def test_a_build_that_fails_for_real_costs_the_gradients_alone(tmp_path):
    code = """
def build():
    model = nn.Linear(4, 2)
    if not model.weight.is_meta: raise ValueError("no values for you")
    return model
def batch(n): return torch.ones(n, 4)
"""
    table, _ = counted(tmp_path, code)
    assert table["unique_parameters"] == 10
    assert (
        "it cannot be built for real: workload.py:6: ValueError: no values for you"
        in (table["unknown"]["gradient_receiving"])
    )


def test_a_model_that_is_another_one_on_meta_is_counted_for_real(tmp_path):
    code = """
def build():
    model = nn.Linear(4, 2)
    return nn.Linear(4, 3) if model.weight.is_meta else model
def batch(n): return torch.ones(n, 4)
def loss(model, batch): return model(batch).sum()
"""
    table, tree = counted(tmp_path, code)
    assert (table["unique_parameters"], table["device"]) == (10, "cpu")
    assert "weight is [3, 4], then weight is [2, 4]" in table["unknown"]["meta"]
    assert tree["modules"][0][2] == 10


def test_the_count_is_told_before_the_backward_is_run():
    events = run_here("inventory", source="decoder", args=DECODER, extra={"backward": True})
    first, last = (one.table for one in events if isinstance(one, ResultReady))
    assert first["unique_parameters"] == last["unique_parameters"]
    assert "gradient_receiving" not in first
    assert last["gradient_receiving"] == last["trainable_parameters"]


def test_a_child_leaves_its_tree_beside_its_journal(tmp_path):
    done = child(
        tmp_path, "inventory", extra={"backward": True, "placement": {"ranks": 1, "strategy": "none"}}
    )
    table = [one.table for one in done.events if isinstance(one, ResultReady)][-1]
    tree = json.loads((tmp_path / "inventory.modules.json").read_text())
    assert table["unique_parameters"] == 4 * 8 + 8 + 8 * 2 + 2 == tree["modules"][0][2]
    assert table["gradient_receiving"] == 58


# --- parts, experts ------------------------------------------------------------------------------------------


def test_groups_are_the_parts_by_their_words_and_add_up():
    found = inventory.take(nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)]), {"0": "first"})
    assert found["groups"]["first"] == 6
    assert sum(found["groups"].values()) == 18


def test_a_parameter_of_the_model_itself_is_a_part_by_its_own_word():
    model = nn.Module()
    model.token = nn.Parameter(torch.zeros(1, 4))
    model.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    found = inventory.take(model, {"token": "class token", "layers": "{n} blocks"})
    assert found["groups"] == {"class token": 4, "3 blocks": 18}


class Sparse(nn.Module):
    """Two layers of four experts beside a router, and a dense head."""

    def __init__(self, fused=False):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.router = nn.Linear(6, 4, bias=False)
            if fused:
                layer.experts = nn.Module()
                layer.experts.up = nn.Parameter(torch.zeros(4, 6, 5))
            else:
                layer.experts = nn.ModuleList(nn.Linear(6, 5, bias=False) for _ in range(4))
            layer.shared_expert = nn.Linear(6, 5, bias=False)
            self.layers.append(layer)
        self.head = nn.Linear(6, 3, bias=False)


@pytest.mark.parametrize(
    ("fused", "pattern"),
    [
        (False, "layers.*.experts.*"),
        (False, "layers.*.experts"),
        (True, "layers.*.experts"),
        (True, "layers.*.experts.up"),
    ],
)
def test_a_token_uses_its_share_of_the_experts_and_all_of_the_rest(fused, pattern):
    model = Sparse(fused)
    found = inventory.take(model, routed={"modules": pattern, "total": 4, "used": 1})
    rest = 2 * (24 + 30) + 18
    assert found["unique_parameters"] == rest + 2 * 4 * 30
    assert found["active_parameters"] == rest + 2 * 30


def test_experts_of_which_nothing_says_how_many_are_used_are_unknown():
    found = inventory.take(Sparse())
    assert found["active_parameters"] is None
    said = "layers.0.experts looks like experts, and nothing says how many a token uses"
    assert found["unknown"]["active_parameters"] == said


def test_experts_of_an_own_model_are_used_as_its_configuration_says(tmp_path):
    code = """
from types import SimpleNamespace
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
def build():
    model = nn.Module()
    model.config = SimpleNamespace(num_local_experts=4, num_experts_per_tok=2)
    model.layers = nn.ModuleList(Layer() for _ in range(2))
    return nn.ModuleDict({"wrapped": model})
def batch(n): return torch.ones(n, 3)
"""
    table, _ = counted(tmp_path, code, extra={})
    assert table["unique_parameters"] == 2 * (12 + 4 * 12)
    assert table["active_parameters"] == 2 * (12 + 2 * 12)


def test_experts_are_named_before_a_model_whose_class_speaks_of_them():
    class SparseMoeModel(Sparse):
        pass

    unknown = {}
    assert experts.active(holdings(nn.ModuleDict({"model": SparseMoeModel()})), None, unknown) is None
    assert unknown["active_parameters"].startswith("model.layers.0.experts looks like experts")


@pytest.mark.parametrize(
    ("routed", "said"),
    [
        ({"modules": "blocks.*.moe", "total": 4, "used": 1}, "no parameter is of the experts blocks.*.moe"),
        ({"modules": "layers.*.experts", "total": 7, "used": 2}, "are not 7 equal experts with 2 in use"),
    ],
)
def test_experts_that_do_not_fit_what_is_said_of_them_are_unknown(routed, said):
    unknown = {}
    assert experts.active(holdings(Sparse()), routed, unknown) is None
    assert said in unknown["active_parameters"]


def test_a_dense_model_works_on_a_token_as_a_whole():
    assert inventory.take(nn.Linear(3, 3))["active_parameters"] == 12


def test_tensors_are_listed_by_shape_and_dtype_up_to_a_limit(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 3, dtype=torch.bfloat16))
    model.scale = nn.Parameter(torch.ones(()), requires_grad=False)
    expected = {
        "scalar float32 frozen": 1,
        "3x4 float32": 1,
        "3 float32": 1,
        "3x4 bfloat16": 1,
        "3 bfloat16": 1,
    }
    assert inventory.take(model)["shapes"] == expected
    monkeypatch.setattr(inventory, "MOST_SHAPES", 4)
    found = inventory.take(model)
    assert found["shapes"] == {}
    assert found["unknown"]["shapes"] == "there are 5 different shapes of tensors, more than are listed"


def test_elements_of_experts_are_counted_where_something_says_which_they_are():
    assert inventory.take(nn.Linear(3, 2))["expert_parameters"] == 0
    found = holdings(
        nn.ModuleDict({"experts": nn.ModuleList([nn.Linear(3, 2, bias=False) for _ in range(4)])})
    )
    said = {"modules": "experts.*", "total": 4, "used": 2}
    assert experts.elements(found, said, {}) == 24
    unknown = {}
    assert experts.elements(found, None, unknown) is None
    assert unknown == {"expert_parameters": "experts looks like experts, and nothing says which are"}
