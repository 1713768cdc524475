"""Rows of a ledger that the user entered in [ledger], laid over those that a formula gives."""

from __future__ import annotations

from collections.abc import Mapping

from tui.budget.declared_parts import Declared, Situation

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
