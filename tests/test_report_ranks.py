"""The ledgers of several ranks as text and as JSON, and the placements that ranks are measured in."""

from dataclasses import replace
from pathlib import Path

import pytest
from project_samples import USER
from sample_project import CUDA, CUDA_SPEC, MIB, PROBE

from tui.engine import device as devices
from tui.engine import host
from tui.engine.device import Device
from tui.engine.steps import placing, ranks
from tui.errors import RunError
from tui.project.load import parse
from tui.project.measured import RankPeak
from tui.project.model import PlacementSpec
from tui.report.documents_ranks import ranks_document
from tui.report.figures import unit_for
from tui.report.json_values import Missing
from tui.report.text_ranks import rank_lines

SPEC = replace(CUDA_SPEC, placement=PlacementSpec(ranks=2, strategy="ddp"))


def lines(count, width=80):
    probe = CUDA.probe[PROBE]
    peaks = {
        str(rank): RankPeak("backward", (40 + (rank == count - 1)) * MIB, {"weights": 40 * MIB})
        for rank in range(count)
    }
    probe = replace(probe, ranks=peaks)
    measured = replace(CUDA, probe={**CUDA.probe, PROBE: probe})
    return rank_lines(SPEC, measured, PROBE, unit_for(MIB), 10, width), probe


def test_each_rank_is_a_column_beside_what_is_declared():
    said, _ = lines(2)
    assert said[0] == "ranks     2 x ddp, the worst phase of each (MiB)"
    assert said[1].split() == ["declared", "rank", "0", "rank", "1"]
    assert said[2].split() == ["weights", "474.70", "40.00", "40.00"]
    assert said[-2].split() == ["=", "requested", "40.00", "41.00"]


def test_ranks_without_room_are_counted_and_the_fullest_one_is_shown():
    said, _ = lines(8)
    assert said[0].endswith("(MiB), 5 more with --json")
    assert said[1].split() == ["declared", "rank", "0", "rank", "1", "rank", "7"]
    assert max(len(line) for line in said) <= 80


def test_one_rank_has_no_table_of_ranks():
    assert lines(0)[0] == []
    assert ranks_document(CUDA.probe[PROBE]) == Missing("one rank was measured")


def test_the_document_has_every_rank_in_the_order_of_numbers():
    document = ranks_document(lines(11)[1])
    assert isinstance(document, list)
    assert [one["rank"] for one in document] == list(range(11))
    assert document[10]["rows"]["weights"] == 40 * MIB
    assert document[10]["rows"]["gradients"] == 0


CPU = Device("cpu", "cpu", "CPU", 8 << 30)
GPU = Device("cuda", "GPU-1f0c", "H100", 80 << 30)


def project(text):
    return parse(Path("gpt.toml"), (USER + f"[placement]\n{text}\n").encode())


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_as_many_ranks_as_processors_are_measured(strategy, monkeypatch):
    monkeypatch.setattr(host, "cpus_allowed", lambda: 2)
    placing.refuse(project(f'ranks = 2\nstrategy = "{strategy}"'), CPU, several=True)
    with pytest.raises(RunError, match="3 ranks, one process each, and there are 2 processors") as caught:
        placing.refuse(project(f'ranks = 3\nstrategy = "{strategy}"'), CPU, several=True)
    assert "gpt.toml:" in str(caught.value)


def test_as_many_ranks_as_gpus_are_measured(monkeypatch):
    monkeypatch.setattr(devices, "ids_beside", lambda device, count: ["GPU-1f0c", "GPU-2a00"][:count])
    placing.refuse(project('ranks = 2\nstrategy = "ddp"'), GPU, several=True)
    assert ranks.told(project('ranks = 2\nstrategy = "ddp"'), GPU)["ranks"]["devices"] == [
        "GPU-1f0c",
        "GPU-2a00",
    ]
    with pytest.raises(RunError, match="and there are 2 GPUs that this job may use"):
        placing.refuse(project('ranks = 4\nstrategy = "ddp"'), GPU, several=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ranks = 2", "ranks that nothing joins are not measured"),
        ('ranks = 2\nstrategy = "zero2"', "zero2 is another library's"),
        ('ranks = 2\nstrategy = "ddp"\ntensor_parallel = 2', "placement.tensor_parallel = 2 is a declared"),
        ('ranks = 2\nstrategy = "fsdp2"\nactivations = "host"', 'placement.activations = "host" is not'),
    ],
)
def test_ranks_that_torch_alone_does_not_join_are_refused_with_the_mend(text, sentence):
    with pytest.raises(RunError) as caught:
        placing.refuse(project(text), CPU, several=True)
    assert sentence in str(caught.value)
    assert caught.value.hint


def test_a_part_of_a_gpu_is_no_rank():
    with pytest.raises(RunError, match="a part of a GPU"):
        placing.refuse(
            project('ranks = 2\nstrategy = "ddp"'), replace(GPU, id="MIG-1", name="slice"), several=True
        )


def test_steps_that_train_one_rank_still_refuse_several():
    with pytest.raises(RunError, match="only one rank can be measured"):
        placing.refuse(project('ranks = 2\nstrategy = "ddp"'), CPU)
