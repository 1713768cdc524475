"""Colour themes from TOML files, checked when they are read, and the style of each role in them.

A file has the fields of a Textual theme, and a table ``[variables]`` of four shades: dim, strong, badge and
cursor.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

import tui
from tui.errors import UsageError

SHADES = ("dim", "strong", "badge", "cursor")
_COLOURS = (
    "primary",
    "secondary",
    "accent",
    "success",
    "warning",
    "error",
    "foreground",
    "background",
    "surface",
    "panel",
)
_NEEDED = ("name", "primary", "warning", "foreground", "background")
_OTHER = {"name": str, "dark": bool, "ansi": bool}


def folders() -> tuple[Path, ...]:
    """Where themes are looked for: those that come with peakmark, then the user's own."""
    package = Path(tui.__file__).parent
    shipped = package / "themes"
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return (shipped if shipped.is_dir() else package.parent / "themes", config / "peakmark" / "themes")


def load_all(places: tuple[Path, ...] | None = None) -> dict[str, Theme]:
    """Every theme by name; a user's own replaces a shipped one of the same name.

    Raises:
        UsageError: a file is not TOML, has an unknown or missing key, or a value that is not a colour.
    """
    found: dict[str, Theme] = {}
    for folder in folders() if places is None else places:
        for path in sorted(folder.glob("*.toml")):
            theme = load(path)
            found[theme.name] = theme
    return found


def load(path: Path) -> Theme:
    """The theme in one file; see ``load_all`` for what it raises."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"not a theme: {error}", where=str(path)) from error
    variables = table.pop("variables", {})
    if not isinstance(variables, dict):
        raise UsageError("[variables] must be a table", where=f"{path}: variables")
    for key in _NEEDED:
        if key not in table:
            raise UsageError(f"the theme has no {key}", where=str(path))
    for key, value in table.items():
        _check(path, key, value)
    for key in SHADES:
        if key not in variables:
            raise UsageError(f"the theme has no variables.{key}", where=str(path))
    for key, value in variables.items():
        _colour(path, f"variables.{key}", value)
    if table.get("ansi"):
        # Textual's own widgets need more shades of an ansi theme than anybody wants to write down.
        variables = BUILTIN_THEMES["ansi-dark"].variables | variables
    return Theme(variables=variables, **table)


def _check(path: Path, key: str, value: Any) -> None:
    if key in _OTHER:
        if not isinstance(value, _OTHER[key]):
            raise UsageError(f"{key} must be a {_OTHER[key].__name__}, got {value!r}", where=f"{path}: {key}")
    elif key in _COLOURS:
        _colour(path, key, value)
    else:
        raise UsageError(
            f"{key} is not a key of a theme",
            where=f"{path}: {key}",
            hint="the keys are " + ", ".join((*_OTHER, *_COLOURS, "variables")),
        )


def _colour(path: Path, key: str, value: Any) -> None:
    try:
        Color.parse(value)
    except (ColorParseError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{value!r} is not a colour", where=f"{path}: {key}", hint='write it as "#4fb3bf" or "ansi_cyan"'
        ) from error


def styles(theme: Theme) -> dict[str, Style]:
    """The style of every role that lines are written in."""
    water = Color.parse(theme.primary).rich_color
    amber = Color.parse(theme.warning or theme.primary).rich_color
    if theme.ansi:
        return {
            "dim": Style(dim=True),
            "strong": Style(bold=True),
            "water": Style(color=water),
            "water.strong": Style(color=water, bold=True),
            "amber": Style(color=amber),
            "amber.strong": Style(color=amber, bold=True),
            "badge": Style(color=water, bold=True, reverse=True),
            "badge.amber": Style(color=amber, bold=True, reverse=True),
            "cursor": Style(reverse=True),
            "edit": Style(bold=True, underline=True),
            "caret": Style(reverse=True),
        }
    shade = {name: Color.parse(theme.variables[name]).rich_color for name in SHADES}
    return {
        "dim": Style(color=shade["dim"]),
        "strong": Style(color=shade["strong"], bold=True),
        "water": Style(color=water),
        "water.strong": Style(color=water, bold=True),
        "amber": Style(color=amber),
        "amber.strong": Style(color=amber, bold=True),
        "badge": Style(color=shade["badge"], bgcolor=water, bold=True),
        "badge.amber": Style(color=shade["badge"], bgcolor=amber, bold=True),
        "cursor": Style(color=shade["strong"], bgcolor=shade["cursor"], bold=True),
        "edit": Style(color=shade["strong"], bgcolor=shade["cursor"], bold=True, underline=True),
        "caret": Style(color=shade["badge"], bgcolor=shade["strong"], bold=True),
    }
