"""Batch semantics, scheduler, frozen parameters and formula in the project file: what is right, what is refused."""

import re
from pathlib import Path

import pytest
from project_samples import USER, measured

from tui.errors import ProjectError
from tui.project import fingerprint, trust
from tui.project.encode import measured_text
from tui.project.load import load, parse
from tui.project.marker import MARKER
from tui.project.model import SchedulerSpec
from tui.project.schema import FAMILIES

PATH = Path("gpt.toml")
BATCH = 'remainder = "drop"\n'
COSINE = """
[workload.scheduler]
name = "torch.optim.lr_scheduler.CosineAnnealingLR"
args = { T_max = 100 }
steps = 2
"""
WARM = """
[workload.scheduler]
name = "torch.optim.lr_scheduler.SequentialLR"
[workload.scheduler.args]
milestones = [2]
schedulers = [
    { name = "torch.optim.lr_scheduler.LinearLR", args = { total_iters = 2 } },
    { name = "OTHER", args = { T_max = 8 } },
]
"""


def with_batch(lines: str, user: str = USER) -> str:
    return user.replace(BATCH, f"{BATCH}{lines}\n")


def workload(text: str):
    return parse(PATH, text.encode()).spec.workload


def said(text: str) -> str:
    with pytest.raises(ProjectError) as caught:
        parse(PATH, text.encode())
    assert caught.value.code == 2
    return str(caught.value)


def line_of(word: str, text: str) -> int:
    return text[: text.index(word)].count("\n") + 1


def test_the_semantics_of_the_real_batch_are_read():
    lines = 'global_batch = 64\ndataset = 1000\nweight_by = "tokens"\ntokens = "labels"\nlength_of = "frames"'
    found = workload(with_batch(lines) + "[placement]\nranks = 2\n").batch
    assert (found.global_batch, found.dataset, found.weight_by) == (64, 1000, "tokens")
    assert (found.tokens, found.length_of) == ("labels", "frames")


def test_scheduler_frozen_parameters_and_formula_arguments_are_read():
    head = 'frozen = ["wte.*"]\nformula = "decoder"\nformula_args = { layers = 3 }\n\n[workload.batch]'
    found = workload(USER.replace("[workload.batch]", head) + COSINE)
    assert found.frozen == ("wte.*",)
    assert found.formula_args == {"layers": 3}
    assert found.scheduler == SchedulerSpec(
        "torch.optim.lr_scheduler.CosineAnnealingLR", {"T_max": 100}, steps=2
    )


@pytest.mark.parametrize(
    ("wanted", "ranks", "mend"),
    [
        (64, 1, "write global_batch = 32, accumulate = 8 or micro = 16"),
        (24, 1, "write global_batch = 32, accumulate = 3 or micro = 6"),
        (40, 2, "write global_batch = 64 or micro = 5"),
        (48, 2, "write global_batch = 64, accumulate = 3 or micro = 6"),
        (31, 1, "write global_batch = 32"),
    ],
)
def test_a_global_batch_that_is_not_the_product_names_the_factors_and_what_would_do(wanted, ranks, mend):
    text = with_batch(f"global_batch = {wanted}") + f"[placement]\nranks = {ranks}\n"
    ranked = "1 rank" if ranks == 1 else f"{ranks} ranks"
    assert said(text) == (
        f"gpt.toml:{line_of('global_batch', text)}: workload.batch.global_batch = {wanted} is not "
        f"micro 8 x accumulate 4 x {ranked} = {32 * ranks} samples; {mend}"
    )


