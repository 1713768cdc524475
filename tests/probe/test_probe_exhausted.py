"""An out-of-memory as a result: the instant, what was alive, and the figures of the allocator."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from memory_records import MIB, Recorder, event, snapshot

from probe.helpers import Events, plan
from tui.probe import exhausted, record_cuda, tasks
from tui.probe.allocations import Record
from tui.probe.allocator import CachingAllocator, OutOfMemory
from tui.probe.device import exhaustion, open_device
from tui.probe.faults import TaskError

ASKED = 1 << 52
FAILS = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__(); self.up = nn.Linear(64, 256); self.down = nn.Linear(256, 64)
    def forward(self, x):
        y = self.down(torch.relu(self.up(x)))
        if fails(x): torch.empty({asked} // 4)
        return y
calls = 0
def fails(x):
    global calls
    calls += 1
    return x.shape[0] > 40 and calls >= {first}
def build(): return nn.Sequential(Block(), Block())
def batch(n): return (torch.randn(n, 64),)
def loss(model, batch): return model(batch[0]).pow(2).mean()
"""


def run_out(folder, task="traced", text=None, **more):
    """The error of a task whose workload asks for more than any machine has."""
    first, asked = more.pop("first", 0), more.pop("asked", ASKED)
    (folder / "work.py").write_text(
        (text or FAILS).replace("{asked}", str(asked)).replace("{first}", str(first))
    )
    with pytest.raises(TaskError) as caught:
        tasks.run(plan(task, source="work.py", folder=folder, micro=48, **more), Events())
    return caught.value


def test_the_first_iteration_is_labelled_although_it_ran_out(tmp_path):
    error = run_out(tmp_path)
    found = error.details
    assert (error.kind, error.where) == ("out-of-memory", "work.py:9")
    assert (found["phase"], found["iteration"], found["micro"], found["asked_bytes"]) == (
        "forward",
        0,
        0,
        ASKED,
    )
    # Linear(64, 256) and back, twice, in fp32; relu's 48 x 256 is kept for down's gradient, 48 x 64 is its result.
    weights = 2 * 4 * (64 * 256 + 256 + 256 * 64 + 64)
    assert found["alive"] == {
        "weights": weights,
        "retained_activations": 48 * 320 * 4,
        "input_batch": 48 * 64 * 4,
    }
    assert sum(found["alive"].values()) == sum(found["alive_modules"].values()) == found["requested_bytes"]
    assert found["alive_modules"]["0"] == 48 * 256 * 4
    assert "48x256 float32, relu in 0" in found["alive_top"]
    assert (found["operator"], found["module"]) == ("empty", "0")
    assert found["alive_source"] == "the first iteration, begun once more under the tracker"


def test_a_later_iteration_keeps_the_labels_of_the_tracked_one(tmp_path):
    found = run_out(tmp_path, first=5).details  # two blocks an iteration: the fifth call is in the third
    assert (found["phase"], found["iteration"]) == ("forward", 2)
    assert found["alive_source"] == "the labelled iteration"
    survived = found["survived"]
    assert {"build", "first.forward", "first.backward", "first.step"} <= set(survived)
    assert sum(survived["first.step"]["alive"].values()) == survived["first.step"]["requested_bytes"]
    moments = 2 * 2 * 4 * (64 * 256 + 256 + 256 * 64 + 64) + 8 * 4  # AdamW: two a weight, and a step a tensor
    assert found["alive"]["optimizer_state"] == moments
    assert found["alive"]["retained_activations"] == 48 * 320 * 4
    assert sum(found["alive"].values()) == found["requested_bytes"]


def test_memory_that_runs_out_while_the_model_is_built_finds_its_weights(tmp_path):
    text = """
import torch
def build():
    made = torch.nn.Linear(1000, 100)
    return torch.nn.Sequential(made, torch.nn.Linear({asked} // 4, 1))
def batch(n): return (torch.randn(n, 8),)
"""
    found = run_out(tmp_path, text=text).details
    assert (found["phase"], found.get("iteration")) == ("build", None)
    assert found["alive"]["weights"] == 4 * 1000 * 100 + 4 * 100
    assert found["asked_bytes"] >= ASKED


@pytest.mark.parametrize("task", ["traced", "timed"])
def test_a_batch_that_cannot_be_made_is_told_as_no_phase_of_the_iteration(tmp_path, task):
    text = """
import torch
def build(): return torch.nn.Linear(8, 8)
def batch(n): return torch.empty({asked} // 4)
"""
    found = run_out(tmp_path, task, text=text).details
    assert (found["phase"], found["asked_bytes"]) == ("batch", ASKED)


