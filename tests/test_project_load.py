"""Reading a project file: what is right becomes values, what is wrong becomes one sentence."""

import os
from pathlib import Path

import pytest
from project_samples import USER, measured, with_measured

from tui.errors import ProjectError
from tui.project.encode import measured_text
from tui.project.load import load, parse
from tui.project.marker import MARKER
from tui.project.model import LengthSpec

PATH = Path("gpt.toml")


def said(text: str | bytes) -> str:
    """The sentence that refuses ``text``."""
    with pytest.raises(ProjectError) as caught:
        parse(PATH, text if isinstance(text, bytes) else text.encode())
    assert caught.value.code == 2
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert USER.count(old) == 1
    return USER.replace(old, new)


def line_of(old: str) -> int:
    return USER[: USER.index(old)].count("\n") + 1


def test_a_project_is_read_into_values_with_the_line_of_each_key():
    project = parse(PATH, USER.encode())
    workload = project.spec.workload
    assert workload.batch.micro == 8
    assert workload.batch.length == LengthSpec(32, 16, 24)
    assert workload.optimizer.args == {"lr": 6e-4, "betas": [0.9, 0.95]}
    assert project.spec.precision.compare == ("fp32", "bf16-autocast")
    assert project.spec.budget.job == 60 * 2**30
    assert project.spec.quality.batches == 8
    assert project.at("workload.batch.micro") == f"gpt.toml:{line_of('micro = 8')}"
    assert project.at("workload.batch.tokens") == f"gpt.toml:{line_of('[workload.batch]')}"
    assert project.at("quality.target") == "gpt.toml"


def test_one_number_is_the_length_of_every_sample():
    text = changed("{ min = 16, typical = 24, max = 32 }", "1024")
    assert parse(PATH, text.encode()).spec.workload.batch.length == LengthSpec(1024)


def test_a_bare_integer_is_a_budget_in_bytes():
    text = changed('"60 GiB"', "5368709120")
    assert parse(PATH, text.encode()).spec.budget.job == 5 * 2**30


def test_an_integer_is_fine_where_a_float_is_meant():
    clip = parse(PATH, changed("clip_norm = 1.0", "clip_norm = 2").encode()).spec.workload.optimizer.clip_norm
    assert clip == 2.0
    assert isinstance(clip, float)


def test_windows_line_ends_change_nothing():
    assert parse(PATH, USER.replace("\n", "\r\n").encode()).spec == parse(PATH, USER.encode()).spec


