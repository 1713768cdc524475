"""Names of measurements that sort by time: ``p-20261201T141203-a3``."""

from __future__ import annotations

import os
from collections.abc import Container
from datetime import UTC, datetime
from threading import Lock

_lock = Lock()
_issued: dict[str, tuple[str, int]] = {}
"""By prefix and second: the random digits of the first id, and how many followed it."""


def new_id(prefix: str, moment: datetime | None = None, taken: Container[str] = ()) -> str:
    """A new id for now, or for ``moment``, in UTC.

    Ids of one process are unique and sort in the order they were made, also within a second.  Two processes
    that start in the same second get the same one in 1 of 256 cases: create what is named by it exclusively.

    Args:
        prefix: p probe, v verify, c precision comparison, r restore.
        moment: time zone included; None: now.
        taken: ids that exist already, such as those of a file.
    """
    stem = f"{prefix}-{(moment or datetime.now(UTC)).astimezone(UTC):%Y%m%dT%H%M%S}"
    with _lock:
        while True:
            first, count = _issued.get(stem, (os.urandom(1).hex(), -1))
            _issued[stem] = (first, count + 1)
            found = f"{stem}-{first}{_later(count + 1)}"
            if found not in taken:
                return found


def _later(count: int) -> str:
    """More digits for the ``count``-th id after the first of a second; each sorts behind the one before."""
    if count == 0:
        return ""
    full, rest = divmod(count - 1, 254)
    return "ff" * full + f"{rest + 1:02x}"
