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