SPEC_FAULTS = {
    "unknown key": (
        "micro = 8",
        "micro_batch = 8",
        "workload.batch.micro_batch is not a key here; did you mean micro?",
    ),
    "misspelt": (
        "remainder",
        "remaindr",
        "workload.batch.remaindr is not a key here; did you mean remainder?",
    ),
    "other table": (
        "use = ",
        "micro = 1\nuse = ",
        "precision.micro is not a key here; did you mean workload.batch.micro?",
    ),
    "lr": ("clip_norm = 1.0", "lr = 1.0", "workload.optimizer.lr is not a key here; did you mean args.lr?"),
    "no idea": (
        "job = ",
        "zzz = 1\njob = ",
        "budget.zzz is not a key here; known here: job, reserve, reserve_for, reserve_parts",
    ),
    "quoted": (
        "micro = 8",
        'micro = "8"',
        'workload.batch.micro must be a whole number, got the text "8"; remove the quotes',
    ),
    "words": ("micro = 8", 'micro = "many"', 'got the text "many"; write a number'),
    "boolean": (
        "accumulate = 4",
        "accumulate = true",
        "must be a whole number, got true; write 1 for no accumulation",
    ),
    "float": ("micro = 8", "micro = 8.0", "workload.batch.micro must be a whole number, got 8.0; write 8"),
    "fraction": ("micro = 8", "micro = 8.5", "got 8.5; write a number without a fraction"),
    "nan for int": ("micro = 8", "micro = nan", "got nan"),
    "huge": ("micro = 8", "micro = 99999999999999999999", "does not fit in 64 bits"),
    "table": ("micro = 8", "micro = {}", "must be a whole number, got a table"),
    "zero": ("micro = 8", "micro = 0", "workload.batch.micro must be at least 1, got 0"),
    "negative": ("accumulate = 4", "accumulate = -4", "must be at least 1, got -4"),
    "quoted float": (
        "clip_norm = 1.0",
        'clip_norm = "1.0"',
        'must be a number, got the text "1.0"; remove the quotes',
    ),
    "nan": ("clip_norm = 1.0", "clip_norm = nan", "workload.optimizer.clip_norm must be finite, got nan"),
    "clip": ("clip_norm = 1.0", "clip_norm = 0", "must be greater than 0, got 0; delete the line"),
    "inf in args": ("lr = 6e-4", "lr = inf", "workload.optimizer.args.lr must be finite, got inf"),
    "huge in args": ("lr = 6e-4", f"lr = {2**63}", "optimizer.args.lr does not fit in 64 bits"),
    "date in args": ("lr = 6e-4", "lr = 2026-12-01", "cannot be a date or time"),
    "text": ('title = "A small decoder"', "title = 3", 'title must be text, got 3; write "3"'),
    "array": (
        'compare = ["fp32", "bf16-autocast"]',
        'compare = "fp32"',
        'must be an array, got the text "fp32"; write ["fp32"]',
    ),
    "no table": (
        "length = { min = 16, typical = 24, max = 32 }",
        "length = [1]",
        "must be a table, got an array",
    ),
    "order": ("min = 16", "min = 26", "workload.batch.length.min (26) is larger than typical (24)"),
    "max": ("typical = 24, max = 32", "max = 12", "workload.batch.length.min (16) is larger than max (12)"),
    "no max": (", max = 32", "", "workload.batch.length.max is missing; add max = ..."),
    "zero length": ("min = 16", "min = 0", "workload.batch.length.min must be at least 1, got 0"),
    "choice": ('"drop"', '"dorp"', 'must be drop, pad or keep, got "dorp"; did you mean drop?'),
    "setting": ('use = "fp32"', 'use = "fp64"', "precision.use must be fp32, tf32,"),
    "compared": ('"bf16-autocast"]', '"bfloat"]', 'got "bfloat"'),
    "twice": ('"bf16-autocast"]', '"fp32"]', "precision.compare names a setting twice"),
    "none": ('["fp32", "bf16-autocast"]', "[]", "precision.compare is empty"),
    "unit": (
        '"60 GiB"',
        '"60 G"',
        'budget.job = "60 G" could mean two sizes; write "60 GiB" (64,424,509,440 B) or',
    ),
    "negative size": ('"4 GiB"', '"-4 GiB"', 'budget.reserve = "-4 GiB" is negative'),
    "size true": ('"4 GiB"', "true", "budget.reserve = true is not a size"),
    "size array": ('"4 GiB"', "[4]", "budget.reserve must be a whole number, got an array"),
    "source": (
        '"decoder"\n',
        '"decodr"\n',
        'workload.source = "decodr" is not decoder, encoder, mlp or convnet',
    ),
    "optimizer": ('"torch.optim.AdamW"', '"AdamW"', "is not the name of a class"),
    "schema": (
        "schema = 1",
        "schema = 2",
        "schema = 2 is newer than this peakmark reads (1); upgrade peakmark; the file was not changed",
    ),
    "schema 0": ("schema = 1", "schema = 0", "schema = 0 never existed"),
    "schema text": ("schema = 1", 'schema = "1"', "schema must be a whole number"),
    "python": (
        "[budget]",
        '[environment]\npython = "x"\n[budget]',
        "belongs to this machine alone; move it to [environment] in gpt.local.toml",
    ),
    "device": ("[budget]", '[environment]\ndevice = "cuda"\n[budget]', 'got "cuda"; write "auto"'),
    "seeds": ("[budget]", "seeds = 0\n[budget]", "precision.seeds must be at least 1"),
    "direction": (
        "[budget]",
        '[quality]\ndirection = "up"\n[budget]',
        'quality.direction must be min or max, got "up"',
    ),
    "compile": (
        "[precision]",
        '[workload.step]\ncompile = "true"\n[precision]',
        'must be true or false, got the text "true"; remove the quotes',
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), SPEC_FAULTS.values(), ids=SPEC_FAULTS)
def test_a_wrong_value_is_named_with_file_line_key_and_a_way_to_mend_it(old, new, sentence):
    text = said(changed(old, new))
    assert sentence in text
    assert text.startswith("gpt.toml:")
    assert "; " in text


