"""What a probe kept in main memory instead of on the device, which no row of its ledger counts."""

from __future__ import annotations

from tui.project.measured import Probe
from tui.report.figures import Unit
from tui.report.lines import clean

MOVED = {
    "host_weights": "weights",
    "host_gradients": "gradients",
    "host_optimizer": "optimizer state",
    "host_activations": "saved tensors",
}


def host_text(probe: Probe, unit: Unit) -> str | None:
    """Bytes of each part that was moved, and what pinning locks for all of them; None when nothing was.

    ``weights 1.000 · gradients 1.000 · optimizer state 2.000 (GiB, not on the device); 8.000 GiB locked by pinning``
    """
    found = {name: probe.readings[name] for name in MOVED if name in probe.readings}
    if not found:
        return None
    known = [f"{MOVED[name]} {unit.cell(one.bytes)}" for name, one in found.items() if one.bytes is not None]
    said = [f"{' · '.join(known)} ({unit.name}, not on the device)"] if known else []
    for name, one in found.items():
        if one.bytes is None:
            said.append(f"{MOVED[name]} n/a: {clean(one.unknown) or 'not read'}")
    pinned = probe.readings.get("pinned")
    if pinned is None or pinned.bytes is None:
        reason = clean(pinned.unknown) if pinned is not None else ""
        said.append(f"locked by pinning n/a: {reason or 'not read'}")
    else:
        said.append(f"{unit.text(pinned.bytes)} locked by pinning, rounding included")
    return "; ".join(said)
