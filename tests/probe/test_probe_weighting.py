"""Token-weighted accumulation equals one large batch, and frozen parameters are those that the patterns name."""

import pytest
import torch
from torch import nn

from probe.helpers import Events, plan, run_here
from tui.probe import adapt, weighting
from tui.probe.faults import TaskError
from tui.probe.session import Session

WORK = """
import torch
from torch import nn

COUNTS = {counts}

def build():
    torch.manual_seed(3)
    return nn.Sequential(nn.Embedding(11, 6), nn.Tanh(), nn.Linear(6, 11))

def batch(n, index):
    draw = torch.Generator().manual_seed(index)
    ids = torch.randint(0, 11, (n, 8), generator=draw)
    labels = torch.randint(0, 11, (n, 8), generator=draw)
    labels.view(-1)[COUNTS[index % len(COUNTS)] :] = -100
    return {{"ids": ids, "labels": labels}}

def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["labels"].flatten())
"""
RAGGED = [16, 1, 7, 3]
"""Labels that count of the 16 of each micro-batch."""


def session(folder, counts=RAGGED, weight_by="tokens", text=WORK, tokens="labels", **more):
    (folder / "work.py").write_text(text.format(counts=counts))
    made = plan("timed", "work.py", folder=folder, micro=2, accumulate=len(counts), tokens=tokens, **more)
    made.batch["weight_by"] = weight_by
    return Session(made, Events())


def in_float64(made):
    """The session with weights in double precision, so that only the arithmetic differs."""
    made.setting.weight_dtype = torch.float64
    made.model.double()
    return made


def whole_batch(made, count=4):
    """Loss and gradients of one batch that is all micro-batches of the first iteration together."""
    batches = [made.workload.batch(2, index, "train", None) for index in range(count)]
    joined = {key: torch.cat([one[key] for one in batches]) for key in batches[0]}
    made.model.zero_grad()
    loss = made.workload.loss(made.model, joined)
    loss.backward()
    return loss.detach(), gradients(made)


def gradients(made):
    return [one.grad.clone() for one in made.model.parameters()]


def apart(mine, theirs):
    return max((a - b).abs().max().item() for a, b in zip(mine, theirs, strict=True))


@pytest.fixture
def still():
    """An optimizer that leaves the weights alone."""
    return {"name": "torch.optim.SGD", "args": {"lr": 0.0}}


def test_four_ragged_micro_batches_have_loss_and_gradients_of_the_one_large_batch(tmp_path, still):
    made = in_float64(session(tmp_path, optimizer=still))
    loss = made.iterate()
    mine = gradients(made)
    wanted, theirs = whole_batch(made)
    assert apart(mine, theirs) < 1e-15
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-14)


def test_the_plain_mean_of_ragged_micro_batches_does_not(tmp_path, still):
    made = in_float64(session(tmp_path, weight_by="micro-batch", optimizer=still))
    loss = made.iterate()
    mine = gradients(made)
    wanted, theirs = whole_batch(made)
    assert apart(mine, theirs) > 1e-3
    assert abs(loss.item() - wanted.item()) > 1e-3


def test_equal_micro_batches_weigh_the_same_either_way(tmp_path, still):
    found = []
    for weight_by in ("tokens", "micro-batch"):
        made = in_float64(session(tmp_path, [5, 5, 5, 5], weight_by, optimizer=still))
        made.iterate()
        found.append(gradients(made))
    assert apart(*found) < 1e-16


def test_a_micro_batch_without_a_counted_label_adds_nothing(tmp_path, still):
    made = in_float64(session(tmp_path, [9, 0, 4, 0], optimizer=still))
    seen = []
    made.observe(lambda phase, micro: seen.append((phase, micro)))
    checked = []
    made.run.check = lambda loss, micro: checked.append(micro)
    loss = made.iterate()
    mine = gradients(made)
    wanted, theirs = whole_batch(made)
    assert apart(mine, theirs) < 1e-15
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-14)
    assert checked == [0, 2]
    assert seen[-3:] == [("forward", 3), ("backward", 3), ("step", None)]


