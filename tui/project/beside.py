"""Files that a measuring child leaves beside its journal, too long for a project file: read whole, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tui.errors import RunError

Made = TypeVar("Made")


def read(
    path: Path,
    decode: Callable[[Any], Made],
    *,
    what: str,
    of: str,
    again: str,
    parse: Callable[[str], Any] = json.loads,
) -> Made:
    """What ``decode`` makes of the JSON in ``path``.

    Args:
        path: the file.
        decode: makes the value; a table of another form makes it raise KeyError, TypeError, ValueError or IndexError.
        what: the file's name in sentences, such as "the timeline".
        of: what it belongs to, such as "of this measurement".
        again: how to have another, such as "measure again: peakmark probe PROJECT".
        parse: reads the text.

    Raises:
        RunError: the file is gone, cannot be read, or is not one.
    """
    try:
        table = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{what} {of} is not on this machine any more", where=str(path), hint=again) from None
    except (OSError, ValueError) as error:
        raise RunError(f"{what} cannot be read: {error}", where=str(path)) from error
    try:
        return decode(table)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RunError(
            f"{what} is not one that this version wrote", where=str(path), hint=again.partition(":")[0]
        ) from error