FAULTS = {
    "tokens": (with_batch('weight_by = "tokens"'), "weight_by", 'such as tokens = "labels"'),
    "weight": (
        with_batch('weight_by = "samples"'),
        "weight_by",
        'must be micro-batch or tokens, got "samples"',
    ),
    "no entry": (
        with_batch('tokens = " "'),
        "tokens",
        'is empty; name an entry of the batch, such as "labels"',
    ),
    "dataset": (with_batch("dataset = 31"), "dataset", "an epoch has no step; write remainder = "),
    "no data": (with_batch("dataset = 0"), "dataset", "must be at least 1, got 0"),
    "length of": (with_batch('length_of = ""'), "length_of", "is empty; say what length counts"),
    "class": (
        USER + COSINE.replace("torch.optim.lr_scheduler.", ""),
        '"CosineAnnealingLR"',
        'workload.scheduler.name = "CosineAnnealingLR" is not the name of a class; write it in full, such as '
        '"torch.optim.lr_scheduler.CosineAnnealingLR"',
    ),
    "inner class": (USER + WARM, "OTHER", 'args.schedulers[1].name = "OTHER" is not the name of a class'),
    "bare inner class": (
        USER + WARM.replace('{ name = "OTHER", args = { T_max = 8 } }', '"CosineAnnealingLR"'),
        '"CosineAnnealingLR"',
        'workload.scheduler.args.schedulers[1] = "CosineAnnealingLR" does not name a scheduler; write { name = '
        '"torch.optim.lr_scheduler.LinearLR", args = { ... } }',
    ),
    "no name": (
        USER + COSINE.replace('name = "torch', 'nam = "torch'),
        "nam =",
        "nam is not a key here; did you",
    ),
    "steps": (USER + COSINE.replace("steps = 2", "steps = 0"), "steps = 0", "must be at least 1, got 0"),
    "too many steps": (
        USER + COSINE.replace("steps = 2", "steps = 1001"),
        "steps = 1001",
        "= 1,001 after every optimizer step is more than 1,000; write how often the scheduler steps",
    ),
    "quoted": (
        USER + COSINE.replace("100", '"100"'),
        "T_max",
        'workload.scheduler.args.T_max must be a number, got the text "100"; remove the quotes',
    ),
    "quoted rate": (
        USER.replace("lr = 6e-4", 'lr = "6e-4"'),
        "lr =",
        'workload.optimizer.args.lr must be a number, got the text "6e-4"; remove the quotes',
    ),
    "twice": (
        USER.replace("lr = 6e-4", "foreach = true").replace(
            "clip_norm", 'implementation = "fused"\nclip_norm'
        ),
        "foreach",
        'args.foreach and implementation = "fused" both choose the implementation; delete the argument',
    ),
    "pattern": (
        USER.replace("[workload.batch]", 'frozen = [\n"a",\n" "]\n[workload.batch]'),
        '" "',
        "workload.frozen[1] is empty, so it names no parameter",
    ),
    "no array": (
        USER.replace("[workload.batch]", 'frozen = "wte.*"\n[workload.batch]'),
        "frozen",
        'workload.frozen must be an array, got the text "wte.*"; write ["wte.*"]',
    ),
    "formula none": (
        USER.replace("[workload.batch]", 'formula_args = { layers = 3 }\nformula = "none"\n[workload.batch]'),
        "formula_args",
        'are the arguments of no family: formula = "none"; name it',
    ),
    "formula": (
        USER.replace('"decoder"', '"gpt.json"').replace(
            "[workload.batch]", "formula_args = { layers = 3 }\n[workload.batch]"
        ),
        "formula_args",
        "are the arguments of no family: no formula is named; name it, such as",
    ),
    "unknown family": (
        USER.replace("[workload.batch]", 'formula = "encodr"\n[workload.batch]'),
        "formula",
        "did you mean encoder?",
    ),
    "min": (USER.replace("typical = 24", "typical = 40"), "typical", "typical (40) is larger than max (32)"),
    "length true": (
        USER.replace("{ min = 16, typical = 24, max = 32 }", "true"),
        "length",
        "must be a whole number, got true",
    ),
}


@pytest.mark.parametrize(("text", "word", "sentence"), FAULTS.values(), ids=FAULTS)
def test_what_no_workload_can_mean_is_refused_with_line_key_and_a_way_to_mend_it(text, word, sentence):
    found = said(text)
    assert sentence in found
    assert found.startswith(f"gpt.toml:{line_of(word, text)}: ")
    assert "; " in found


def test_a_family_names_its_own_formula():
    for family in FAMILIES:
        text = f'schema = 1\n[workload]\nsource = "{family}"\nformula_args = {{ classes = 3 }}\n'
        assert workload(text).formula_args == {"classes": 3}


@pytest.mark.parametrize("remainder", ["keep", "pad"])
def test_a_data_set_smaller_than_a_step_may_be_kept_or_padded(remainder):
    text = with_batch("dataset = 31").replace('"drop"', f'"{remainder}"')
    assert workload(text).batch.dataset == 31


@pytest.mark.parametrize(
    ("table", "name", "meant"),
    [
        ("workload.batch", "effective_batch_size", "global_batch"),
        ("workload.batch", "train_batch_size", "global_batch"),
        ("workload.batch", "gradient_accumulation", "accumulate"),
        ("workload.batch", "max_seq_length", "length.max"),
        ("workload.batch", "image_size", "workload.args.size"),
        ("workload.batch", "drop_last", "remainder"),
        ("workload.batch", "num_samples", "dataset"),
        ("workload.batch", "average_tokens_across_devices", "weight_by"),
        ("workload", "lr_scheduler", "scheduler"),
        ("workload", "warmup", "scheduler.args"),
        ("workload.optimizer", "warmup_steps", "workload.scheduler.args"),
        ("workload", "freeze", "frozen"),
        ("workload", "image_size", "args.size"),
        ("placement", "global_batch_size", "workload.batch.global_batch"),
        ("precision", "gradient_accumulation_steps", "workload.batch.accumulate"),
    ],
)
def test_what_other_tools_call_it_points_to_our_key(table, name, meant):
    text = USER + "[placement]\n"
    text = text.replace(f"[{table}]\n", f"[{table}]\n{name} = 1\n")
    assert said(text).endswith(f"{table}.{name} is not a key here; did you mean {meant}?")


