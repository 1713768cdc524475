"""The module tree: rows add up whatever is shared, and the file is what the rest of peakmark reads."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tui.probe import inventory, module_tree
from tui.probe.identity import holdings
from tui.project import modules


def written(tmp_path, model, **more):
    module_tree.write(module_tree.table(holdings(model), **more), str(tmp_path / "a.modules.json"))
    return modules.read(tmp_path / "a.modules.json")


def test_each_module_has_its_own_and_everything_below_it(tmp_path):
    inner = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    inner.scale = nn.Parameter(torch.ones(5))
    tree = written(tmp_path, nn.ModuleDict({"inner": inner, "head": nn.Linear(2, 1)}))
    rows = {row.path: (row.cls, row.elements, row.own, row.tensors, row.buffers) for row in tree.modules}
    assert rows == {
        "": ("ModuleDict", 20, 0, 7, 5),
        "inner": ("Sequential", 17, 5, 5, 5),
        "inner.0": ("Linear", 8, 8, 2, 0),
        "inner.1": ("BatchNorm1d", 4, 4, 2, 5),
        "head": ("Linear", 3, 3, 2, 0),
    }


def test_a_shared_parameter_stands_where_it_is_met_first_with_its_other_names(tmp_path):
    model = nn.ModuleDict({"wte": nn.Embedding(5, 2), "head": nn.Linear(2, 5, bias=False)})
    model["head"].weight = model["wte"].weight
    tree = written(tmp_path, model)
    assert {row.path: row.elements for row in tree.modules} == {"": 10, "wte": 10, "head": 0}
    (one,) = tree.parameters
    assert (one.name, one.shape, one.also, one.received) == ("wte.weight", (5, 2), ("head.weight",), None)


def test_calls_and_gradients_are_in_the_rows(tmp_path):
    tree = written(tmp_path, nn.Linear(2, 1), calls={"": 3}, received={"weight": True, "bias": False})
    assert tree.modules[0].calls == 3
    assert [one.received for one in tree.parameters] == [True, False]


def test_a_tree_of_thousands_of_modules_is_written_and_read(tmp_path):
    model = nn.ModuleList(nn.PReLU() for _ in range(5000))
    tree = written(tmp_path, model)
    assert (len(tree.modules), tree.modules[0].elements) == (5001, 5000)


def test_a_tree_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a.modules.json").mkdir()
    with pytest.raises(OSError):
        module_tree.write({"version": 1}, str(tmp_path / "a.modules.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.modules.json"]


@st.composite
def nests(draw):
    """A nest of modules in which modules, parameters and buffers are held in several places."""
    shapes = st.lists(st.integers(1, 4), min_size=0, max_size=2)
    parameters = [nn.Parameter(torch.zeros(draw(shapes))) for _ in range(draw(st.integers(1, 5)))]
    buffers = [torch.zeros(draw(shapes)) for _ in range(draw(st.integers(0, 3)))]
    nodes = [nn.Module() for _ in range(draw(st.integers(1, 6)))]
    for place, node in enumerate(nodes):
        for name, index in enumerate(draw(st.lists(st.integers(0, len(parameters) - 1), max_size=3))):
            node.register_parameter(f"p{name}", parameters[index])
        for name, index in enumerate(
            draw(st.lists(st.integers(0, len(buffers) - 1), max_size=2)) if buffers else ()
        ):
            node.register_buffer(f"b{name}", buffers[index], persistent=draw(st.booleans()))
        # downwards only, as modules that can run are
        for name, index in enumerate(draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3))):
            if index > place:
                node.add_module(f"m{name}", nodes[index])
    nodes[0].register_parameter("always", parameters[0])
    return nodes[0]


@settings(deadline=None, max_examples=60)
@given(nests())
def test_any_nest_counts_each_object_once_and_its_rows_add_up(model):
    # Every object by every path, and then each once: what the framework's own iterators would give.
    parameters = {id(one): one for _, one in model.named_parameters(remove_duplicate=False)}
    buffers = {id(one): one for _, one in model.named_buffers(remove_duplicate=False)}
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    found = holdings(model)
    table = inventory.take(model, found=found)
    assert table["unique_parameters"] == sum(one.numel() for one in parameters.values())
    assert table["tensors"] == len(parameters)
    assert table["buffer_elements"] == sum(one.numel() for one in buffers.values())
    assert sum(table["groups"].values()) == table["unique_parameters"]
    assert sorted(name for one in found.parameters for name in one.names) == sorted(names)
    rows = {row[0]: row for row in json.loads(json.dumps(module_tree.table(found)))["modules"]}
    assert list(rows) == [path for path, _ in model.named_modules()]
    for path, row in rows.items():
        below = [one for one in rows if one and one.rpartition(".")[0] == path]
        assert row[2] == row[3] + sum(rows[one][2] for one in below)
    assert (rows[""][2], rows[""][5]) == (table["unique_parameters"], table["parameter_bytes"])
    assert rows[""][7] == table["buffer_elements"]