def test_the_tensors_that_were_in_the_way_are_gone_once_the_handler_has_ended(tmp_path):
    held = []

    def work():
        big = torch.zeros(1000, 1000)
        held.append(weakref.ref(big))
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    alive = []

    def look():
        gc.collect()
        alive.append(held[0]() is not None)

    done, caught = exhausted.attempt(work, exhaustion.CpuWatch(), plan("traced"), open_device("cpu"), look)
    assert (done, alive, held[0]()) == (None, [True], None)
    assert caught.details["asked_bytes"] == 20 * MIB


def test_an_error_of_another_kind_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        exhausted.attempt(lambda: 1 // 0, exhaustion.CpuWatch(), plan("traced"), open_device("cpu"))


@pytest.mark.parametrize(
    ("error", "limit", "counts"),
    [
        (MemoryError(), None, True),
        (RuntimeError("std::bad_alloc"), None, True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), 1, False),
        (SystemError("error return without exception set"), 1, True),
        (SystemError("error return without exception set"), None, False),
        (ImportError("libx.so: failed to map segment from shared object"), 1, True),
        (ImportError("libx.so: failed to map segment from shared object"), None, False),
        (ImportError("cannot import name 'x'"), 1, False),
        (ModuleNotFoundError("No module named 'x': cannot allocate memory"), 1, False),
        (TaskError("workload", "std::bad_alloc"), 1, False),
    ],
)
def test_what_counts_as_out_of_memory_depends_on_whether_a_limit_holds(error, limit, counts):
    assert exhausted.is_exhaustion(error, limit is not None) is counts


def test_a_failure_lies_between_the_events_that_were_before_and_after_it():
    rows = [(10, 1, 64, "mm", None), (20, 2, 32, "mm", None), (30, 2, -32, "", None), (40, 0, 0, "add", None)]
    record = Record([*rows, (41, 1, -64, "", None), (60, 3, 8, "again", None)])
    assert record.failed_before(50) == (3, 40, "add")
    assert [record.allocations[one].nbytes for one in record.alive_after(3 - 1)] == [64]
    assert len(record.events) == 5  # a failure is no event
    assert Record(rows[:3]).failed_before(50)[0] == 2  # nothing was told: what the last birth saw
    assert Record([]).failed_before(50)[0] == 0


def fragmented(capacity):
    """A recorder whose allocator has six free blocks of 20 MiB between kept ones, and runs out of ``capacity``."""
    recorder = Recorder()
    recorder.allocator = CachingAllocator(capacity, recorder._place)
    recorder.begin()
    recorder.malloc(0, 180 * MIB)
    recorder.free(0)
    for number in range(1, 7):
        recorder.malloc(number, 20 * MIB)
        recorder.malloc(10 + number, 9 * MIB)
    for number in range(1, 7):
        recorder.free(number)
    return recorder


def test_the_history_knows_the_free_blocks_at_the_failed_allocation():
    recorder = fragmented(200 * MIB)
    with pytest.raises(OutOfMemory) as caught:
        recorder.malloc(99, 64 * MIB)
    wanted = caught.value
    recorder.events.append(event("oom", 20 * MIB, 64 * MIB, us=len(recorder.events)))
    recorder.free(11)  # what unwinding frees afterwards is none of it
    recorder.free(12)
    found = record_cuda.at_failure(recorder.snapshot(), 0)
    assert found == {
        "asked_bytes": 64 * MIB,
        "device_free_bytes": 20 * MIB,
        "reserved_bytes": wanted.reserved,
        "allocated_bytes": wanted.allocated,
        "largest_free_block_bytes": wanted.largest_free_block,
        "free_blocks_bytes": wanted.free_sum,
    }
    assert (found["largest_free_block_bytes"], found["free_blocks_bytes"]) == (20 * MIB, 126 * MIB)


def test_what_unwinding_frees_in_the_same_microsecond_was_alive_at_the_failure():
    recorder = fragmented(None)
    for one in recorder.events:
        one["time_us"] = 7
    alive = sum(
        one.nbytes
        for one in record_cuda.from_snapshot(recorder.snapshot(), 0).allocations
        if one.died is None
    )
    recorder.events.append(event("oom", 20 * MIB, 64 * MIB, us=7))
    recorder.free(11)
    recorder.events[-1]["time_us"] = recorder.events[-2]["time_us"] = 7
    record = record_cuda.from_snapshot(recorder.snapshot(), 0)
    failed = record.failed_before(10**9)
    held = [record.allocations[one].nbytes for one in record.alive_after(failed.event - 1)]
    assert sum(held) == alive == 54 * MIB


