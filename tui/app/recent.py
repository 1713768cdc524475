"""Projects that were opened on this machine, the newest first, in the state folder."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tui.errors import PeakmarkError

KEEP = 9


def _file() -> Path:
    from tui.project.paths import state_folder

    return state_folder() / "recent.json"


def listed() -> list[tuple[str, str, str]]:
    """(title, path, date) of those whose file still exists; empty when nothing can be read."""
    try:
        table = json.loads(_file().read_text(encoding="utf-8"))
        found = [(str(one["title"]), str(one["path"]), str(one["at"])) for one in table]
    except (PeakmarkError, OSError, ValueError, TypeError, KeyError):
        return []
    return [one for one in found if Path(one[1]).is_file()][:KEEP]


def remember(path: Path, title: str) -> None:
    """Put a project first; a state folder that cannot be written loses nothing but this."""
    whole = str(path.resolve())
    rest = [one for one in listed() if one[1] != whole]
    table = [(title or path.stem, whole, f"{datetime.now(UTC):%Y-%m-%d}"), *rest][:KEEP]
    text = json.dumps([dict(zip(("title", "path", "at"), one, strict=True)) for one in table], indent=1)
    from tui.project import atomic

    with suppress(PeakmarkError):
        atomic.put(_file(), text.encode())
