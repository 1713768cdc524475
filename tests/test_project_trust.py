"""What a project would run, whether that is allowed, and the fingerprint of what was measured."""

import hashlib
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from project_samples import USER

from tui.errors import ProjectError
from tui.project import fingerprint, save, trust
from tui.project.load import Project, load
from tui.project.measured import Inventory, Measured

OWN = USER.replace('source = "decoder"', 'source = "workload.py:tiny"')


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKMARK_STATE", str(tmp_path / "state"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("workload.py").write_text("def build(): ...\n")
    return Path("gpt.toml")


def project(path: Path, text: str, local: str = "") -> Project:
    path.write_text(text)
    if local:
        path.with_name("gpt.local.toml").write_text(local)
    return load(path)


def test_a_family_runs_nothing_of_its_own_and_needs_no_answer(path):
    found = project(path, USER)
    assert trust.what_runs(found) == ()
    assert trust.is_allowed(found)
    trust.require(found, False)


def test_a_model_description_in_json_needs_no_answer(path):
    Path("config.json").write_text("{}")
    assert trust.what_runs(project(path, USER.replace('"decoder"', '"config.json"', 1))) == ()


def test_everything_that_would_run_is_listed_with_its_hash(path):
    Path("mine.py").write_text("class Opt: ...\n")
    text = OWN.replace('"torch.optim.AdamW"', '"mine:Opt"')
    runs = trust.what_runs(
        project(path, text, "[environment]\npython = '/no/python'\nlaunch = 'srun --overlap'\n")
    )
    assert [(one.key, one.text) for one in runs] == [
        ("workload.source", "workload.py:tiny"),
        ("workload.optimizer.name", "mine:Opt"),
        ("environment.python", "/no/python"),
        ("environment.launch", "srun --overlap"),
    ]
    assert runs[0].sha256 == hashlib.sha256(b"def build(): ...\n").hexdigest()
    assert runs[1].sha256 == hashlib.sha256(b"class Opt: ...\n").hexdigest()
    assert runs[3].sha256 == hashlib.sha256(b"srun --overlap").hexdigest()


def test_what_nobody_allowed_is_refused_with_its_line_and_hash(path):
    digits = hashlib.sha256(b"def build(): ...\n").hexdigest()[:4]
    with pytest.raises(ProjectError) as caught:
        trust.require(project(path, OWN), False)
    assert str(caught.value) == (
        "gpt.toml:5: workload.source is Python you have not allowed here "
        f"(workload.py:tiny, sha256 {digits}…); read it, then add --trust"
    )


def test_trust_for_one_command_is_not_kept(path):
    found = project(path, OWN)
    trust.require(found, True)
    assert not trust.is_allowed(found)


def test_an_answer_is_kept_for_this_user_outside_the_project(path, tmp_path):
    found = project(path, OWN)
    before = path.read_bytes()
    trust.allow(found)
    assert trust.is_allowed(load(path))
    trust.require(load(path), False)
    kept = tmp_path / "state" / "trust.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(json.loads(kept.read_text())["allowed"]) == [str(path.resolve())]
    assert path.read_bytes() == before


def test_answers_for_two_projects_stand_side_by_side(path):
    other = path.with_name("other.toml")
    for one in (path, other):
        trust.allow(project(one, OWN))
    assert trust.is_allowed(load(path))
    assert trust.is_allowed(load(other))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("workload.py", "import os\n"),
        ("gpt.toml", OWN.replace(":tiny", ":other")),
        ("gpt.toml", OWN.replace('"torch.optim.AdamW"', '"mine.Opt"')),
        ("gpt.local.toml", "[environment]\nlaunch = 'sh -c true'\n"),
        ("gpt.local.toml", "[environment]\npython = './python'\n"),
        ("run.sh", "true\n"),
    ],
)
def test_an_answer_lapses_when_any_of_it_changes(path, file, text):
    Path("run.sh").write_text('exec "$@"\n')
    trust.allow(project(path, OWN, "[environment]\nlaunch = './run.sh'\n"))
    assert trust.is_allowed(load(path))
    Path(file).write_text(text)
    assert not trust.is_allowed(load(path))


