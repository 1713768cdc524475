"""A leak over iterations, and where they begin."""

import pytest

from probe.helpers import run_here

# pytorch/pytorch#1840: a running sum of losses keeps the graph of every iteration; its number does not.
SUMMED = """
import torch
total = 0
def build(): return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
def batch(n): return torch.randn(n, 32)
def loss(model, batch):
    global total
    value = model(batch).pow(2).mean()
    total = total + {kept}
    return value
"""


def traced(folder, text, **more):
    (folder / "work.py").write_text(text)
    return run_here("traced", source="work.py", folder=folder, micro=128, **more).table("traced")


def test_a_sum_of_numbers_leaves_every_iteration_as_it_was(tmp_path):
    found = traced(tmp_path, SUMMED.replace("{kept}", "value.item()"))
    assert (found["growth_bytes"], found["growth_of"]) == (0, {})


def test_a_list_of_outputs_grows_by_its_output_each_time(tmp_path):
    text = SUMMED.replace("total = 0", "total = []").replace(
        "total = total + {kept}", "total.append(batch * 2)"
    )
    found = traced(tmp_path, text)
    assert found["growth_bytes"] == 128 * 32 * 4
    assert found["growth_of"] == {"mul": 128 * 32 * 4}


def test_a_sum_of_losses_grows_by_what_its_graph_keeps(tmp_path):
    text = SUMMED.replace("{kept}", "model(batch).pow(2).mean()")
    found = traced(tmp_path, text)
    # The first layer keeps the batch, tanh its result (the second layer's input), pow the output of one a sample.
    assert found["growth_bytes"] == 4 * 128 * (32 + 64 + 1)
    assert found["growth_of"]["tanh in 1"] == 4 * 128 * 64
    assert sum(found["growth_of"].values()) == found["growth_bytes"]


@pytest.mark.parametrize("iteration", [2, 3])
def test_what_is_made_once_in_a_later_iteration_is_no_growth(tmp_path, iteration):
    text = SUMMED.replace("total = 0", "total, kept = 0, []").replace("{kept}", "1")
    text += f"    if total == {iteration}: kept.append(batch.clone())\n"
    text = text.replace("    return value\n", "") + "    return value\n"
    assert traced(tmp_path, text)["growth_bytes"] == 0


def test_the_bytes_before_the_first_iteration_are_the_same_for_every_batch(tmp_path):
    text = SUMMED.replace("{kept}", "0")
    (tmp_path / "work.py").write_text(text)
    starts = [
        run_here("traced", source="work.py", folder=tmp_path, micro=micro).table("traced")["start_bytes"]
        for micro in (4, 64)
    ]
    assert starts == [4 * (32 * 64 + 64 + 64 + 1)] * 2
