"""The host's ledger: what rests there, what pinning locks, what the loader keeps ready."""

from dataclasses import replace

import pytest
from sample_project import CPU_INVENTORY, CPU_SPEC, CUDA, CUDA_INVENTORY, CUDA_PROBE, CUDA_SPEC

from tui.budget.declared import declared, situation
from tui.budget.host_ledger import host_ledger
from tui.project.measured import Measured, Reading
from tui.project.model import HostSpec, LedgerSpec, OptimizerSpec, PlacementSpec

MIB = 2**20
PINNED = PlacementSpec(weights="host-pinned", gradients="host-pinned", optimizer="host-pinned")
# two layers: 3 MiB and 1,000 B of weights as fp32
SMALL = replace(
    CUDA_INVENTORY,
    unique_parameters=786_432 + 250,
    trainable_parameters=786_432 + 250,
    tensors=2,
    dtypes={"float32": 786_682},
    shapes={"1024x768 float32": 1, "250 float32": 1},
)


def by_key(spec, measured=CUDA, probe=CUDA_PROBE, **more):
    return {row.key: row for row in host_ledger(spec, measured, probe, **more)}


def of(placement, **more):
    return replace(CUDA_SPEC, placement=placement, **more)


def with_inventory(inventory):
    return replace(CUDA, inventory=inventory)


def test_a_model_on_the_device_has_only_its_step_counters_on_the_host():
    assert [(row.key, row.declared, row.declared_as) for row in host_ledger(CUDA_SPEC, CUDA, CUDA_PROBE)] == [
        ("step_counters", 592, "148 x 4 B")
    ]
    fused = replace(
        CUDA_SPEC, workload=replace(CUDA_SPEC.workload, optimizer=OptimizerSpec(implementation="fused"))
    )
    assert host_ledger(fused, CUDA, CUDA_PROBE) == ()
    assert host_ledger(CPU_SPEC, Measured(inventory=CPU_INVENTORY)) == ()


def test_offloaded_state_is_declared_with_its_arithmetic_beside_what_was_read():
    read = {
        "host_weights": Reading(497_759_232, "tensors after the last iteration, all pinned", "", "steady")
    }
    found = by_key(of(PINNED), probe=replace(CUDA_PROBE, readings={**CUDA_PROBE.readings, **read}))
    weights = found["host_weights"]
    assert (weights.label, weights.declared) == ("weights, pinned", 497_759_232)
    assert (weights.declared_as, weights.measured) == ("124,439,808 x 4 B", 497_759_232)
    assert weights.origin == "tensors after the last iteration, all pinned"
    state = found["host_optimizer"]
    # torch.optim makes it by zeros_like, which pins nothing
    assert (state.label, state.declared) == ("optimizer state, pageable", 995_518_464 + 592)
    assert (
        declared(of(PINNED), CUDA_INVENTORY, situation(CUDA_SPEC, "cuda"))["optimizer_state"].residence
        == "host"
    )
    flat = by_key(of(replace(PINNED, ranks=2, strategy="zero1")))
    assert flat["host_optimizer"].label == "optimizer state, pinned"
    assert flat["pinned"].declared == 2**29 + 2**29 + 2**29  # one flat buffer a row
    assert (state.measured, state.reasons) == (None, {"measured": "no reading tells it apart"})
    assert "step_counters" not in found  # they are in the state's row


def test_a_byte_is_on_the_device_or_on_the_host():
    for place in (PINNED, PlacementSpec(weights="host", gradients="disk"), PlacementSpec(optimizer="host")):
        whole = declared(of(PlacementSpec()), CUDA_INVENTORY, situation(CUDA_SPEC, "cuda"))
        here = declared(of(place), CUDA_INVENTORY, situation(CUDA_SPEC, "cuda"))
        away = {row.key.partition("_")[2]: row.declared for row in host_ledger(of(place), CUDA, CUDA_PROBE)}
        for key in ("weights", "gradients"):
            assert here[key].bytes + away.get(key, 0) == whole[key].bytes
        counters = away.get("counters", 0)
        assert here["optimizer_state"].bytes + away.get("optimizer", 0) + counters == 995_518_464 + 592


def test_each_pinned_buffer_is_rounded_up_to_a_power_of_two_by_itself():
    found = by_key(of(PINNED), with_inventory(SMALL))
    # weights and gradients: 3 MiB locks 4, and 1,000 B lock 1,024; moments are made by zeros_like, which pins nothing
    assert found["pinned"].declared == 2 * (4 * MIB + 1024)
    assert found["pinned_rounding"].declared == 2 * (MIB + 24)
    assert found["pinned"].declared_as == "4 buffers, each rounded up to a power of two"


def test_the_allocators_threshold_leaves_larger_requests_as_they_are():
    place = replace(CUDA.environment["e-7c1f"], allocator="pinned_max_round_threshold_mb:1")
    found = by_key(of(PINNED), replace(with_inventory(SMALL), environment={"e-7c1f": place}))
    assert found["pinned_rounding"].declared == 2 * 24


