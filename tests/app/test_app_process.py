"""The app as a process on a real terminal: start, bytes, signals, a terminal that vanishes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from app.terminal import LEAVES, ROOT, Terminal, play

LOADED = """
import sys
from pathlib import Path
from tui.app.app import PeakmarkApp
from tui.app.source import World

class Painted(PeakmarkApp):
    def on_ready(self):
        self.loaded = set(sys.modules)
        assert "mlp" in self.screen.shown()
        self.exit()

app = Painted(Path(sys.argv[1]), World())
app.run(headless=True)
print(len(app.loaded), *sorted({name.partition(".")[0] for name in app.loaded}))
"""


def test_the_first_paint_loads_few_modules_and_neither_torch_nor_nvml(tmp_path):
    project = tmp_path / "tiny.toml"
    project.write_text('schema = 1\n[workload]\nsource = "mlp"\n')
    argv = [sys.executable, "-c", LOADED, str(project)]
    environment = os.environ | {"PEAKMARK_STATE": str(tmp_path)}
    out = subprocess.run(
        argv, capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    ).stdout.split()
    assert int(out[0]) <= 470
    assert not {"torch", "pynvml", "plotext", "markdown_it", "tomlkit", "numpy"} & set(out[1:])


def test_starting_the_app_imports_textual_only_when_it_runs():
    code = "import tui.app.run, sys; print(*(m for m in ('textual', 'rich', 'torch') if m in sys.modules))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    assert out.split() == []


def test_an_idle_screen_writes_nothing_and_q_leaves_the_terminal_as_it_was():
    with play("cuda") as terminal:
        terminal.wait_for("AGREES")
        terminal.read(0.4)
        before = len(terminal.written)
        terminal.read(1.0)
        assert len(terminal.written) == before
        terminal.press("q")
        assert terminal.end() == 0
        assert LEAVES in terminal.written


def test_a_running_probe_writes_less_than_four_kilobytes_a_second():
    with play("cuda") as terminal:
        terminal.wait_for("AGREES")
        terminal.press("4")
        terminal.wait_for("DONE")
        start = len(terminal.written)
        terminal.press("r")
        terminal.wait_for("steady", start)
        begin, at = len(terminal.written), time.monotonic()
        while time.monotonic() < at + 2:
            terminal.read(0.1)
        assert 0 < len(terminal.written) - begin <= 4096 * (time.monotonic() - at)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_app_and_restores_the_terminal(number):
    with play("cuda") as terminal:
        terminal.wait_for("AGREES")
        os.kill(terminal.child.pid, number)
        assert terminal.end() == 128 + number
        assert LEAVES in terminal.written


def test_the_app_leaves_when_its_terminal_vanishes_without_a_signal():
    with play("cuda", "deaf") as terminal:
        terminal.wait_for("AGREES")
        terminal.close()
        assert terminal.child.wait(timeout=12) != 0


def test_a_dumb_terminal_is_refused_with_one_sentence():
    with play("cuda", TERM="dumb") as terminal:
        assert terminal.end() == 2
        assert "peakmark: this terminal (TERM=dumb) cannot show the app" in terminal.text()
        assert b"\x1b" not in terminal.written


def test_a_locale_without_utf8_is_drawn_in_ascii():
    with play("cuda", LANG="", LC_ALL="C") as terminal:
        terminal.wait_for("AGREES")
        terminal.press("3")
        terminal.wait_for("allocator-reserved")
        assert terminal.text().isascii()
        terminal.press("q")
        assert terminal.end() == 0


def test_no_color_writes_no_colour():
    with play("cuda", NO_COLOR="1") as terminal:
        terminal.wait_for("AGREES")
        terminal.press("q")
        terminal.end()
        assert b"38;2;" not in terminal.written
        assert b"48;2;" not in terminal.written
        assert b"\x1b[36m" not in terminal.written


def test_without_a_terminal_the_app_says_so():
    master, slave = pty.openpty()
    os.close(master)
    os.close(slave)
    argv = [sys.executable, "-c", "import sys; from tui.app.run import run_app; sys.exit(run_app(None))"]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm"},
    )
    assert done.returncode == 2
    assert done.stderr == "peakmark: the app needs a terminal; use the commands: peakmark --help\n"


def test_a_project_that_cannot_be_read_ends_with_its_sentence():
    code = "import sys; from pathlib import Path; from tui.app.run import run_app; "
    code += "sys.exit(run_app(Path('/nowhere/x.toml')))"
    with Terminal([sys.executable, "-c", code]) as terminal:
        assert terminal.end() == 2
        assert "/nowhere/x.toml: no such file" in terminal.text()
        assert "Traceback" not in terminal.text()
