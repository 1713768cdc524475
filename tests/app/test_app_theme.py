"""Themes are checked when they are read; the names of file and key are in the sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import sample
from app.fakes import FakeSource
from tui.app import theme
from tui.app.app import PeakmarkApp
from tui.errors import UsageError

GOOD = """
name = "mine"
primary = "#112233"
warning = "#445566"
foreground = "#ffffff"
background = "#000000"
[variables]
dim = "#888888"
strong = "#ffffff"
badge = "#000000"
cursor = "#223344"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_four_themes_are_shipped_and_each_has_two_accents_alone():
    found = theme.load_all()
    assert {"dark", "light", "contrast", "ansi"} <= set(found)
    for one in found.values():
        assert one.primary == one.secondary == one.accent == one.success
        assert one.warning == one.error
        assert one.primary != one.warning


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("#112233", "#11223", "mine.toml: primary: '#11223' is not a colour"),
        ("#888888", "greyish", "mine.toml: variables.dim: 'greyish' is not a colour"),
        ("primary =", "primay =", "mine.toml: the theme has no primary"),
        ('name = "mine"', 'name = "mine"\nspeed = 3', "mine.toml: speed: speed is not a key of a theme"),
        ('name = "mine"', 'name = "mine"\ndark = "yes"', "mine.toml: dark: dark must be a bool, got 'yes'"),
        ('dim = "#888888"', "", "mine.toml: the theme has no variables.dim"),
        ("[variables]", "[variables", "mine.toml: not a theme"),
    ],
)
def test_a_fault_of_a_theme_names_file_and_key(tmp_path, old, new, sentence):
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        theme.load(path)
    assert sentence in caught.value.sentence()


def test_a_theme_of_the_users_own_is_found_and_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "peakmark" / "themes"
    folder.mkdir(parents=True)
    write(folder, GOOD)
    app = PeakmarkApp(None, FakeSource(sample.cuda()), theme_name="mine")
    assert app.current_theme.primary == "#112233"


def test_an_unknown_theme_names_those_there_are():
    with pytest.raises(UsageError, match="there is no theme neon; themes are ansi, contrast, dark, light"):
        PeakmarkApp(None, FakeSource(sample.cuda()), theme_name="neon")


@pytest.mark.parametrize("name", ["dark", "light", "contrast", "ansi"])
async def test_each_theme_draws_the_ledger(name):
    app = PeakmarkApp(Path("h100.toml"), FakeSource(sample.cuda()), theme_name=name)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        assert "FITS" in app.screen.shown()