def test_a_history_without_a_failure_or_of_other_rules_says_nothing_of_free_blocks():
    recorder = fragmented(None)
    assert record_cuda.at_failure(recorder.snapshot(), 0) == {}
    recorder.events.append(event("oom", 0, MIB, us=99))
    other = recorder.snapshot()
    other["allocator_settings"]["expandable_segments"] = True
    assert "largest_free_block_bytes" not in record_cuda.at_failure(other, 0)
    assert record_cuda.at_failure(snapshot([], []), 0) == {}


@pytest.fixture
def cuda(monkeypatch):
    """A stand-in for the parts of ``torch.cuda`` that the watch uses, and for the hook that torch tells it by."""
    made = SimpleNamespace(observers=[], segments=fragmented(200 * MIB).snapshot()["segments"])
    stats = {"reserved_bytes.all.current": 180 * MIB, "allocated_bytes.all.current": 54 * MIB}
    found = SimpleNamespace(
        memory_stats=lambda index: stats,
        memory_snapshot=lambda include_traces=True: made.segments,
        mem_get_info=lambda index: (1 << 30, 4 << 30),
    )
    monkeypatch.setattr(exhaustion.torch, "cuda", found)
    attach = made.observers.append
    monkeypatch.setattr(exhaustion.torch._C, "_cuda_attach_out_of_memory_observer", attach, raising=False)
    made.cuda = found
    return made


CUDA_TEXT = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 4.00 GiB of which 2.35 GiB is "
    "free. Including non-PyTorch memory, this process has 1.65 GiB memory in use. Of the allocated memory "
    "825.15 MiB is allocated by PyTorch, and 24.85 MiB is reserved by PyTorch but unallocated."
)


def test_the_allocator_tells_its_figures_before_anything_is_unwound(cuda):
    watch = exhaustion.watch(SimpleNamespace(kind="cuda", index=0))
    (tell,) = cuda.observers
    tell(1, 8, 9, 10)  # another device
    tell(0, 64 * MIB, 4 << 30, 12 * MIB)
    found = watch.read(torch.OutOfMemoryError(CUDA_TEXT))
    assert (found["segment_bytes"], found["device_free_bytes"]) == (64 * MIB, 12 * MIB)
    assert (found["reserved_bytes"], found["allocated_bytes"]) == (180 * MIB, 54 * MIB)
    assert (found["largest_free_block_bytes"], found["free_blocks_bytes"]) == (20 * MIB, 126 * MIB)
    assert (found["device_total_bytes"], found["numbers_source"]) == (4 << 30, "the allocator's observer")


def test_a_torch_without_that_hook_leaves_the_figures_of_the_errors_text(cuda, monkeypatch):
    monkeypatch.delattr(exhaustion.torch._C, "_cuda_attach_out_of_memory_observer")
    found = exhaustion.watch(SimpleNamespace(kind="cuda", index=0)).read(torch.OutOfMemoryError(CUDA_TEXT))
    assert (found["asked_bytes"], round(found["device_free_bytes"] / 2**30, 2)) == (20 * MIB, 2.35)
    assert round(found["free_blocks_bytes"] / MIB, 2) == 24.85
    assert found["reserved_bytes"] == found["allocated_bytes"] + found["free_blocks_bytes"]
    assert "largest_free_block_bytes" not in found


def test_host_memory_that_runs_out_beside_a_gpu_is_the_hosts(cuda):
    watch = exhaustion.watch(SimpleNamespace(kind="cuda", index=0))
    assert watch.read(MemoryError())["place"] == "host"


def test_an_observer_that_cannot_read_hides_no_error(cuda):
    cuda.cuda.memory_stats = lambda index: 1 // 0
    watch = exhaustion.watch(SimpleNamespace(kind="cuda", index=0))
    cuda.observers[0](0, 64 * MIB, 4 << 30, 12 * MIB)
    assert watch.seen["device_free_bytes"] == 12 * MIB
    assert watch.seen["numbers_source"].endswith("in part: ZeroDivisionError")


def test_a_small_request_is_held_against_the_blocks_of_its_own_pool(cuda):
    small = {"device": 0, "segment_type": "small", "blocks": [{"state": "inactive", "size": 4096}]}
    assert exhaustion.free_blocks([*cuda.segments, small], 0, True) == (4096, 126 * MIB + 4096)
    assert exhaustion.free_blocks([*cuda.segments, small], 0, False) == (20 * MIB, 126 * MIB + 4096)
    assert exhaustion.free_blocks(cuda.segments, 1, False) == (0, 0)
