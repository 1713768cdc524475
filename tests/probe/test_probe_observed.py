"""The batch that the model saw, validation that runs out of memory, and token weights of unequal micro-batches."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch
from torch import nn

from probe.helpers import DECODER, Events, plan, run_here
from tui.probe.faults import TaskError
from tui.probe.observed import NOT_CALLED, Observed
from tui.probe.protocol import ReadingTaken
from tui.probe.session import Session

WORK = """
import torch
from torch import nn

def build():
    return nn.Linear(4, 2)

def batch(n):
    return torch.ones(n, 4)
"""


def observed(batch, *calls, micro=4):
    """What is seen when ``calls`` are the model's inputs for one micro-batch."""
    model = nn.Identity()
    seen = Observed(model, micro)
    seen.placed(batch)
    for one in calls:
        model(one)
    return seen.stop()


def test_the_whole_batch_counts_in_one_call_in_parts_time_first_and_reshaped():
    batch = torch.ones(4, 6)
    assert observed(batch, batch) == (4, "")
    assert observed(batch, batch[:2], batch[2:]) == (4, "")
    assert observed(batch, batch.T) == (4, "")
    assert observed(batch, batch.reshape(2, 12)) == (4, "")


def test_fewer_samples_than_asked_are_counted_and_more_rows_are_not_a_number_of_samples():
    batch = torch.ones(4, 6)
    assert observed(batch, batch[:3]) == (3, "")
    assert observed(torch.ones(4, 6), torch.ones(12, 6)) == (None, "the model gets 12 rows for 4 samples")
    assert observed(batch) == (None, NOT_CALLED)


def test_only_the_first_micro_batch_is_looked_at():
    model = nn.Identity()
    seen = Observed(model, 4)
    for size in (4, 2):
        seen.placed(torch.ones(size, 6))
        model(torch.ones(size, 6))
    assert seen.stop() == (4, "")
    assert seen.batch_bytes == 4 * 6 * 4


def test_a_timed_run_says_what_its_model_got(tmp_path):
    table = run_here(
        "timed", source="decoder", args=DECODER, micro=3, length=8, iterations=2, warmup=2
    ).table("timed")
    assert (table["observed_batch"], table["validation_batch"]) == (3, 3)
    (tmp_path / "work.py").write_text(WORK + "\ndef loss(model, batch):\n    return model(batch[:1]).sum()\n")
    table = run_here("timed", source="work.py", folder=tmp_path, micro=3, iterations=2, warmup=2).table(
        "timed"
    )
    assert table["observed_batch"] == 1


def test_a_loader_of_ten_samples_cannot_give_sixteen(tmp_path):
    """As a DataLoader does: it yields what it has, and 16 never reaches the model."""
    loading = (
        "from torch.utils.data import DataLoader, TensorDataset\n\ndef batch(n):\n"
        "    return next(iter(DataLoader(TensorDataset(torch.ones(10, 4)), batch_size=n)))[0]\n"
    )
    (tmp_path / "work.py").write_text(WORK + loading)
    with pytest.raises(TaskError, match="gave 10 samples") as found:
        run_here("timed", source="work.py", folder=tmp_path, micro=16)
    assert found.value.details == {"observed_batch": 10}


COUNTED = """
import gc

COUNTS = []

def loss(model, batch):
    COUNTS.append(sum(type(one) is torch.Tensor and one.dim() == 0 for one in gc.get_objects()))
    return model(batch).sum()
"""


def test_losses_of_timed_iterations_do_not_stay_in_the_heap(tmp_path):
    """On the CPU a block kept between two iterations' blocks keeps the heap from using their place again."""
    (tmp_path / "work.py").write_text(WORK + COUNTED)
    table = run_here("timed", source="work.py", folder=tmp_path, iterations=12, warmup=2).table("timed")
    counts = sys.modules["work"].COUNTS[3:15]
    assert len(table["losses"]) == len(counts) == 12
    assert counts[-1] == counts[1]


FULL = """
def loss(model, batch):
    found = model(batch).sum()
    if not model.training and len(batch) > 2:
        x = torch.zeros(1000)
        KEPT.append(weakref.ref(x))
        raise RuntimeError("CUDA out of memory. (simulated)")
    return found
"""


def test_validation_that_runs_out_keeps_what_was_trained_and_fails_in_its_own_phase(tmp_path):
    (tmp_path / "work.py").write_text(WORK + "import weakref\nKEPT = []\n" + FULL)
    events = Events()
    from tui.probe.tasks import timed

    made = plan("timed", "work.py", folder=tmp_path, micro=4, iterations=2, warmup=2)
    with pytest.raises(TaskError, match="out of memory"):
        timed.run(made, events)
    assert events.phase == "validate"
    assert len(events.table("timed")["step_ms"]) == 2
    assert any(isinstance(one, ReadingTaken) and one.name == "process" for one in events)
    smaller = plan("timed", "work.py", folder=tmp_path, micro=4, iterations=2, warmup=2)
    smaller.extra = {"validation_micro": 2, "validation_batches": 2}
    events = Events()
    timed.run(smaller, events)
    assert (events.table("timed")["validation_batch"], events.table("timed")["observed_batch"]) == (2, 4)


def test_what_a_failed_validation_held_is_gone_once_its_handler_has_ended(tmp_path):
    """While an exception is alive its frames keep their tensors, whatever is collected."""
    import sys

    from tui.probe.tasks import timed
    from tui.probe.tasks.timed import PhaseReadings

    (tmp_path / "work.py").write_text(WORK + "import weakref\nKEPT = []\n" + FULL)
    made = plan("timed", "work.py", folder=tmp_path, micro=4)
    session = Session(made, Events())
    model = sys.modules["work"]
    with pytest.raises(RuntimeError) as raised:
        session.validate()
    gc.collect()
    assert model.KEPT[0]() is not None
    assert raised.value.__traceback__ is not None
    error = timed._validate(session, made, PhaseReadings(session.device, Events()))
    assert "out of memory" in str(error)
    gc.collect()
    assert isinstance(model.KEPT[1], weakref.ref)
    assert model.KEPT[1]() is None
    assert session.model.training


def test_ten_and_a_hundred_labels_weigh_as_many_as_they_are(tmp_path):
    """Mean losses of 2.0 and 1.0 over 10 and 100 labels: 120/110, where the mean of means is 1.5."""
    text = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
    def forward(self, value):
        return self.scale * value

def build():
    return Model()

def batch(n, index):
    labels = torch.full((n, 100), -100)
    labels[:, : (10, 100)[index % 2]] = 1
    return {"value": torch.full((n,), (2.0, 1.0)[index % 2]), "labels": labels}

def loss(model, batch):
    return model(batch["value"]).mean()
"""
    (tmp_path / "work.py").write_text(text)
    found = {}
    for weight_by in ("tokens", "micro-batch"):
        made = Session(
            plan(
                "timed",
                "work.py",
                folder=tmp_path,
                micro=1,
                accumulate=2,
                tokens="labels",
                weight_by=weight_by,
            ),
            Events(),
        )
        found[weight_by] = float(made.iterate())
        assert float(made.model.scale.grad) == pytest.approx(found[weight_by], abs=1e-6)
    assert found["tokens"] == pytest.approx(120 / 110, abs=1e-6)
    assert found["micro-batch"] == pytest.approx(1.5)
