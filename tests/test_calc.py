"""``peakmark calc``: what a person or a script gets for the words they type."""

import doctest
import importlib
import json
import re
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.budget.fixed_shapes import BITS, Plan, SampleTensor
from tui.budget.kinds import KINDS
from tui.cli import main
from tui.report.json_values import unexplained
from tui.report.lines import columns

GPT2 = ["decoder", "layers=12", "heads=12", "width=768", "vocab=50257", "context=1024"]
SPARSE = "decoder experts=8 shared_experts=2 shared_gate=true dense_layers=1 lora_rank=4 lora_targets=qkv,proj,up,down"
EXAMPLES = [
    "dense in=5 out=7",
    "conv in=24 out=12 kernel=3 groups=12 bias=false",
    "conv in=4 out=6 kernel=3,5,1 groups=2 transposed=true",
    "conv in=4 out=6 kernel=3 dims=3",
    "embedding entries=9 width=4",
    "norm width=8",
    "norm width=8 kind=rms",
    "norm width=8 kind=batch",
    "attention width=64 heads=8 kv_heads=2 head_dim=16 qk_norm=true",
    "feed_forward width=8 gated=true",
    "experts width=8 hidden=6 experts=4 shared=2 shared_gate=true bias=true",
    "lstm in=3 hidden=8 layers=3 bidirectional=true proj_size=4",
    "gru in=3 hidden=8 layers=2 bias=false",
    "rnn in=3 hidden=8",
    "lora in=8 out=6 rank=2",
    "weight_norm shape=8,4,3 bias=true",
    "weight_norm shape=8,4 dim=-1",
    "packed in=100 out=7 double=3",
    "packed in=100 out=7 along=input zero_points=true scale=fp16 bits=3",
    "packed in=100 out=7 block=0",
    "shard shape=9,2 ranks=4",
    "shard shape=18 ranks=4 by=flat",
    "tied entries=1000 width=64 held_by=0,3 stages=4",
    " ".join(GPT2),
    "decoder",
    "decoder gated=true norm=rmsnorm bias=false qkv_bias=true positions=rotary tied=false post_norms=true",
    SPARSE,
    "decoder experts=4 gated=true bias=false dense_layers=4",
    "encoder lora_rank=2 lora_targets=up,down tied=false pooler=true",
    "encoder inputs=patches class_token=false",
    "convnet stem=8 last=16 norm=none depths=1,2,3",
    "convnet block=convnext channels=8,16 depths=2,1 stem=8 stem_kernel=4 last=9",
    "convnet block=inverted expansion=1,6,6",
    "mlp norm=batch hidden=8,4",
]