def test_changes_that_run_nothing_else_keep_the_answer(path):
    trust.allow(project(path, OWN))
    save.edit(path, {"workload.batch.micro": 2, "title": "x"})
    assert trust.is_allowed(load(path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"allowed": 3}', '{"allowed": {"x": 3}}'])
def test_a_damaged_answer_file_allows_nothing_and_is_replaced(path, tmp_path, text):
    found = project(path, OWN)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text(text)
    assert not trust.is_allowed(found)
    trust.allow(found)
    assert trust.is_allowed(found)


def test_a_workload_file_that_is_missing_is_named_with_its_line(path):
    Path("workload.py").unlink()
    found = project(path, OWN)
    for ask in (trust.what_runs, trust.is_allowed, fingerprint.spec_hash):
        with pytest.raises(ProjectError) as caught:
            ask(found)
        assert str(caught.value) == (
            'gpt.toml:5: workload.source = "workload.py:tiny": there is no file workload.py beside gpt.toml; '
            "correct the name or write that file"
        )


# --- fingerprint --------------------------------------------------------------------------------


def test_a_fingerprint_is_twelve_digits_and_stays_the_same(path):
    first = fingerprint.spec_hash(project(path, OWN))
    assert first.startswith("sha256:")
    assert len(first) == len("sha256:") + 12
    assert int(first[7:], 16) >= 0
    assert fingerprint.spec_hash(load(path)) == first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A small decoder", "Another title"),
        ('"60 GiB"', '"50 GiB"'),
        ('"bf16-autocast"]', '"tf32"]'),
        ("[budget]", '[quality]\ntarget = 3.0\n[notes]\nbrief = "x"\n[budget]'),
        ("[budget]", '[environment]\ndevice = "cpu"\n[budget]'),
        ("lr = 6e-4, betas = [0.9, 0.95]", "betas = [0.9, 0.95], lr = 6e-4"),
        ('remainder = "drop"\n', ""),
        ("# samples", "# other comment"),
    ],
)
def test_what_changes_no_measurement_changes_no_fingerprint(path, old, new):
    first = fingerprint.spec_hash(project(path, OWN))
    assert old in OWN
    assert fingerprint.spec_hash(project(path, OWN.replace(old, new))) == first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("micro = 8", "micro = 4"),
        ("layers = 2", "layers = 3"),
        ("lr = 6e-4", "lr = 6e-3"),
        (":tiny", ":other"),
        ('use = "fp32"', 'use = "tf32"'),
        ("[budget]", "[placement]\nranks = 2\n[budget]"),
    ],
)
def test_what_changes_a_measurement_changes_the_fingerprint(path, old, new):
    first = fingerprint.spec_hash(project(path, OWN))
    changed = project(path, OWN.replace(old, new))
    assert fingerprint.spec_hash(changed) != first
    assert fingerprint.stale(first, changed)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("micro = 8", "micro = 4", True),
        ("lr = 6e-4", "lr = 6e-3", True),
        ("layers = 2", "layers = 3", False),
        (":tiny", ":other", False),
        ('use = "fp32"', 'use = "bf16"', False),  # the bytes of what is counted
        ("[budget]", "[placement]\nranks = 2\n[budget]", False),  # and the share of a rank
    ],
)
def test_a_count_of_parameters_outlives_what_it_does_not_depend_on(path, old, new, same):
    first = fingerprint.model_hash(project(path, OWN))
    assert (fingerprint.model_hash(project(path, OWN.replace(old, new))) == first) == same


def test_a_count_of_an_earlier_version_is_of_the_whole_spec(path):
    found = project(path, OWN)
    spec, model = fingerprint.spec_hash(found), fingerprint.model_hash(found)
    counted = {
        mark: replace(found, measured=Measured(inventory=Inventory(spec, 1, 1, 4, 1, 0, 0, 1, 1, model=mark)))
        for mark in (model, "", "sha256:other")
    }
    assert [fingerprint.is_counted(one) for one in counted.values()] == [True, True, False]
    edited = project(path, OWN.replace("micro = 8", "micro = 4"))
    later = [fingerprint.is_counted(replace(edited, measured=one.measured)) for one in counted.values()]
    assert later == [True, False, False]
    assert not fingerprint.is_counted(found)


def test_another_content_of_the_workload_file_makes_measurements_stale(path):
    found = project(path, OWN)
    first = fingerprint.spec_hash(found)
    assert not fingerprint.stale(first, found)
    assert not fingerprint.stale(first[: len("sha256:") + 8], found)
    Path("workload.py").write_text("def build(): return 1\n")
    assert fingerprint.stale(first, found)


@pytest.mark.parametrize("short", ["", "sha256:", "sha256:4be1"])
def test_a_fingerprint_too_short_to_mean_anything_is_stale(path, short):
    assert fingerprint.stale(short, project(path, USER))