@pytest.mark.parametrize("counts", [[0, 0], [0]])
def test_an_iteration_without_any_counted_label_is_an_error_and_no_nan(tmp_path, counts):
    with pytest.raises(TaskError) as caught:
        session(tmp_path, counts).iterate()
    assert caught.value.sentence.startswith(
        'every label of an iteration is -100: batch["labels"] counts none'
    )
    assert caught.value.kind == "workload"


def test_an_entry_that_the_batch_does_not_have_is_named_with_those_that_it_has(tmp_path):
    with pytest.raises(TaskError) as caught:
        session(tmp_path, tokens="label").iterate()
    assert caught.value.sentence == 'workload.batch.tokens = "label" is no tensor of what batch() gives'
    assert caught.value.hint == "it gives ids, labels"


def test_all_micro_batches_are_made_before_the_first_forward_and_let_go_one_by_one(tmp_path):
    made = session(tmp_path)
    seen = []
    made.observe(lambda phase, micro: seen.append(phase))

    def told():
        for batch in made.host_batches():
            seen.append("made")
            yield batch

    made.iterate(told())
    assert seen[:5] == ["made"] * 4 + ["forward"]
    assert (made.tokens, made.index) == (sum(RAGGED), 4)


def test_batches_that_are_used_again_keep_their_weights(tmp_path, still):
    made = in_float64(session(tmp_path, optimizer=still))
    batches = list(made.host_batches())
    first = made.iterate(iter(batches)).item()
    assert made.iterate(iter(batches)).item() == first


def test_a_step_of_the_workloads_own_gets_the_weights_too(tmp_path, still):
    own = """
def step(run):
    run.zero_grad()
    for batch in run.micro_batches:
        run.backward(run.loss(batch))
    run.apply(run.optimizer)
"""
    made = in_float64(session(tmp_path, text=WORK + own, optimizer=still))
    made.iterate()
    mine = gradients(made)
    assert apart(mine, whole_batch(made)[1]) < 1e-15


@pytest.mark.parametrize("task", ["timed", "traced"])
def test_times_and_memory_are_measured_with_token_weights(tmp_path, task):
    (tmp_path / "work.py").write_text(WORK.format(counts=RAGGED))
    made = {"micro": 2, "accumulate": 4, "tokens": "labels", "iterations": 3, "warmup": 2}
    events = run_here(task, source="work.py", folder=tmp_path, weight_by="tokens", **made)
    table = events.table(task)
    if task == "timed":
        assert table["tokens_per_iteration"] == sum(RAGGED)
        assert len(table["step_ms"]) == 3
    else:
        # Two int64 tensors of 2 x 8 a micro-batch; all four exist at once, and none is without a row.
        rows = table["phases"]["forward"]["rows"]
        assert 4 * 2 * 2 * 8 * 8 >= rows["input_batch"] >= 2 * 2 * 8 * 8
        assert not rows.get("unattributed")


def test_entries_are_found_by_key_by_attribute_and_by_place():
    labels = torch.tensor([[1, -100, 2], [3, 4, -100]])
    assert weighting.counted({"labels": labels}, "labels") == 4
    assert weighting.counted((None, labels), "1") == 4
    named = type("Batch", (), {"labels": labels})
    assert weighting.counted(named, "labels") == 4
    # A model that shifts labels by itself never predicts the first of a sample.
    assert weighting.counted({"labels": labels}, "labels", shifted=True) == 2
    with pytest.raises(TaskError, match="is no tensor"):
        weighting.counted((labels,), "1")


