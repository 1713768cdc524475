import types

import pytest
import torch
from torch import nn

from tui.probe import workload
from tui.probe.faults import TaskError, describe

GOOD = """
import torch
from torch import nn

def build(cfg):
    return nn.Linear(cfg.get("inputs", 3), 1)

def batch(n):
    return torch.randn(n, 3)
"""


def write(folder, text, name="workload.py"):
    (folder / name).write_text(text)
    return workload.load(name, {}, str(folder))


def refused(call, *args):
    with pytest.raises(TaskError) as caught:
        call(*args)
    assert caught.value.kind == "workload"
    return caught.value


def test_a_function_gets_those_arguments_that_it_declares(tmp_path):
    found = write(tmp_path, GOOD)
    assert found.build().in_features == 3
    assert found.batch(5, 2, "train", None).shape == (5, 3)


def test_an_argument_that_does_not_exist_is_named_with_its_line(tmp_path):
    found = write(tmp_path, GOOD.replace("def batch(n)", "def batch(n, rank)"))
    error = refused(found.batch, 4, 0, "train", None)
    assert (error.sentence, error.where) == (
        "batch() wants an argument 'rank' that does not exist",
        "workload.py:8",
    )
    assert error.hint == "it can have cfg, index, length, n, split"


def test_a_function_that_takes_anything_gets_everything():
    assert workload.accepted(lambda **all: all, {"n": 1, "split": "train"}) == {"n": 1, "split": "train"}


def test_a_batch_of_another_size_is_refused(tmp_path):
    found = write(tmp_path, GOOD.replace("torch.randn(n, 3)", "torch.randn(4, 7)"))
    error = refused(found.batch, 8, 0, "train", None)
    assert (error.sentence, error.where) == ("batch(n=8, ...) gave 4 samples", "workload.py:8")


def test_a_batch_may_have_its_samples_second(tmp_path):
    found = write(tmp_path, GOOD.replace("torch.randn(n, 3)", "torch.randn(9, n, 3)"))
    assert found.batch(4, 0, "train", None).shape == (9, 4, 3)


def test_a_batch_without_tensors_is_refused(tmp_path):
    found = write(tmp_path, GOOD.replace("torch.randn(n, 3)", "[1, 2]"))
    assert "holds no tensor" in refused(found.batch, 4, 0, "train", None).sentence


def test_build_must_give_a_module(tmp_path):
    found = write(tmp_path, GOOD.replace('nn.Linear(cfg.get("inputs", 3), 1)', "3"))
    error = refused(found.build)
    assert (error.sentence, error.where) == ("build() gave int, not a torch.nn.Module", "workload.py:5")


@pytest.mark.parametrize("missing", ["build", "batch"])
def test_a_missing_function_is_named(tmp_path, missing):
    error = refused(write, tmp_path, GOOD.replace(f"def {missing}", "def other"))
    assert (error.sentence, error.where) == (f"defines no {missing}()", "workload.py")


def test_a_missing_file_is_named(tmp_path):
    assert refused(workload.load, "none.py", {}, str(tmp_path)).where == "none.py"


def test_an_unknown_source_says_what_there_is(tmp_path):
    assert "decoder, encoder, mlp, convnet" in refused(workload.load, "resnet", {}, str(tmp_path)).sentence


def test_an_import_that_fails_is_named_with_file_and_line(tmp_path):
    with pytest.raises(ModuleNotFoundError) as caught:
        write(tmp_path, "import os\nimport einops_of_nobody\n" + GOOD)
    said = describe(caught.value, [str(tmp_path)], "build", "/opt/train/bin/python", "runs/p-1.log")
    assert (said.kind, said.where) == ("workload", "workload.py:2")
    assert said.sentence == "No module named 'einops_of_nobody' in /opt/train/bin/python"


def test_invalid_python_is_named_with_file_and_line(tmp_path):
    with pytest.raises(SyntaxError) as caught:
        write(tmp_path, "x = 1\ndef broken(:\n")
    said = describe(caught.value, [str(tmp_path)], "build", "python", "runs/p-1.log")
    assert (said.kind, said.where) == ("workload", "workload.py:2")


def test_a_file_that_exits_while_it_is_imported_is_refused(tmp_path):
    error = refused(write, tmp_path, "import sys\nsys.exit(3)\n")
    assert (error.sentence, error.where) == ("it calls exit(3) while it is imported", "workload.py:2")


def test_the_name_after_the_colon_is_the_build_function_or_the_class(tmp_path):
    text = GOOD + "\ndef tiny():\n    return nn.Linear(3, 2)\n\nclass Net(nn.Linear):\n    pass\n"
    (tmp_path / "workload.py").write_text(text)
    assert workload.load("workload.py:tiny", {}, str(tmp_path)).build().out_features == 2
    net = workload.load("workload.py:Net", {"in_features": 3, "out_features": 5}, str(tmp_path))
    assert net.build().out_features == 5


def test_a_name_after_the_colon_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "workload.py").write_text(GOOD)
    assert refused(workload.load, "workload.py:gone", {}, str(tmp_path)).sentence == "has no 'gone'"


def test_a_namespace_after_the_colon_holds_all_functions(tmp_path):
    text = (
        GOOD
        + "\nclass Small:\n    build = staticmethod(lambda: nn.Linear(3, 7))\n    batch = staticmethod(batch)\n"
    )
    (tmp_path / "workload.py").write_text(text)
    assert workload.load("workload.py:Small", {}, str(tmp_path)).build().out_features == 7


