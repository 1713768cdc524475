"""Whether batches can be compared: each in a process of its own, beginning with the same bytes.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tui import units
from tui.project.measured import Probe


def void(probes: Iterable[Probe]) -> str:
    """Why a comparison of these probes is void, "" when it is not.

    Before the first iteration weights and buffers alone are alive, whatever the batch: probes of one spec and
    precision that began with different bytes did not run the same thing.  One that does not say is passed over.
    """
    starts: dict[tuple[str, str], dict[int, list[int]]] = {}
    for one in probes:
        if one.start_bytes is not None:
            sizes = starts.setdefault((one.spec, one.precision), {})
            sizes.setdefault(one.start_bytes, []).append(one.micro_batch)
    for sizes in starts.values():
        if len(sizes) > 1:
            told = ", ".join(
                f"micro {' and '.join(str(one) for one in micros)} with {units.exact(size)} B"
                for size, micros in sorted(sizes.items())
            )
            rule = "what build() makes must not depend on the batch"
            return f"they did not begin with the same bytes alive ({told}): {rule}"
    return ""