def calc(capsys, *words):
    code = main(["calc", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def params(capsys, *words):
    return calc(capsys, "params", *words)


# --- params: what is shown ----------------------------------------------------------------------------------


def test_other_names_lead_to_kinds_and_arguments_that_there_are():
    from tui.commands.calc import _OTHER_NAMES

    for meant in _OTHER_NAMES.values():
        kind, _, argument = meant.partition(" with ")
        assert not argument or argument.partition("=")[0] in [one.name for one in KINDS[kind].arguments]


def test_a_layer_shows_its_formula_the_numbers_and_the_result(capsys):
    code, out, _ = params(capsys, "conv", "in=24", "out=12", "kernel=3", "groups=12", "bias=false")
    assert code == 0
    assert out.splitlines() == [
        "conv  in=24 out=12 kernel=3 dims=2 groups=12 bias=false transposed=false",
        "weight  216  out x (in / groups) x kernel x kernel = 12 x (24 / 12) x 3 x 3",
        "total   216  parameters",
    ]


def test_a_family_shows_its_parts_what_is_active_and_what_is_embedding(capsys):
    code, out, _ = params(capsys, *GPT2)
    assert code == 0
    assert out.splitlines()[:11] == [
        "decoder  layers=12 heads=12 width=768 vocab=50257 context=1024",
        "token embedding       38,597,376  vocab x width = 50,257 x 768",
        "position embedding       786,432  context x width = 1,024 x 768",
        "12 blocks             85,054,464  layers x block = 12 x 7,087,872",
        "final norm                 1,536  2 x width = 2 x 768",
        "output head                    0  tied: is the token embedding",
        "total                124,439,808  parameters",
        "active on one token  124,439,808",
        "embedding             39,383,808",
        "non-embedding         85,056,000",
        "in one block",
    ]
    assert "  MLP                  4,722,432  2 x width x hidden + hidden + width" in out.splitlines()


def every_term(document):
    for one in document.values():
        yield one
        yield from every_term(one.get("each", {}))


@pytest.mark.parametrize("words", EXAMPLES)
def test_the_numbers_that_are_shown_come_to_the_figure_beside_them(capsys, words):
    code, out, _ = params(capsys, *words.split(), "--json")
    assert code == 0
    document = json.loads(out)
    figure = {"parameters_count", "elements_count", "bytes"} & set(document)
    [name] = figure
    assert document[name] == sum(one[name] for one in document["terms"].values())
    for one in every_term(document["terms"] | document["further"]):
        if one.get("numbers"):
            value = next(
                one[name] for name in ("parameters_count", "elements_count", "bytes", "count") if name in one
            )
            exact = re.sub(r"[0-9][0-9,]*", lambda found: f"F({found[0].replace(',', '')})", one["numbers"])
            assert eval(exact.replace(" x ", " * "), {"F": Fraction, "up": ceil}) == value, one


@pytest.mark.parametrize("words", EXAMPLES)
@pytest.mark.parametrize("terminal", ["60", "80", "200"])
def test_no_line_is_wider_than_the_terminal(capsys, monkeypatch, words, terminal):
    monkeypatch.setenv("COLUMNS", terminal)
    _, out, _ = params(capsys, *words.split(), "--ascii")
    assert max(map(len, out.splitlines())) <= int(terminal)
    assert out.isascii()


@pytest.mark.parametrize("words", EXAMPLES)
def test_programs_get_one_document_without_an_unexplained_null(capsys, words):
    _, out, err = params(capsys, *words.split(), "--json")
    found = json.loads(out)
    assert (found["schema"], found["document"], found["peakmark"]) == (1, "calc-params", "0.1.0")
    assert (unexplained(found), err) == ([], "")
    assert found["kind"] == words.split()[0]


def test_plain_is_one_figure_a_line(capsys):
    _, out, _ = params(capsys, "decoder", "experts=4", "--plain")
    lines = dict(line.partition(" ")[::2] for line in out.splitlines())
    assert lines["arguments.kv_heads"] == "n/a follows: heads"
    assert lines["terms.token_embedding.parameters_count"] == str(256 * 128)
    assert int(lines["further.active_on_one_token.count"]) < int(lines["parameters_count"])


def test_shards_say_how_they_were_cut_and_what_is_padding(capsys):
    _, flat, _ = params(capsys, "shard", "shape=18", "ranks=4", "by=flat")
    assert "slice of every rank          5  up(elements / ranks) = up(18 / 4)" in flat.splitlines()
    assert "padding over all ranks       2  ranks x slice - elements = 4 x 5 - 18" in flat.splitlines()
    _, rows, _ = params(capsys, "shard", "shape=9,2", "ranks=4")
    assert "slice of every rank          6  up(rows / ranks) x row = up(9 / 4) x 2" in rows.splitlines()
    assert "row-wise, as fully_shard" in rows


# --- params: the list ---------------------------------------------------------------------------------------


def test_without_words_every_layer_and_family_is_listed_with_its_defaults(capsys):
    code, out, _ = params(capsys)
    assert code == 0
    assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in KINDS)
    assert "in= out= kernel= dims=2 groups=1 bias=true transposed=false" in out
    assert "entries= width= held_by=0,1 stages=2" in out


def test_the_list_for_programs_explains_every_default_that_follows_from_others(capsys):
    _, out, _ = params(capsys, "--json")
    found = json.loads(out)
    assert set(found["kinds"]) == set(KINDS)
    assert unexplained(found) == []
    assert found["unknown"]["kinds.decoder.arguments.kv_heads.default"] == "follows: heads"


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_can_be_listed_with_what_its_arguments_mean(capsys, monkeypatch, kind):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = params(capsys, "--list", kind)
    assert code == 0
    assert all(re.search(rf"^\[?{one.name}\b", out, re.MULTILINE) for one in KINDS[kind].arguments)
    assert max(map(len, out.splitlines())) <= 60


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_be_given_is_said_and_everything_else_has_a_default(capsys, kind):
    needed = [one.name for one in KINDS[kind].arguments if one.required]
    code, _, err = params(capsys, kind)
    assert code == (2 if needed else 0)
    assert (
        not needed or f"{kind} needs {' and '.join(needed)}; see: peakmark calc params --list {kind}" in err
    )


# --- params: mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("decodr", "there is no formula of decodr; did you mean decoder?"),
        ("linear", "there is no formula of linear; it is called dense"),
        ("nn.Conv1d", "there is no formula of nn.Conv1d; it is called conv with dims=1"),
        ("BatchNorm2d", "it is called norm with kind=batch"),
        ("decoder widht=1", "widht is not an argument of decoder; did you mean width?"),
        (
            "decoder 12",
            "12 has no value; write NAME=VALUE, as layers=...; see: peakmark calc params --list decoder",
        ),
        ("decoder layers=", 'layers must be a whole number of at least 1, got the text ""'),
        ("decoder layers=1.5", 'layers must be a whole number of at least 1, got the text "1.5"'),
        ("decoder layers=-1", "layers must be a whole number of at least 1, got -1"),
        ("decoder layers=²", 'layers must be a whole number of at least 1, got the text "²"'),
        ("decoder vocab=50,25", 'vocab must be a whole number of at least 1, got the text "50,25"'),
        ("decoder layers=1 layers=2", "layers is given twice"),
        ("decoder tied=True", 'tied must be true or false, got the text "True"'),
        ("decoder norm=rms", 'norm must be one of "layernorm", "rmsnorm", got the text "rms"; did you mean'),
        ("decoder dropout=nan", 'dropout must be a number from 0 up to but not 1, got the text "nan"'),
        ("decoder rope_base=1e999", "rope_base must be a number above 0, got inf"),
        ("decoder layers=9999999999999999999", "layers has more than 18 digits; check the number"),
        ("dense in=999999999999 out=999999999999", "1.0e+24 parameters are more than any device holds"),
        ("convnet channels=8,,16", 'channels must hold whole numbers of at least 1, got the text ""'),
        ("convnet channels=1,024", 'channels must hold whole numbers of at least 1, got the text "024"'),
        ("convnet depths=1,2", "depths must have one number for each of 3 stages, got 2"),
        ("conv in=3 out=4", "conv needs kernel; see: peakmark calc params --list conv"),
        ("conv in=3 out=4 kernel=3 groups=3", "groups = 3 must divide both 3 and 4 channels"),
        ("conv in=3 out=4 kernel=1,1,1,1", "kernel must have 1, 2 or 3 sides, got 4"),
        ("conv in=3 out=4 kernel=3 dims=4", "dims must be a whole number from 1 to 3, got 4"),
        ("norm width=3 kind=rms bias=true", "an RMS norm has no bias"),
        ("attention width=8 heads=3", "heads = 3 must divide width = 8, or head_dim must be given"),
        ("experts width=8 hidden=8 experts=2 top_k=3", "top_k = 3 must be at most experts = 2"),
        ("lstm in=3 hidden=4 proj_size=4", "proj_size = 4 must be less than hidden = 4"),
        ("weight_norm shape=8,4 dim=2", "dim = 2 is not a dimension of a shape of 2"),
        ("packed in=8 out=8 bits=9", "bits must be a whole number from 1 to 8, got 9"),
        ("tied entries=8 width=8 held_by=0,2", "held_by = 2 is no stage: they are 0 to 1"),
        ("--list conv in=3", "--list takes no values, got in=3"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, words, sentence):
    code, out, err = params(capsys, *words.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_mistake_is_a_document_for_programs(capsys):
    code, out, _ = params(capsys, "--json", "conv", "in=3")
    assert (code, json.loads(out)["document"]) == (2, "error")


def test_numbers_may_be_grouped_as_sizes_are(capsys):
    one, two, three = (
        params(capsys, "dense", f"in={text}", "out=1")[1] for text in ("50,257", "50_257", "50257")
    )
    assert one == two == three


def test_options_may_stand_between_the_words(capsys):
    words = ("conv", "in=3", "out=4", "kernel=3")
    usual = params(capsys, *words, "--json")
    assert params(capsys, "--json", *words) == params(capsys, *words[:2], "--json", *words[2:]) == usual
    assert calc(capsys, "--json", "params", *words) == usual


def test_an_option_without_its_value_takes_no_word_for_it(capsys):
    for words in (("a=1:int8", "--batch"), ("--batch", "a=1:int8"), ("--budget",)):
        code, _, said = calc(capsys, "batch", *words)
        assert code == 2
        assert f"argument {next(one for one in words if one[0] == '-')}: expected a value" in said


# --- batch --------------------------------------------------------------------------------------------------

SAMPLE = ["logits=1024x50257:fp32*3", "mlp=1024x3072:bf16*24", "h=1024x768:bf16*123"]


def batch(capsys, *words):
    return calc(capsys, "batch", *words)


def test_a_batch_shows_every_tensor_the_sum_and_the_largest_batch(capsys):
    code, out, _ = batch(capsys, "--fixed", "2305218344", "--budget", "59485716480", *SAMPLE)
    assert code == 0
    assert out.splitlines() == [
        "logits       617,558,016 B    588.9 MiB  3 x 1024x50257 fp32",
        "mlp          150,994,944 B    144.0 MiB  24 x 1024x3072 bf16",
        "h            193,462,272 B    184.5 MiB  123 x 1024x768 bf16",
        "a sample     962,015,232 B    917.4 MiB",
        "fixed      2,305,218,344 B    2.147 GiB",
        "budget    59,485,716,480 B   55.400 GiB",
        "largest   (59,485,716,480 - 2,305,218,344) / 962,015,232 = 59.4 -> 59",
        "batch 59  2,305,218,344 + 59 x 962,015,232 = 59,064,117,032 B, 55.008 GiB;",
        "          421,599,448 B to spare",
        "PLANNING AID, fixed shapes: leaves out rounding, cached blocks, fragmentation,",
        "    operator scratch, library workspaces and the device's context; the real",
        "    limit is lower. Prove it: peakmark probe",
    ]


def test_a_sample_that_does_not_fit_says_by_how_much(capsys):
    code, out, _ = batch(capsys, "a=10:int8", "--fixed", "95", "--budget", "100")
    assert code == 1
    assert "largest   (100 - 95) / 10 = 0.5 -> 0" in out.splitlines()
    assert "DOES NOT FIT: one sample is 5 B over the budget" in out.splitlines()
    code, out, _ = batch(capsys, "a=10:int8", "--fixed", "1 KiB", "--budget", "1 kB", "--json")
    found = json.loads(out)
    assert (code, found["largest_batch_count"], found["short_bytes"]) == (1, 0, 34)
    assert found["verdict"] == {"word": "does not fit"}


def test_a_batch_that_is_asked_about_is_held_against_the_budget(capsys):
    code, out, _ = batch(capsys, "a=10:int8", "--budget", "100", "--batch", "10", "--json")
    found = json.loads(out)
    assert (code, found["batch_bytes"], found["spare_bytes"], found["verdict"]["word"]) == (0, 100, 0, "fits")
    code, out, _ = batch(capsys, "a=10:int8", "--budget", "100", "--batch", "11")
    assert code == 1
    assert "DOES NOT FIT: a batch of 11 is 10 B over the budget" in out.splitlines()


def test_without_a_budget_only_the_bytes_of_the_batch_are_known(capsys):
    code, out, _ = batch(capsys, "a=10:int8", "--batch", "3", "--json")
    found = json.loads(out)
    assert (code, found["batch_bytes"], found["largest_batch_count"]) == (0, 30, None)
    assert unexplained(found) == []
    assert (found["schema"], found["document"]) == (1, "calc-batch")


def test_bytes_are_exact_for_every_dtype():
    torch = pytest.importorskip("torch")
    names = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
    for name in [*names, "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "float8_e4m3fn"]:
        real = torch.empty(3, 5, dtype=getattr(torch, names.get(name, name)), device="meta")
        assert SampleTensor("a", (3, 5), name).bytes == real.nbytes, name
    assert SampleTensor("a", (3, 5), "int4").bytes == 8
    assert SampleTensor("a", (3, 5), "nf4", 2).bytes == 16


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.sampled_from(sorted(BITS))),
        min_size=1,
    ),
    st.integers(0, 500),
    st.integers(0, 2000),
)
@settings(max_examples=60, deadline=None)
def test_the_largest_batch_fits_and_one_more_does_not(sample, fixed, budget):
    tensors = tuple(
        SampleTensor(str(place), tuple(shape), dtype) for place, (shape, dtype) in enumerate(sample)
    )
    plan = Plan(tensors, fixed, budget)
    assert plan.bytes(plan.largest + 1) > budget
    assert plan.bytes(plan.largest) <= budget or plan.largest == 0
    assert (plan.short_bytes > 0) == (plan.largest == 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a=3:fp32"], "nothing is asked; give --budget BYTES, --batch N, or both"),
        (["a=3:fp23", "--batch", "1"], "fp23 is no dtype of a; did you mean fp32?"),
        (["a=3", "--batch", "1"], "a=3 is no tensor; write NAME=SHAPE:DTYPE*COUNT"),
        (["=3:fp32", "--batch", "1"], "=3:fp32 is no tensor"),
        (["a=3x:fp32", "--batch", "1"], "3x is no shape of a; write whole numbers as 1024x50257"),
        (["a=0x3:fp32", "--batch", "1"], "0x3 is no shape of a"),
        (["a=3:fp32*0", "--batch", "1"], "*0 of a must be a whole number of at least 1"),
        (["a=3:fp32", "a=4:fp32", "--batch", "1"], "tensor a is given twice"),
        (["a=3:fp32", "--batch", "0"], "argument --batch: must be a whole number, 1 or more, got '0'"),
        (["a=3:fp32", "--budget", "1G"], 'argument --budget: "1G" could mean two sizes; write "1 GiB"'),
        (["a=3:fp32", "--budget", "-5"], 'argument --budget: "-5" is negative; write a size of 0 or more'),
        (
            ["a=999999999999x999999999999:fp32", "--batch", "1"],
            "4.0e+24 bytes are more than any device holds",
        ),
        (["x".join(["a=9", *20 * [18 * "9"]]) + ":fp32", "--batch", "1"], "3.6e+361 bytes are more than"),
        (["--budget", "1GB"], "the following arguments are required: NAME=SHAPE:DTYPE*COUNT"),
    ],
)
def test_a_mistake_in_a_batch_is_one_sentence_and_exit_code_2(capsys, words, sentence):
    code, out, err = batch(capsys, *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_name_moves_no_cursor_and_breaks_no_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    name = "\x1b[31m" + 40 * "日本"
    code, out, _ = batch(capsys, f"{name}={'x'.join(40 * ['1'])}:fp32", "--budget", "1 TiB")
    assert code == 0
    assert "\x1b" not in out
    assert max(map(columns, out.splitlines())) <= 60


def test_the_examples_in_the_docstrings_hold():
    result = doctest.testmod(importlib.import_module("tui.report.text_calc"))
    assert result.attempted
    assert not result.failed
