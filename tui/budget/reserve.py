"""How much of a device must stay free, learned from what ran and what did not.  Pure; bytes."""

from __future__ import annotations

from collections.abc import Iterable


def learned(total_bytes: int, trials: Iterable[tuple[int, bool]]) -> tuple[int | None, int | None]:
    """(reserve that is too small, reserve that is proven) of a device that gives less than it reports.

    Args:
        total_bytes: of the device.
        trials: (bytes of the device in use, whether that worked); a success above a failure proves nothing here.

    Returns:
        What was left where it failed at the least use, and where it worked at the most use below that; None where
        nothing failed or worked.

    >>> learned(100, [(88, False), (80, True), (60, True)])
    (12, 20)
    >>> learned(100, [(80, True)])
    (None, 20)
    """
    tried = list(trials)
    failed = min((used for used, worked in tried if not worked), default=None)
    worked = max((used for used, fine in tried if fine and (failed is None or used < failed)), default=None)
    return (None if failed is None else total_bytes - failed), (
        None if worked is None else total_bytes - worked
    )
