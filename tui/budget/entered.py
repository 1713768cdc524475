"""Rows of a ledger that the user entered in [ledger], laid over those that a formula gives."""

from __future__ import annotations

from collections.abc import Mapping

from tui.budget.declared_parts import Declared, Situation
from tui.project.model import LedgerSpec

ENTERED = "entered"
_WITH_ACTIVATIONS = (None, "first.forward", "first.backward", "forward", "backward")
"""Phases in which something is retained for a backward."""
_EARLY = ("start", "context")


def over(rows: Mapping[str, Declared], said: Mapping[str, int], at: Situation) -> dict[str, Declared]:
    """``rows`` with those that were entered in place of what a formula gives, which the row still tells.

    Args:
        rows: by key of the ledger.
        said: bytes by key; ``device_total`` is the row ``host_total`` on the CPU.
        at: entered activations are those of forward and backward, and nothing of the program's is there before it.

    >>> over({}, {"cached": 5}, Situation("fp32", 1, 1, None))["cached"].text
    'entered'
    """
    found = dict(rows)
    for key, size in said.items():
        if key == "device_total" and at.device == "cpu":
            key = "host_total"
        if key in _WHOLE_DEVICE:
            found[key] = Declared(size, ENTERED, origin=ENTERED)
        elif key == "retained_activations" and at.phase not in _WITH_ACTIVATIONS:
            unknown = f"entered for the forward and the backward, not for {at.phase}"
            found[key] = Declared(None, unknown=unknown)
        elif at.phase not in _EARLY:
            found[key] = _entered(size, rows.get(key))
    return found


_WHOLE_DEVICE = ("others", "driver_reserved", "device_total", "host_total", "context")


def _entered(size: int, formula: Declared | None) -> Declared:
    differs = formula is not None and formula.bytes is not None and formula.bytes != size
    text = f"{ENTERED}; the formula gives {formula.bytes:,} B" if differs and formula else ENTERED
    return Declared(size, text, origin=ENTERED)


def room(
    said: LedgerSpec, total: int | None, others: int | None, driver: int | None
) -> dict[str, tuple[int | None, str]]:
    """(bytes, where they are from) of ``device_total``, ``others`` and ``driver_reserved``: read, or else entered.

    What was read holds: an entered size stands where nothing was.

    Args:
        said: the project's [ledger].
        total: as it was read; None: it was not.
        others: likewise.
        driver: likewise.

    >>> room(LedgerSpec(device_total=9, other_processes=2), None, 3, None)
    {'device_total': (9, 'entered'), 'others': (3, 'read'), 'driver_reserved': (None, '')}
    """
    pairs = {
        "device_total": (total, said.device_total),
        "others": (others, said.other_processes),
        "driver_reserved": (driver, said.driver_reserved),
    }
    return {key: _first(read, size) for key, (read, size) in pairs.items()}


def _first(read: int | None, size: int | None) -> tuple[int | None, str]:
    if read is not None:
        return read, "read"
    return size, "" if size is None else ENTERED
