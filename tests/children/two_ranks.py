"""A small model trained by ranks that divide it: the same lines as a real rank over gloo and as a predicted one.

As a program: ``two_ranks.py RANK RANKS STORE OUT`` writes {strategy: {"peaks": {phase: requested bytes}}} to OUT.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

TOKENS, WIDTH, LAYERS, BATCH, LENGTH = 301, 66, 4, 4, 32
"""Odd, so that rows do not divide by the ranks."""


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    return tokens, torch.zeros(BATCH, LENGTH, dtype=torch.int64)


def train(model: nn.Module, mark: Callable[[str], None], *, iterations: int = 4) -> Any:
    """Iterations of which ``mark`` is told every phase; returns the optimizer, whose state lives on."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens, labels = batch()
    for index in range(iterations):
        optimizer.zero_grad()
        mark(f"{index}.forward")
        loss = F.cross_entropy(model(tokens).transpose(1, 2), labels)
        mark(f"{index}.backward")
        loss.backward()
        del loss
        mark(f"{index}.step")
        optimizer.step()
    mark("end")
    return optimizer


def peaks(record: Any, marks: list[tuple[int, str]]) -> dict[str, int]:
    """The most requested bytes of every phase, without the copies that gloo reduces: it splits them, and threads of
    its own free them.
    """
    found: dict[str, int] = {}
    level = place = 0
    bounds = [record.event_at(at) for at, _ in marks]
    for (_, phase), last in zip([(0, ""), *marks], bounds, strict=False):
        highest = level
        for _, index, change in record.events[place:last]:
            level += change * (record.allocations[index].op != "split")
            highest = max(highest, level)
        found[phase], place = highest, last
    del found[""]
    return found


def _main(rank: int, ranks: int, store: str, out: str) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    sys.path.insert(0, str(Path(__file__).parents[2]))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
    found = {
        "fsdp2": _sharded(init_device_mesh("cpu", (ranks,))),
        "ddp": _reduced(False),
        "view": _reduced(True),
    }
    Path(out).write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # gloo's threads need not be waited for


def _sharded(mesh: Any) -> dict[str, Any]:
    """By the recorder of predictions on real tensors: the allocator's own record misses what gloo's threads free."""
    from torch.distributed.fsdp import fully_shard

    from tui.probe.predict.fake import FakeMode
    from tui.probe.predict.recorder import Recorder
    from tui.probe.predict.semantics import Semantics

    marks: list[tuple[int, str]] = []
    recorder = Recorder(FakeMode(), Semantics())
    with recorder:
        recorder.observe_in_place()
        model = Net()
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        resize = torch.UntypedStorage.resize_

        def told(storage: Any, size: int) -> Any:
            made = resize(storage, size)
            recorder.resized(storage)
            return made

        torch.UntypedStorage.resize_ = told  # type: ignore[method-assign, assignment]
        kept = train(model, lambda phase: marks.append((recorder.clock(), phase)))
        record = recorder.record()
    del kept
    return {"peaks": peaks(record, marks), "sizes": sizes(record, marks)}


def sizes(record: Any, marks: list[tuple[int, str]]) -> list[int]:
    """Every size that the last iteration allocates, in order.

    Without the copies that gloo reduces, which it splits, and without sums of gradients, which are made in place in
    one run and freed at once in the other.
    """
    first, last = record.event_at(marks[-4][0]), record.event_at(marks[-1][0])
    events = record.events[first:last]
    left_out = ("split", "add")
    return [size for _, index, size in events if size > 0 and record.allocations[index].op not in left_out]


def steady(found: dict[str, int]) -> dict[str, int]:
    """The lowest peak of each phase over the iterations after the first: threads of gloo free late, never early."""
    lowest: dict[str, int] = {}
    for phase, size in found.items():
        index, _, name = phase.partition(".")
        if index != "0":
            lowest[name] = min(size, lowest.get(name, size))
    return lowest


def _reduced(view: bool) -> dict[str, Any]:
    """By the allocator's own record: buckets are made where no operator is."""
    import time

    from torch.nn.parallel import DistributedDataParallel

    from tui.probe.record_cpu import CpuRecorder

    marks: list[tuple[int, str]] = []
    recorder = CpuRecorder()
    recorder.start()
    model = DistributedDataParallel(Net(), gradient_as_bucket_view=view)
    kept = train(model, lambda phase: marks.append((time.time_ns(), phase)))
    record = recorder.stop()
    del kept
    return {"peaks": peaks(record, marks)}


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5])