def test_a_batch_is_the_same_whatever_the_model_drew_before(tmp_path):
    found = write(tmp_path, GOOD)
    first = found.batch(4, 3, "train", None)
    torch.randn(100)
    before = torch.get_rng_state()
    assert torch.equal(found.batch(4, 3, "train", None), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(found.batch(4, 4, "train", None), first)
    assert not torch.equal(found.batch(4, 3, "valid", None), first)
    assert not torch.equal(found.batch(4, 3, "train", None, seed=1), first)


SCALAR = torch.tensor(2.0, requires_grad=True)


@pytest.mark.parametrize(
    "out",
    [
        SCALAR,
        {"loss": SCALAR, "logits": torch.zeros(3)},
        types.SimpleNamespace(loss=SCALAR),
        (torch.zeros(3, requires_grad=True), SCALAR, torch.tensor(1.0)),
    ],
    ids=["scalar", "key", "attribute", "tuple"],
)
def test_the_loss_is_found_in_a_models_output(out):
    assert workload.scalar_of(out) is SCALAR


@pytest.mark.parametrize("out", [(SCALAR, SCALAR * 2), (torch.tensor(1.0),), {"logits": torch.zeros(3)}])
def test_an_output_without_one_clear_loss_is_refused(out):
    error = refused(workload.scalar_of, out)
    assert "has no loss" in error.sentence
    assert error.hint == "define loss(model, batch) in the workload"


def test_a_loss_that_is_no_scalar_is_refused(tmp_path):
    found = write(tmp_path, GOOD)
    assert (
        refused(found.loss, nn.Linear(3, 2), torch.zeros(4, 3)).sentence
        == "the loss is (4, 2), not a scalar tensor"
    )


@pytest.mark.parametrize(
    "batch",
    [{"input": torch.ones(1, 3)}, (torch.ones(1, 3),), torch.ones(1, 3)],
    ids=["keywords", "positions", "one"],
)
def test_the_model_is_called_by_the_form_of_the_batch(batch):
    assert workload.call_model(nn.Linear(3, 2), batch).shape == (1, 2)


def one_file(tmp_path, text):
    (tmp_path / "workload.py").write_text(
        "import torch\n\ndef build():\n    return torch.nn.Linear(8, 1)\n\n" + text
    )
    return workload.load("workload.py", {}, str(tmp_path))


def test_a_length_that_nobody_said_is_asked_for(tmp_path):
    made = one_file(tmp_path, "def batch(n, length):\n    return torch.zeros(n, length + 1)\n")
    with pytest.raises(TaskError) as caught:
        made.batch(2, 0, "train", None)
    assert caught.value.sentence == "batch() takes a length, and the project says none"
    assert caught.value.hint == "set workload.batch.length, or give the argument a default"
    free = one_file(tmp_path, "def batch(n, length=None):\n    return torch.zeros(n, length or 3)\n")
    assert free.batch(2, 0, "train", None).shape == (2, 3)


def test_a_batch_may_have_time_first_but_not_another_size(tmp_path):
    made = one_file(
        tmp_path, "def batch(n, index):\n    return [torch.zeros(5, n), torch.zeros(n)][: index + 1]\n"
    )
    made.batch(8, 1, "train", None)
    wrong = one_file(tmp_path, "def batch(n):\n    return torch.zeros(4, 8), torch.zeros(4)\n")
    with pytest.raises(TaskError, match="gave 4 samples"):
        wrong.batch(8, 0, "train", None)


def test_a_loss_without_a_gradient_is_named_with_its_line(tmp_path):
    rest = "def batch(n):\n    return torch.zeros(n, 8)\n\n"
    rest += "def loss(model, batch):\n    return model(batch).sum().detach()\n"
    made = one_file(tmp_path, rest)
    with pytest.raises(TaskError, match="depends on no parameter") as caught:
        made.loss(made.build(), made.batch(2, 0, "train", None))
    assert caught.value.where == "workload.py:9"


def test_a_loss_of_ones_own_that_is_no_number_is_told_to_be_one(tmp_path):
    rest = "def batch(n):\n    return torch.zeros(n, 8)\n\ndef loss(model, batch):\n    return model(batch)\n"
    made = one_file(tmp_path, rest)
    with pytest.raises(TaskError) as caught:
        made.loss(made.build(), made.batch(2, 0, "train", None))
    assert caught.value.hint == "return one number, such as its mean()"


def test_a_loss_of_one_element_is_a_number(tmp_path):
    rest = "def batch(n):\n    return torch.zeros(n, 8)\n\n"
    rest += "def loss(model, batch):\n    return model(batch).mean().reshape(1, 1)\n"
    made = one_file(tmp_path, rest)
    assert made.loss(made.build(), made.batch(2, 0, "train", None)).shape == ()


def test_an_optimizer_that_wants_a_closure_is_refused_with_the_way_out(tmp_path):
    from tui.probe import optimizers

    made = one_file(tmp_path, "def batch(n):\n    return torch.zeros(n, 8)\n")
    with pytest.raises(TaskError, match="needs a closure") as caught:
        optimizers.build({"name": "torch.optim.LBFGS"}, made, made.build())
    assert caught.value.kind == "unsupported"


def test_parameters_without_values_are_refused_by_name():
    from tui.probe.session import refuse_unfinished

    with pytest.raises(TaskError, match="parameter weight is not initialised"):
        refuse_unfinished(nn.LazyLinear(4))
    with pytest.raises(TaskError, match="parameter weight is on the meta device"):
        refuse_unfinished(nn.Linear(4, 4, device="meta"))


def test_an_error_whose_text_cannot_be_made_is_still_told(tmp_path):
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    said = describe(Silent(), [str(tmp_path)], "build", "python", "runs/p-1.log")
    assert "Silent, whose text cannot be made" in said.sentence
