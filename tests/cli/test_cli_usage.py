"""What the command line does before anything is measured: help, mistakes, bad files, new projects."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_shell import ROOT, TINY, Shell, finished, without_privileges

from tui.cli import COMMANDS, main
from tui.project.load import load
from tui.project.model import LengthSpec


def test_help_names_every_command_and_loads_neither_textual_nor_torch():
    code = (
        "import sys; from tui.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as error:\n    assert not error.code\n"
        "print([name for name in ('textual', 'rich', 'torch', 'pynvml', 'asyncio') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert all(f"\n    {name}" in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert not ended.value.code
    assert "--json" in capsys.readouterr().out


def test_closed_streams_are_no_obstacle(shell: Shell):
    shell.write(TINY)
    command = '"$0" -m tui ledger "$1" >&- 2>&-'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable, str(shell.folder / "tiny.toml")],
        cwd=ROOT,
        env={**os.environ, **shell.environment},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ran.returncode == main(["ledger", str(shell.folder / "tiny.toml")])


def test_version_is_one_line(shell: Shell):
    done = shell("--version")
    assert (done.code, done.out, done.err) == (0, "peakmark 0.1.0\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("prob", "x.toml"), "prob is neither a command nor a project file; did you mean probe?"),
        (("frobnicate",), "frobnicate is neither a command nor a project file; see: peakmark --help"),
        (("probe",), "the following arguments are required: project; see: peakmark probe --help"),
        (("probe", "x.toml", "--bach", "1"), "unrecognized arguments: --bach 1; see: peakmark probe --help"),
        (("probe", "x.toml", "--batch", "0"), "argument --batch: must be a whole number, 1 or more, got '0'"),
        (("probe", "x.toml", "--batch", "²"), "argument --batch: must be a whole number, 1 or more, got '²'"),
        (
            ("probe", "x.toml", "--search", "--upper", "3", "--multiple-of", "4"),
            "no multiple of 4 is within --upper 3; raise --upper or lower --multiple-of",
        ),
        (("probe", "x.toml", "--nice", "20"), "argument --nice: must be a whole number, 0 to 19, got '20'"),
        (("stop", "run-1"), "there is no run run-1; list them with: peakmark runs"),
        (("new", "x.txt"), "x.txt does not end in .toml; name it x.toml"),
        (("new", ""), "the new project has no name; name a file, such as project.toml"),
        (("new", "x.toml", "--from", "rnn"), "--from rnn is not a family, a FILE.py, a CONFIG.json, timm:"),
        (("new", "x.toml", "--from", "timm"), "--from timm does not name a model of timm; write timm:NAME"),
        (("new", "x.toml", "--from", "timm:a/b"), "--from timm:a/b does not name a model of timm"),
        (("new", "x.toml", "--from", "no.py"), "--from no.py: no such file"),
        (("report", "tiny.toml", "-o", "-", "--plain"), "-o - and --json or --plain all ask for stdout"),
        (("run", "tiny.toml", "--steps", ","), "no step is named; steps are params, verify"),
        (("run", "tiny.toml", "--steps", "probe,fly"), "there is no step fly; steps are params, verify"),
        (("ledger", "tiny.toml", "--probe", "p-1"), "tiny.toml has no measurement p-1"),
        (("ledger", "tiny.toml", "--phase", "step"), "phase step was not measured; measured phases: none"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(words, sentence, shell: Shell, monkeypatch, capsys):
    shell.write(TINY)
    monkeypatch.chdir(shell.folder)
    for key, value in shell.environment.items():
        monkeypatch.setenv(key, value)
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"peakmark: {sentence}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("micro = 4", "micro = 4 5"), "tiny.toml:11: not valid TOML: "),
        (
            ("micro = 4", "micros = 4"),
            "tiny.toml:11: workload.batch.micros is not a key here; did you mean micro?",
        ),
        (
            ("micro = 4", 'micro = "4"'),
            "tiny.toml:11: workload.batch.micro must be a whole number, got the text",
        ),
        (
            ("micro = 4", "micro = true"),
            "tiny.toml:11: workload.batch.micro must be a whole number, got true",
        ),
        (
            ("schema = 1", "schema = 2"),
            "tiny.toml:2: schema = 2 is newer than this peakmark reads (1); upgrade",
        ),
        (('"64 MiB"', '"6 GiB"'), "tiny.toml:21: budget.reserve (6 GiB) is not smaller than budget.job"),
    ],
)
@pytest.mark.parametrize("command", ["probe", "ledger"])
def test_a_project_that_is_wrong_is_one_sentence_and_stays_as_it_is(shell: Shell, command, change, sentence):
    text = TINY.replace(*change)
    path = shell.write(text)
    done = shell(command, "tiny.toml", "--json")
    assert done.code == 2
    assert done.sentence.startswith(sentence)
    assert done.document["document"] == "error"
    assert (done.document["code"], done.document["where"]) == (2, sentence.partition(": ")[0])
    assert path.read_text() == text
    assert os.listdir(shell.folder) == ["tiny.toml"]


def test_a_project_that_is_missing_or_a_folder_is_named(shell: Shell):
    done = shell("params", "gone.toml")
    assert (done.code, done.sentence[:37]) == (2, "gone.toml: no such file; create it wi")
    (shell.folder / "box.toml").mkdir()
    done = shell("params", "box.toml")
    assert (done.code, done.sentence[:23]) == (2, "box.toml: is a folder; ")


def test_a_project_that_may_not_be_read_is_named(shell: Shell):
    shell.write(TINY).chmod(0o000)
    done = finished(shell.start("params", "tiny.toml", preexec_fn=without_privileges))
    assert (done.code, done.sentence) == (
        2,
        "tiny.toml: cannot be read: permission denied; check its path and permissions",
    )


@pytest.mark.parametrize("family", ["decoder", "encoder", "mlp", "convnet"])
def test_a_new_project_of_a_family_loads_and_explains_itself(shell: Shell, family):
    done = shell("new", "a.toml", "--from", family)
    assert done.code == 0
    assert done.out.startswith("wrote a.toml: read it")
    found = load(shell.folder / "a.toml")
    assert (found.spec.workload.source, found.spec.workload.formula) == (family, family)
    lines = found.text.splitlines()
    assert sum("#" in line for line in lines) > 12
    assert max(map(len, lines)) <= 110


def test_a_new_project_for_own_python_names_it_from_its_own_folder(shell: Shell):
    shell.write("def build(cfg): ...\n", "net.py")
    (shell.folder / "runs").mkdir()
    done = shell("new", "runs/a.toml", "--from", "net.py:Net", "--json")
    assert done.document["source"] == "../net.py:Net"
    assert done.document["needs_trust"] is True
    assert load(shell.folder / "runs/a.toml").spec.workload.formula == "none"


@pytest.mark.parametrize("source", ["timm:vit_base_patch16_224.augreg_in21k", "torchvision:resnet50"])
def test_a_new_project_for_a_model_of_a_package_needs_no_trust(shell: Shell, source):
    done = shell("new", "a.toml", "--from", source)
    assert (done.code, "--trust" in done.out) == (0, False)
    found = load(shell.folder / "a.toml")
    assert (found.spec.workload.source, found.spec.workload.formula) == (source, "none")
    assert max(map(len, found.text.splitlines())) <= 110


def test_a_new_project_for_a_configuration_needs_no_trust(shell: Shell):
    shell.write(json.dumps({"model_type": "gpt2"}), "config.json")
    done = shell("new", "a.toml", "--from", "config.json")
    assert (done.code, "--trust" in done.out) == (0, False)
    assert load(shell.folder / "a.toml").spec.workload.source == "config.json"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"vocab_size": 50257, "n_positions": 1024}, "length = 128 "),
        ({"vocab_size": 99, "max_position_embeddings": 64}, "# length = 128 "),
        ({"vocab_size": 99, "max_position_embeddings": -1}, "length = 128 "),
        ({"model_type": "gpt2"}, "# length = 128 "),
        ({"image_size": 224, "num_channels": 3}, "# length = 224 "),
        (["no", "configuration"], "# length = 1024 "),
    ],
)
def test_a_new_project_for_a_configuration_says_the_length_that_is_measured(shell: Shell, config, line):
    shell.write(json.dumps(config), "config.json")
    assert shell("new", "a.toml", "--from", "config.json").code == 0
    found = load(shell.folder / "a.toml")
    assert next(said for said in found.text.splitlines() if "length =" in said).startswith(line)
    assert found.spec.workload.batch.length == (None if line.startswith("#") else LengthSpec(128))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("new", 5, "could not be saved: file name too long; it was not created"),
        ("params", 2, "cannot be read: file name too long; check its path and permissions"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(shell: Shell, command, code, said):
    done = shell(command, "x" * 260 + ".toml")
    assert done.code == code
    assert done.sentence.endswith(said)


def test_a_new_project_never_overwrites(shell: Shell):
    path = shell.write("# mine\n", "a.toml")
    done = shell("new", "a.toml")
    assert (done.code, path.read_text()) == (2, "# mine\n")
    assert (
        done.sentence
        == "a.toml: exists already and was not overwritten; choose another name, or delete it first"
    )


def test_a_new_project_in_a_folder_that_is_not_there_is_refused(shell: Shell):
    done = shell("new", "no/a.toml")
    assert done.code == 5
    assert "no/a.toml could not be saved: there is no folder" in done.sentence


def test_a_demo_where_a_file_is_in_the_way_is_refused(shell: Shell):
    shell.write("", "taken")
    done = shell("demo", "--dir", "taken")
    assert (done.code, done.sentence) == (5, "taken: the folder cannot be made: file exists")


def test_a_device_that_is_not_here_is_named(shell: Shell):
    shell.write(TINY)
    done = shell("probe", "tiny.toml", "--device", "GPU-1234")
    assert done.code == 4
    assert '--device = "GPU-1234" is not on this machine' in done.sentence


def test_what_was_never_measured_is_said_and_not_an_error(shell: Shell):
    shell.write(TINY)
    done = shell("ledger", "tiny.toml")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("UNKNOWN: nothing was measured yet")
    done = shell("report", "tiny.toml", "-o", "-")
    assert (done.code, done.out[:7]) == (0, "# tiny\n")


def test_runs_without_any_run_says_how_to_start_one(shell: Shell):
    assert shell("runs").out == "no run is known here. Start one: peakmark run PROJECT\n"
    assert shell("runs", "--json").document["runs"] == []


def test_the_installed_command_is_this_one():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"peakmark": "tui.cli:main"}
    assert Path(main.__code__.co_filename).samefile(ROOT / "tui" / "cli.py")


def test_the_theme_may_stand_before_the_project(shell):
    shell.write(TINY)
    done = shell("--theme", "amber", "tiny.toml")
    assert done.code == 2
    assert "neither a command" not in done.sentence


def test_a_run_id_that_is_a_path_is_refused(shell):
    shell.write(TINY)
    done = shell("run", "tiny.toml", "--steps", "report", "--run-id", "../../evil")
    assert (done.code, "is not the id of a run" in done.sentence) == (2, True)
    assert not list(shell.folder.parent.rglob("evil*"))
