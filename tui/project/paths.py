"""The folders outside the project that peakmark keeps things in."""

from __future__ import annotations

import os
from pathlib import Path

from tui.errors import SaveError


def state_folder() -> Path:
    """$PEAKMARK_STATE, else $XDG_STATE_HOME/peakmark, else ~/.local/state/peakmark; made for its user alone.

    Raises:
        SaveError: it does not exist and cannot be made.
    """
    own = os.environ.get("PEAKMARK_STATE")
    return _made(
        Path(own).expanduser().absolute() if own else _xdg("XDG_STATE_HOME", ".local/state") / "peakmark"
    )


def runs_folder() -> Path:
    """Where journals, plans and logs of runs are; made when needed, see ``state_folder``."""
    return _made(state_folder() / "runs")


def config_folder() -> Path:
    """$XDG_CONFIG_HOME/peakmark or ~/.config/peakmark, where a user's own themes are; it need not exist."""
    return _xdg("XDG_CONFIG_HOME", ".config") / "peakmark"


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    if os.path.isabs(base):  # the XDG rules say that a relative one is to be ignored
        return Path(base)
    try:
        return Path.home() / default
    except RuntimeError as error:
        raise SaveError(
            "there is no home folder for this user", hint="set PEAKMARK_STATE to a folder"
        ) from error


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "set PEAKMARK_STATE to a folder that you can write"
        raise SaveError(f"the folder cannot be made: {reason}", where=str(folder), hint=hint) from error
    return folder