# --- fingerprint --------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return PATH


def project(path: Path, text: str):
    path.write_text(text)
    return load(path)


FORMULA = USER.replace("[workload.batch]", 'formula = "decoder"\n\n[workload.batch]')


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ('schema = 1\n[workload]\nsource = "mlp"\n', "sha256:4a11707276bd"),
        (USER.replace("min = 16, typical = 24, ", ""), "sha256:f4eaacc10148"),
        (USER, "sha256:dc71e90fd8c7"),
        (FORMULA, "sha256:96e243aa2f55"),
    ],
)
def test_measurements_of_earlier_versions_stay_valid(path, text, right):
    below = measured_text(measured("p-1")).replace("sha256:4be1aaaa", right)
    found = project(path, f"{text}\n{MARKER}\n\n{below}")
    assert fingerprint.spec_hash(found) == right
    assert not fingerprint.stale(right, found)


@pytest.mark.parametrize(
    "text",
    [
        with_batch("global_batch = 32"),
        with_batch("dataset = 1000"),
        with_batch('length_of = "frames"'),
        USER.replace("min = 16, typical = 24, ", ""),
        USER.replace("min = 16", "min = 1"),
        USER.replace('"drop"', '"keep"'),
        FORMULA,
        FORMULA.replace('formula = "decoder"', 'formula = "decoder"\nformula_args = { layers = 9 }'),
        with_batch('weight_by = "micro-batch"'),
        USER.replace("[workload.batch]", "frozen = []\n[workload.batch]"),
    ],
)
def test_what_is_only_described_or_checked_makes_nothing_stale(path, text):
    first = fingerprint.spec_hash(project(path, USER))
    assert text != USER
    assert fingerprint.spec_hash(project(path, text)) == first


@pytest.mark.parametrize(
    "text",
    [
        with_batch('tokens = "labels"\nweight_by = "tokens"'),
        USER + COSINE,
        USER.replace("[workload.batch]", 'frozen = ["wte.*"]\n[workload.batch]'),
        USER.replace("max = 32", "max = 64"),
    ],
)
def test_what_is_measured_makes_earlier_results_stale(path, text):
    first = fingerprint.spec_hash(project(path, USER))
    assert fingerprint.stale(first, project(path, text))
    if text == USER + COSINE:
        second = fingerprint.spec_hash(load(path))
        assert fingerprint.stale(second, project(path, text.replace("steps = 2", "steps = 1")))


# --- trust --------------------------------------------------------------------------------------


def test_what_comes_with_torch_needs_no_trust(path):
    warm = WARM.replace("OTHER", "torch.optim.lr_scheduler:CosineAnnealingLR")
    assert trust.what_runs(project(path, USER + warm)) == ()
    assert trust.what_runs(project(path, USER.replace("torch.optim.AdamW", "torch.optim:AdamW"))) == ()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (
            USER + COSINE.replace("torch.optim.lr_scheduler.CosineAnnealingLR", "mine.inner:Cosine"),
            "workload.scheduler.name",
        ),
        (USER + WARM.replace("OTHER", "mine.inner:Cosine"), "workload.scheduler.args.schedulers[1].name"),
        (USER.replace("torch.optim.AdamW", "mine.inner:Cosine"), "workload.optimizer.name"),
        (USER.replace("torch.optim.AdamW", "torch.optimal:Cosine"), "workload.optimizer.name"),
    ],
)
def test_a_class_of_somebodys_own_needs_trust_that_lapses_with_its_files(path, text, key):
    Path("mine").mkdir()
    for name in ("__init__.py", "inner.py"):
        (Path("mine") / name).write_text("")
    found = project(path, text)
    with pytest.raises(ProjectError, match=re.escape(f"{key} is Python you have not allowed here")) as caught:
        trust.require(found, False)
    line = line_of("mine.inner:" if "mine" in text else "torch.optimal", text)
    assert str(caught.value).startswith(f"gpt.toml:{line}: ")
    trust.allow(found)
    assert trust.is_allowed(load(path))
    if "mine.inner" in text:
        (Path("mine") / "__init__.py").write_text("import os")
        assert not trust.is_allowed(load(path))
