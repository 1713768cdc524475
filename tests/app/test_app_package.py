"""What is installed: every package of the tree, and the themes as data of one of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_of_the_tree_is_installed_and_the_themes_with_them():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    there = {str(path.parent.relative_to(ROOT)).replace("/", ".") for path in ROOT.glob("tui/**/__init__.py")}
    assert set(setup["packages"]) == there | {"tui.themes"}
    assert setup["package-dir"]["tui.themes"] == "themes"
    assert setup["package-data"]["tui.themes"] == ["*.toml"]


def test_python_files_of_the_tree_lie_in_packages():
    for path in ROOT.glob("tui/**/*.py"):
        assert (path.parent / "__init__.py").exists(), path