@pytest.mark.parametrize("name", ["unknown key", "quoted", "boolean", "unit", "clip", "choice", "order"])
def test_the_line_is_that_of_the_key(name):
    old, new, _ = SPEC_FAULTS[name]
    assert said(changed(old, new)).startswith(f"gpt.toml:{line_of(old)}: ")


def test_a_reserve_that_leaves_nothing_names_both_lines():
    assert said(changed('"4 GiB"', '"64 GiB"')) == (
        f"gpt.toml:{line_of('reserve =')}: budget.reserve (64 GiB) is not smaller than budget.job (60 GiB, "
        f"line {line_of('job =')}), so nothing could fit; lower it or raise the job's budget"
    )


def test_what_is_required_is_asked_for():
    assert said("") == "gpt.toml:1: schema is missing; write schema = 1 as the first line"
    assert said("schema = 1\n").startswith("gpt.toml: workload.source is missing; add source = ")
    assert said("schema = 1\n\n[workload]\nargs = {}\n").startswith("gpt.toml:3: workload.source is missing")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = { b = 1 c = 2 }\n", ":1: not valid TOML: a comma or } is missing after 1"),
        ("\na = [1 2]\n", ":2: not valid TOML: a comma or ] is missing after 1"),
        ('a = "x\nb = 1\n', ":1: not valid TOML: a closing quote is missing after "),
        ("a = 1\n\nb\n", ":3: not valid TOML: an = is missing after b"),
        ("a = yes\n", ":1: not valid TOML: a value is missing or needs quotes after ="),
        ("a = 1\na = 2\n", ":2: not valid TOML: the key a is there twice"),
        ("[a]\n[a]\n", ":2: not valid TOML: the table [a] is there twice"),
        ("[a\n", ":1: not valid TOML: a ] is missing after a"),
        ("a = '''x", ":1: not valid TOML: a closing ''' is missing"),
        ("a = " + "9" * 5000, ":1: not valid TOML: a number has too many digits"),
        ("a = " + "[" * 5000, ": is nested too deeply"),
    ],
)
def test_what_is_not_toml_is_said_in_words_with_its_line(text, sentence):
    assert said(text).startswith("gpt.toml" + sentence)


def test_bytes_that_are_not_utf8_are_named_with_their_line():
    assert said(b"schema = 1\n# caf\xe9\n").startswith(
        "gpt.toml:2: is not UTF-8: byte 0xe9; save it as UTF-8"
    )
    assert said(b"\xef\xbb\xbfschema = 1\n").startswith("gpt.toml:1: begins with a byte order mark; ")


def test_a_missing_file_comes_with_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProjectError) as caught:
        load(PATH)
    assert str(caught.value) == "gpt.toml: no such file; create it with: peakmark new gpt.toml --from decoder"


def test_a_folder_and_a_device_are_not_projects(tmp_path):
    with pytest.raises(ProjectError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(ProjectError, match="is not a regular file"):
        load(Path(os.devnull))
    with pytest.raises(ProjectError, match="cannot be read: not a directory"):
        load(Path(os.devnull) / "gpt.toml")


# --- the measured part --------------------------------------------------------------------------


def test_the_measured_part_is_read_with_the_lines_of_the_whole_file():
    text = with_measured(measured_text(measured("p-1")))
    project = parse(PATH, text.encode())
    assert project.measured == measured("p-1")
    line = text[: text.index("[measured.operating.o-1]")].count("\n") + 1
    assert project.at("measured.operating.o-1") == f"gpt.toml:{line}"


def test_rows_that_somebody_edited_no_longer_add_up():
    text = with_measured(measured_text(measured("p-1"))).replace("gradients = 20", "gradients = 19", 1)
    sentence = said(text)
    assert (
        'measured.probe.p-1.phases."first.backward".rows sum to 29, requested_bytes says 30; '
        "undo the edit (git checkout) or delete that table and probe again"
    ) in sentence
    number = int(sentence.split(":")[1])
    assert text.splitlines()[number - 1] == '[measured.probe.p-1.phases."first.backward".rows]'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"first.backward"', '"first.backwards"', "is not a phase; did you mean first.backward?"),
        ("gradients = 20", "gradient = 20", "is not a row of the ledger; did you mean gradients?"),
        ("gradients = 20", "gradients = -20", "rows.gradients is negative"),
        ("micro_batch = 8", 'micro_batch = "8"', 'must be a whole number, got the text "8"; undo the edit'),
        ("micro_batch = 8", "micro_bat = 8", "is not a key here; did you mean micro_batch?"),
        ("micro_batch = 8", "", "measured.probe.p-1.micro_batch is missing; undo the edit"),
        ("at = 2026-12-01T14:12:03Z", "at = 2026-12-01T14:12:03", "must be a date and time in UTC"),
        ("seconds = 1.5", "seconds = nan", "measured.verify.v-1.seconds must be finite"),
        ("[measured.verify.v-1]", "[extra]\n[measured.verify.v-1]", "extra stands below the marker line"),
    ],
)
def test_an_edited_result_is_refused_with_its_key(old, new, sentence):
    text = with_measured(measured_text(measured("p-1")))
    assert old in text
    assert sentence in said(text.replace(old, new))


