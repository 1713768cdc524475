"""Placements that can be measured, and the sentence for each that cannot."""

from pathlib import Path

import pytest
from project_samples import USER

from tui.engine.device import Device
from tui.engine.steps import placing
from tui.errors import RunError
from tui.project.load import parse

GPU = Device("cuda", "GPU-1f0c", "H100", 80 << 30)
CPU = Device("cpu", "cpu", "CPU", 8 << 30)


def project(lines):
    return parse(Path("gpt.toml"), (USER + f"[placement]\n{lines}\n").encode())


def together(where, strategy="fsdp2"):
    return f'strategy = "{strategy}"\nweights = "{where}"\ngradients = "{where}"\noptimizer = "{where}"'


@pytest.mark.parametrize("where", ["host", "host-pinned"])
@pytest.mark.parametrize(
    "lines",
    [
        lambda where: f'activations = "{where}"',
        lambda where: together(where),
        lambda where: together(where) + f'\nactivations = "{where}"',
    ],
)
def test_what_torch_offers_is_measured_on_a_gpu_and_refused_on_a_cpu(where, lines):
    asked = project(lines(where))
    placing.refuse(asked, GPU)
    for device in (CPU, None):
        with pytest.raises(RunError, match="on a CPU device and host are the same memory") as caught:
            placing.refuse(asked, device)
        assert "gpt.toml:" in str(caught.value)


def test_everything_on_the_device_is_measured_anywhere():
    for device in (GPU, CPU, None):
        placing.refuse(project("ranks = 1"), device)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('ranks = 4\nstrategy = "fsdp2"', "placement is 4 ranks with fsdp2; only one rank can be measured"),
        ('strategy = "fsdp2"', "placement is 1 rank with fsdp2, which divides nothing"),
        ('strategy = "fsdp2"\nactivations = "host"', "placement is 1 rank with fsdp2, which divides nothing"),
        ('activations = "disk"', 'placement.activations = "disk" is declared'),
        ('strategy = "fsdp2"\noptimizer = "disk"', 'placement.optimizer = "disk" is declared'),
        (
            'strategy = "fsdp2"\noptimizer = "host"',
            "placement has weights device, gradients device, optimizer host;",
        ),
        (
            together("host").replace('"host"', '"host-pinned"', 1),
            "placement has weights host-pinned, gradients host,",
        ),
        (
            together("host", "none"),
            "weights on the host need strategy = \"fsdp2\", placement.strategy is 'none'",
        ),
        (
            together("host", "ddp"),
            "weights on the host need strategy = \"fsdp2\", placement.strategy is 'ddp'",
        ),
    ],
)
def test_what_torch_does_not_offer_is_refused_in_one_sentence_with_the_mend(lines, sentence):
    with pytest.raises(RunError) as caught:
        placing.refuse(project(lines), GPU)
    said = str(caught.value)
    assert sentence in said
    assert "gpt.toml:" in said
    assert caught.value.hint.startswith("set ")
    assert "\n" not in said


# --- what can be predicted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "kind", "sentence"),
    [
        ('weights = "host"\nstrategy = "fsdp2"', "cuda", "cannot predict: placement.weights = 'host'"),
        ('optimizer = "host-pinned"', "cuda", "cannot predict: placement.optimizer = 'host-pinned'"),
        ('activations = "disk"', "cuda", "cannot predict: placement.activations = 'disk'"),
        ('activations = "host"', "cpu", "on a CPU device and host are the same memory"),
        ("tensor_parallel = 2", "cuda", "placement.tensor_parallel = 2 is a declared divisor"),
        ("pipeline_parallel = 4", "cuda", "placement.pipeline_parallel = 4 is a declared divisor"),
    ],
)
def test_what_no_trace_can_stand_for_is_not_predicted(lines, kind, sentence):
    with pytest.raises(RunError) as caught:
        placing.refuse_predicted(project(lines), kind)
    assert sentence in str(caught.value)
    assert caught.value.where.startswith("gpt.toml:")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ('ranks = 256\nstrategy = "fsdp2"\nshard_each = ["Block"]', "cuda"),
        ('ranks = 2\nstrategy = "ddp"', "cpu"),
        ('activations = "host-pinned"', "cuda"),
        ('ranks = 8\nstrategy = "zero2"', "cuda"),
    ],
)
def test_many_ranks_and_activations_on_the_host_are_predicted(lines, kind):
    placing.refuse_predicted(project(lines), kind)


def test_a_prediction_is_told_the_placement_and_the_options_that_are_said():
    found = project('ranks = 8\nstrategy = "fsdp2"\nshard_each = ["Block"]\nparam_dtype = "bf16"')
    assert placing.predicted(found.spec.placement) == {
        "ranks": 8,
        "strategy": "fsdp2",
        "shard_each": ["Block"],
        "options": {"param_dtype": "bf16"},
    }
