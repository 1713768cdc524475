"""Declared optimizer state against the tensors that torch's own optimizers keep, to the byte."""

import contextlib
import inspect
from dataclasses import replace

import pytest
from sample_project import CPU_SPEC, CUDA_INVENTORY, CUDA_SPEC

from tui.budget.declared import counter_note, declared, situation
from tui.budget.declared_optimizer import counters_away
from tui.budget.optimizers import remembered, state_rule
from tui.project.inventory import Inventory
from tui.project.model import OptimizerSpec, PrecisionSpec

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tui.probe import inventory  # noqa: E402

NAMES = sorted(
    name
    for name, one in vars(torch.optim).items()
    if isinstance(one, type) and issubclass(one, torch.optim.Optimizer) and one is not torch.optim.Optimizer
)
FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
OPTIONS = {
    "Adam": [{}, {"amsgrad": True}, {"betas": (0.0, 0.999)}, {"weight_decay": 0.1}],
    "AdamW": [{}, {"amsgrad": True}],
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "nesterov": True}],
    "RMSprop": [{}, {"momentum": 0.5}, {"centered": True}, {"centered": True, "momentum": 0.5}],
    "Adagrad": [{}, {"initial_accumulator_value": 0.1}],
    "NAdam": [{}, {"decoupled_weight_decay": True}],
    "RAdam": [{}, {"decoupled_weight_decay": True}],
    "Muon": [{}, {"nesterov": False}],
}
IMPLEMENTATIONS = {"foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}


class Odd(nn.Module):
    """Matrices, a vector, a scalar, three dimensions, and one tensor that is not trained."""

    def __init__(self, matrices: bool):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.randn(6, 1))
        if not matrices:
            self.cube, self.row = nn.Parameter(torch.randn(3, 2, 4)), nn.Parameter(torch.randn(5))
            self.scale = nn.Parameter(torch.randn(()))
        self.frozen = nn.Parameter(torch.randn(7), requires_grad=False)


def kept(optimizer):
    """Bytes of the different storages of everything that is in the state, lists included."""
    found = {}

    def put(value):
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, list | tuple):
            for one in value:
                put(one)

    for state in optimizer.state.values():
        for value in state.values():
            put(value)
    return sum(found.values())


def stepped(name, args, model, dtype, steps=2):
    model = model.to(dtype)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = getattr(torch.optim, name)(trained, **args)

    def closure():
        for one in trained:
            one.grad = 0.1 * one.detach() + 0.01
        return sum((0.05 * one.detach() ** 2 + 0.01 * one.detach()).sum() for one in trained)

    for _ in range(steps):
        closure()
        if name == "SparseAdam":
            for one in trained:
                one.grad = one.grad.to_sparse()
        optimizer.step(*([closure] if name == "LBFGS" else []))
    return optimizer


def spec_of(name, args, precision, implementation="default"):
    work = replace(
        CPU_SPEC.workload, optimizer=OptimizerSpec(f"torch.optim.{name}", implementation, dict(args))
    )
    return replace(CPU_SPEC, workload=work, precision=PrecisionSpec(use=precision))


def counted(model):
    return Inventory("sha256:00000000", **inventory.take(model))


def cases():
    for name in NAMES:
        for args in OPTIONS.get(name, [{}]):
            if name == "LBFGS":
                continue
            yield name, args, "default"
            takes = inspect.signature(getattr(torch.optim, name)).parameters
            for kind, flag in IMPLEMENTATIONS.items():
                if next(iter(flag)) in takes:
                    yield name, args, kind


def test_every_optimizer_of_torch_has_a_rule():
    assert [name for name in NAMES if isinstance(state_rule(name, {}), str)] == []


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("name", "args", "kind"), list(cases()))
def test_declared_state_is_what_the_optimizer_keeps_to_the_byte(name, args, kind, precision):
    model = Odd(matrices=name == "Muon")
    if name == "SparseAdam":
        del model.scale  # torch has no sparse gradient without dimensions
    found = counted(model)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    optimizer = stepped(name, {**args, **IMPLEMENTATIONS.get(kind, {})}, model, dtype)
    spec = spec_of(name, args, precision, kind)
    row = declared(spec, found, situation(spec))["optimizer_state"]
    assert row.bytes == kept(optimizer), row
    for one in model.parameters():
        one.grad = torch.zeros_like(one) if one.requires_grad else None
    gradients = declared(spec, found, situation(spec))["gradients"].bytes
    assert gradients == sum(one.grad.nbytes for one in model.parameters() if one.grad is not None)
    assert declared(spec, found, situation(spec))["weights"].bytes == sum(
        p.nbytes for p in model.parameters()
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("LBFGS", "SparseAdam", "Muon")])
def test_what_is_made_before_the_first_step_is_declared_before_it(name):
    model = Odd(matrices=False)
    found, spec = counted(model), spec_of(name, {}, "fp32")
    optimizer = stepped(name, {}, model, torch.float32, steps=0)
    at = situation(spec, phase="first.backward")
    assert declared(spec, found, at)["optimizer_state"].bytes == kept(optimizer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("steps", "history"), [(1, 3), (2, 3), (3, 3), (9, 3), (9, 5)])