def test_a_causal_model_of_transformers_is_weighted_by_the_labels_that_it_predicts(tmp_path, still):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=8)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    (tmp_path / "config.json").write_text(config.to_json_string())
    text = WORK.replace(
        "return nn.Sequential(nn.Embedding(11, 6), nn.Tanh(), nn.Linear(6, 11))",
        "import transformers\n    return transformers.GPT2LMHeadModel._from_config(\n"
        "        transformers.GPT2Config.from_json_file({path!r}))",
    ).replace('"ids": ids', '"input_ids": ids')
    text = text.partition("def loss")[0].replace("{path!r}", repr(str(tmp_path / "config.json")))
    made = in_float64(session(tmp_path, [14, 5, 9, 3], text=text, optimizer=still))
    loss = made.iterate()
    mine = gradients(made)
    wanted, theirs = whole_batch(made)
    assert loss.item() == pytest.approx(wanted.item(), abs=2e-6)  # it takes the logarithm in single precision
    assert apart(mine, theirs) < 1e-7
    made.plan.batch["weight_by"] = "micro-batch"
    made.by_tokens = False
    assert abs(made.iterate().item() - wanted.item()) > 1e-4


# --- frozen parameters --------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(5, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.wte.weight


def trained(model):
    return [name for name, one in model.named_parameters() if one.requires_grad]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ([], ["wte.weight", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"]),
        (["wte.*"], ["blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"]),
        (["head.weight"], ["blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"]),
        (["blocks.?.weight"], ["wte.weight", "blocks.0.bias", "blocks.1.bias"]),
        (["*.bias", "blocks.0.*"], ["wte.weight", "blocks.1.weight"]),
        (["blocks.[1]*"], ["wte.weight", "blocks.0.weight", "blocks.0.bias"]),
        (["*"], []),
    ],
)
def test_a_pattern_freezes_every_parameter_with_a_name_that_it_matches(patterns, left):
    model = Tied()
    adapt.freeze(model, patterns)
    assert trained(model) == left


def test_the_names_that_were_frozen_are_returned_shared_ones_by_each():
    assert adapt.freeze(Tied(), ["*wte*", "head.*"]) == ["wte.weight", "head.weight"]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("wte", "did you mean wte.*?"),
        ("blocks.0", "did you mean blocks.0.*?"),
        ("bias", "did you mean *bias*?"),
        ("block.0.*", "did you mean blocks.0"),
        ("WTE.*", "its parameters are named such as wte.weight, blocks.0.weight, blocks.0.bias"),
        ("nothing.like.it", "its parameters are named such as wte.weight, blocks.0.weight, blocks.0.bias"),
    ],
)
def test_a_pattern_that_matches_nothing_names_what_is_near_and_freezes_nothing(pattern, hint):
    model = Tied()
    with pytest.raises(TaskError) as caught:
        adapt.freeze(model, ["*.bias", pattern])
    assert caught.value.sentence == f"workload.frozen names '{pattern}', which matches no parameter"
    assert hint in caught.value.hint
    assert len(trained(model)) == 5


def frozen_session(folder, patterns, text=""):
    (folder / "work.py").write_text(WORK.format(counts=RAGGED) + text)
    made = plan("timed", "work.py", folder=folder)
    made.workload["frozen"] = patterns
    return Session(made, Events())


def test_the_optimizer_has_what_is_not_frozen_and_nothing_else_moves(tmp_path):
    made = frozen_session(tmp_path, ["0.*", "2.bias"])
    before = {name: one.detach().clone() for name, one in made.model.named_parameters()}
    made.iterate()
    assert [one.shape for one in made.optimizer.param_groups[0]["params"]] == [(11, 6)]
    moved = [name for name, one in made.model.named_parameters() if not torch.equal(one, before[name])]
    received = [name for name, one in made.model.named_parameters() if one.grad is not None]
    assert moved == received == ["2.weight"]


@pytest.mark.parametrize(
    "text", ["", "\ndef optimizer(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"]
)
def test_nothing_left_to_train_is_said_with_the_patterns(tmp_path, text):
    with pytest.raises(TaskError) as caught:
        frozen_session(tmp_path, ["0.*", "2.*"], text)
    assert caught.value.sentence == "no parameter needs a gradient, so there is nothing to train"
    assert caught.value.hint == "workload.frozen leaves none: narrow 0.*, 2.*"
