"""What [placement] may say, and the sentence for what it may not."""

from pathlib import Path

import pytest
from project_samples import USER

from tui.errors import ProjectError
from tui.project.load import parse


def load(lines, precision=""):
    return parse(Path("gpt.toml"), f"{USER}[placement]\n{lines}\n{precision}".encode()).spec.placement


def test_every_option_of_a_placement_is_read():
    found = load(
        'ranks = 8\nstrategy = "fsdp2"\nshard_each = ["Block"]\nreshard_after_forward = false\n'
        'param_dtype = "bf16"\nreduce_dtype = "fp32"\ntensor_parallel = 2\npipeline_parallel = 4'
    )
    assert (found.ranks, found.strategy, found.reshard_after_forward) == (8, "fsdp2", False)
    assert (found.param_dtype, found.reduce_dtype) == ("bf16", "fp32")
    assert (found.tensor_parallel, found.pipeline_parallel) == (2, 4)
    assert load('ranks = 2\nstrategy = "ddp"\ngradient_as_bucket_view = true').gradient_as_bucket_view


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3"])
def test_the_stages_of_zero_are_strategies(strategy):
    assert load(f'ranks = 4\nstrategy = "{strategy}"').strategy == strategy


@pytest.mark.parametrize(
    ("lines", "sentence", "hint"),
    [
        ('strategy = "zero4"', "placement.strategy must be none, ddp, zero1, zero2, zero3 or fsdp2", "zero"),
        (
            'strategy = "fsdp2"\ngradient_as_bucket_view = true',
            'placement.gradient_as_bucket_view is an option of ddp or zero1, placement.strategy is "fsdp2"',
            'delete the line, or set strategy = "ddp"',
        ),
        (
            'strategy = "ddp"\nreshard_after_forward = false',
            "placement.reshard_after_forward is an option of fsdp2 or zero3",
            'strategy = "fsdp2"',
        ),
        ('param_dtype = "bf16"', "placement.param_dtype is an option of fsdp2", 'strategy = "fsdp2"'),
        (
            'strategy = "fsdp2"\nparam_dtype = "int8"',
            'placement.param_dtype must be fp32, bf16 or fp16, got "int8"',
            "",
        ),
        ('strategy = "ddp"\nreduce_bucket = 5', "placement.reduce_bucket is an option of zero2 or zero3", ""),
        ("reduce_bucket = 0", "placement.reduce_bucket must be at least 1, got 0", ""),
        ("tensor_parallel = 0", "placement.tensor_parallel must be at least 1, got 0", ""),
        ("pipeline_parallel = -1", "placement.pipeline_parallel must be at least 1, got -1", ""),
        (
            'strategy = "zero2"\nmaster_weights = true',
            "placement.master_weights keeps fp32 copies of weights in bf16 or fp16",
            'precision.use = "bf16"',
        ),
        ("tp_size = 2", "placement.tp_size is not a key here", "tensor_parallel"),
    ],
)
def test_a_placement_that_means_nothing_is_refused_with_its_line(lines, sentence, hint):
    with pytest.raises(ProjectError) as caught:
        load(lines)
    said = f"{caught.value} {caught.value.hint}"
    assert sentence in said
    assert hint in said
    assert caught.value.where.startswith("gpt.toml:")