def test_rows_of_a_rank_are_pinned_with_their_padding():
    place = replace(PINNED, ranks=2, strategy="fsdp2")
    odd = replace(
        SMALL,
        unique_parameters=2500,
        trainable_parameters=2500,
        tensors=1,
        dtypes={"float32": 2500},
        shapes={"5x500 float32": 1},
        ranks=2,
        rank_parameters=1500,
    )
    found = by_key(of(place), with_inventory(odd))
    assert found["host_weights"].declared == 6000
    assert found["pinned"].declared == 2 * 8192


def test_what_is_locked_is_unknown_without_the_shapes_and_says_how_to_get_them():
    found = by_key(of(PINNED))
    for key in ("pinned", "pinned_rounding"):
        assert found[key].declared is None
        assert "peakmark params" in found[key].reasons["declared"]


def test_the_loader_keeps_workers_times_prefetch_batches():
    said = LedgerSpec(host=HostSpec(workers=8, prefetch=2, pin_memory=True))
    found = by_key(replace(CUDA_SPEC, ledger=said))
    ready = found["loader_batches"]
    assert (ready.declared, ready.declared_as) == (16 * 131_072, "131,072 B x 8 workers x 2")
    assert found["pinned_batch"].declared == 131_072
    step = by_key(replace(CUDA_SPEC, ledger=said), at=situation(CUDA_SPEC, "cuda", "step"))
    assert step["loader_batches"].declared == 16 * 131_072  # also while no batch is on the device
    alone = replace(CUDA_SPEC, ledger=LedgerSpec(host=HostSpec(workers=0)))
    assert by_key(alone)["loader_batches"].declared == 131_072
    own = replace(CUDA_SPEC, ledger=said, workload=replace(CUDA_SPEC.workload, source="workload.py"))
    assert by_key(own)["loader_batches"].reasons["declared"] == "the workload makes its own batch"
    entered = replace(own, ledger=replace(said, input_batch=1000))
    assert by_key(entered)["loader_batches"].declared == 16_000


def test_workers_that_were_not_entered_are_not_guessed():
    found = by_key(replace(CUDA_SPEC, ledger=LedgerSpec(host=HostSpec(pin_memory=True))))
    assert found["loader_batches"].reasons["declared"] == "not entered: [ledger.host] workers"


def test_a_state_on_disk_is_named_so_and_is_not_locked():
    found = by_key(of(PlacementSpec(optimizer="disk")))
    assert found["disk_optimizer"].label == "optimizer state, on disk"
    assert "pinned" not in found


def test_entered_activations_that_are_offloaded_are_on_the_host_alone():
    place = PlacementSpec(activations="host-pinned")
    spec = of(place, ledger=LedgerSpec(retained_activations=3 * MIB))
    row = declared(spec, CUDA_INVENTORY, situation(spec, "cuda"))["retained_activations"]
    assert (row.bytes, row.away, row.text) == (0, 3 * MIB, "pinned on the host: entered")
    saved = by_key(spec)["host_activations"]
    assert (saved.label, saved.declared, saved.declared_as) == ("saved tensors, pinned", 3 * MIB, "entered")
    assert by_key(of(place))["host_activations"].reasons["declared"] == "no formula gives it"


def test_every_column_has_bytes_or_a_reason():
    said = LedgerSpec(host=HostSpec(workers=2, pin_memory=True))
    for place in (PINNED, replace(PINNED, activations="host"), PlacementSpec(optimizer="disk")):
        for measured, probe in ((CUDA, CUDA_PROBE), (Measured(), None), (with_inventory(SMALL), None)):
            for row in host_ledger(of(place, ledger=said), measured, probe):
                assert (row.declared is None) == ("declared" in row.reasons), row
                assert (row.measured is None) == ("measured" in row.reasons), row


def test_the_rows_of_a_model_in_main_memory_are_the_storages_that_torch_keeps():
    torch = pytest.importorskip("torch")
    from torch import nn

    from tui.probe import inventory
    from tui.project.inventory import Inventory

    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2))
    taken = Inventory("sha256:00000000", **inventory.take(model))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    model(torch.ones(3, 6)).sum().backward()
    optimizer.step()
    place = PlacementSpec(weights="host", gradients="host", optimizer="host")
    work = replace(CPU_SPEC.workload, optimizer=OptimizerSpec())
    spec = replace(CPU_SPEC, placement=place, workload=work)
    found = {row.key: row.declared for row in host_ledger(spec, Measured(inventory=taken))}
    held = [one for state in optimizer.state.values() for one in state.values()]
    assert found == {
        "host_weights": sum(one.nbytes for one in model.parameters()),
        "host_gradients": sum(one.grad.nbytes for one in model.parameters()),
        "host_optimizer": sum(one.nbytes for one in held),
    }