def test_lbfgs_keeps_two_vectors_a_pair_until_its_history_is_full(steps, history, dtype):
    model = Odd(matrices=False)
    count = sum(one.numel() for one in model.parameters() if one.requires_grad)
    optimizer = stepped(
        "LBFGS", {"lr": 0.1, "history_size": history, "max_iter": 1}, model, dtype, steps=steps
    )
    (state,) = [one for one in optimizer.state.values() if one]
    pairs = len(state["ro"])
    assert pairs <= history
    first = {value for value in (state["t"],) if isinstance(value, torch.Tensor)}  # the first step's length
    item = torch.empty((), dtype=dtype).element_size()
    assert kept(optimizer) - item * len(first) == item * remembered(count, pairs)


def test_lbfgs_is_declared_at_its_full_history():
    model = Odd(matrices=False)
    found, spec = counted(model), spec_of("LBFGS", {"lr": 0.1, "history_size": 2, "max_iter": 1}, "fp32")
    optimizer = stepped("LBFGS", {"lr": 0.1, "history_size": 2, "max_iter": 1}, model, torch.float32, steps=6)
    row = declared(spec, found, situation(spec))["optimizer_state"]
    assert row.bytes == kept(optimizer)
    assert row.text == "(6 x 84 + 5) x 4 B, at a full history of 2"


def on_a_gpu():
    for name in NAMES:
        takes = inspect.signature(getattr(torch.optim, name)).parameters
        for flags in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": True}):
            # these ask for a real device before they make their state
            real = name == "Rprop" or (name in ("Adagrad", "SGD") and "fused" in flags)
            if not real and flags.keys() <= takes.keys() and name not in ("LBFGS", "SparseAdam"):
                yield name, flags


@pytest.mark.parametrize(("name", "flags"), list(on_a_gpu()))
def test_state_and_counters_are_on_the_devices_where_torch_puts_them(name, flags):
    """Fake tensors on a GPU: torch's own code makes the state, and no GPU is needed."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        one = nn.Parameter(torch.empty(8, 6, device="cuda"))
        optimizer = getattr(torch.optim, name)([one], **flags)
        one.grad = torch.empty(8, 6, device="cuda")
        # ASGD and Adafactor read a value, and a capturable ASGD asks for a driver, after the state was made
        with contextlib.suppress(DataDependentOutputException, RuntimeError):
            optimizer.step()
        made = [value for state in optimizer.state.values() for value in state.values()]
        sizes = {"cpu": 0, "cuda": 0}
        for value in made:
            sizes[value.device.type] += value.nbytes
    kind = "fused" if flags.get("fused") else "default"
    args = {key: value for key, value in flags.items() if key == "capturable"}
    spec = spec_of(name, args, "fp32", kind)
    found = replace(
        CUDA_INVENTORY,
        unique_parameters=48,
        trainable_parameters=48,
        tensors=1,
        dtypes={"float32": 48},
        shapes={"8x6 float32": 1},
    )
    row = declared(spec, found, situation(spec, "cuda"))["optimizer_state"]
    assert (row.bytes, 4 * (counters_away(spec, found, "cuda") or 0)) == (sizes["cuda"], sizes["cpu"])


def test_asgd_has_its_counters_on_the_device_and_adafactor_on_the_host():
    asgd = replace(
        CUDA_SPEC, workload=replace(CUDA_SPEC.workload, optimizer=OptimizerSpec("torch.optim.ASGD"))
    )
    row = declared(asgd, CUDA_INVENTORY, situation(asgd, "cuda"))["optimizer_state"]
    assert (row.bytes, row.text) == (497_759_232 + 3 * 148 * 4, "124,439,808 x 4 B + 444 x 4 B")
    assert counter_note(asgd, CUDA_INVENTORY, "cuda") is None
    factored = replace(
        CUDA_SPEC, workload=replace(CUDA_SPEC.workload, optimizer=OptimizerSpec("torch.optim.Adafactor"))
    )
    assert counter_note(factored, CUDA_INVENTORY, "cuda") == "148 step counters (592 B) are on the CPU"


def test_trained_tensors_of_a_mixed_model_are_told_by_their_shapes():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].to(torch.bfloat16).requires_grad_(False)
    found, spec = counted(model), spec_of("AdamW", {}, "fp32")
    rows = declared(spec, found, situation(spec))
    assert (rows["weights"].bytes, rows["gradients"].bytes) == (15 * 2 + 8 * 4, 8 * 4)
    assert rows["optimizer_state"].bytes == 8 * 8 + 2 * 4
    old = replace(found, shapes={})
    assert declared(spec, old, situation(spec))["gradients"].bytes is None
