"""Out of memory in JSON: the figures at that moment, the class by the rule, and what was alive."""

from __future__ import annotations

from typing import Any

from tui.project.measured import Probe
from tui.report.envelope import Document
from tui.report.json_values import Missing, known

FIGURES = {
    "asked_bytes": "asked_bytes",
    "allocated_bytes": "exhausted_allocated_bytes",
    "reserved_bytes": "exhausted_reserved_bytes",
    "largest_free_block_bytes": "largest_free_block_bytes",
    "free_blocks_bytes": "free_blocks_bytes",
    "device_free_bytes": "device_free_bytes",
}
PLACE = {
    "phase": "exhausted_phase",
    "iteration_index": "exhausted_iteration",
    "micro_batch_index": "exhausted_micro",
    "operator": "exhausted_operator",
    "module": "exhausted_module",
}
RULE = (
    "room: the tighter of what device and cap leave; fragmentation: largest free block and room are less than asked, "
    "free blocks and room together are not; limit: the cap leaves less than asked, the device does not; others: with "
    "what they hold the device has room; capacity: it has not; host: this machine's own memory"
)
BEFORE = "measured by a version that did not read it"


def exhausted_document(probe: Probe) -> Document | Missing:
    """``out_of_memory`` of the document of a probe."""
    if probe.outcome != "out-of-memory":
        return Missing("it did not run out of memory")
    return {
        **_named(probe, PLACE),
        **_named(probe, FIGURES),
        "cap_bytes": known(probe.limit_bytes, "the process was not held to a limit"),
        "cause": known(probe.exhausted_class, BEFORE),
        "why": known(probe.exhausted_why, BEFORE),
        "rule": RULE,
        "alive": [{"row": key, "bytes": size} for key, size in probe.alive.items()],
        "alive_source": known(probe.alive_source, probe.unknown.get("alive", BEFORE)),
        "modules": [{"module": key, "bytes": size} for key, size in probe.alive_modules.items()],
        "tensors": [{"what": key, "bytes": size} for key, size in probe.alive_top.items()],
        "would_fit": known(probe.would_fit, probe.unknown.get("would_fit", BEFORE)),
    }


def _named(probe: Probe, names: dict[str, str]) -> dict[str, Any]:
    return {
        shown: known(getattr(probe, name), probe.unknown.get(name, BEFORE)) for shown, name in names.items()
    }