def test_losses_that_diverged_are_results_and_may_be_nan_in_an_array():
    text = with_measured(measured_text(measured("p-1"))).replace(
        "micro_batch = 8", "micro_batch = 8\nstep_ms = [1.5, nan, inf]"
    )
    first, second, third = parse(PATH, text.encode()).measured.probe["p-1"].step_ms
    assert (first, second != second, third) == (1.5, True, float("inf"))


def test_results_without_the_marker_line_are_refused_with_that_line():
    sentence = said(USER + "\n[measured.probe]\n")
    assert sentence.startswith(
        f"gpt.toml:{USER.count(chr(10)) + 2}: [measured] stands in the hand-written part"
    )
    assert sentence.endswith(MARKER)


def test_results_above_the_marker_line_are_refused():
    assert "[measured] stands in the hand-written part; keep results below" in said(
        with_measured("", "measured.x = 1\n" + USER)
    )


def test_two_marker_lines_are_refused_with_their_lines():
    last = USER.count("\n")
    assert f"the marker line stands here 2 times (lines {last + 1}, {last + 2})" in said(
        f"{USER}{MARKER}\n{MARKER}\n"
    )


def test_a_marker_line_inside_a_text_is_not_taken_for_the_border():
    text = f"{USER}[notes]\nbrief = '''\n{MARKER}\n'''\n"
    assert said(text).startswith(f"gpt.toml:{USER.count(chr(10)) + 3}: the marker line stands inside a text")


def test_a_marker_at_the_end_of_a_line_is_a_comment_and_no_border():
    assert parse(PATH, f"{USER.rstrip()} {MARKER}".encode()).measured == measured("p-1").__class__()


def test_a_bare_key_below_the_marker_cannot_join_the_last_table_above_it():
    assert "reserve_for stands below the marker line; move it above" in said(
        with_measured('reserve_for = "x"\n')
    )


# --- the local file -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PATH.write_text(USER)
    return tmp_path


def test_the_local_file_adds_interpreter_and_launch_prefix(folder):
    Path("gpt.local.toml").write_text(
        '[environment]\npython = "/opt/bin/python"\nlaunch = "srun --overlap"\n'
    )
    project = load(PATH)
    assert project.spec.environment.python == "/opt/bin/python"
    assert project.spec.environment.launch == "srun --overlap"
    assert project.spec.environment.device == "auto"
    assert project.at("environment.launch") == "gpt.local.toml:3"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[environment]\ndevice = "cpu"\n', ":2: environment.device is not a key here; did you mean"),
        ("schema = 1\n", ":1: schema is not a key here"),
        ("[environment]\npython = 3\n", ":2: environment.python must be text, got 3"),
        ('[environment]\npython = " "\n', ":2: environment.python is empty; delete the line"),
        (
            "[environment]\nlaunch = 'srun \"a'\n",
            ":2: environment.launch cannot be split into arguments: no closing",
        ),
        ("[environment\n", ":1: not valid TOML: a ] is missing"),
    ],
)
def test_a_fault_of_the_local_file_names_that_file(folder, text, sentence):
    Path("gpt.local.toml").write_text(text)
    with pytest.raises(ProjectError) as caught:
        load(PATH)
    assert str(caught.value).startswith("gpt.local.toml" + sentence)


def test_an_empty_local_file_says_nothing(folder):
    Path("gpt.local.toml").write_text("")
    assert load(PATH).spec.environment.python is None
