"""What would settle a figure that is n/a: a command, a key of the project, or nothing."""

from __future__ import annotations

NOT_OF_THIS_DEVICE = "nothing: not a figure of this device"
IS_REFERENCE = "this is the reference"

_OF_THE_DEVICE = ("others", "free", "driver", "cuda", "capability", "throttled", "clocks")
"""Figures that the CPU has not: the kernel shares the host's memory out among all that run."""


def settled_by(key: str, reason: str, command: str, project: str, device: str) -> str:
    """What to run or to write down so that ``key`` is known.

    Args:
        key: of the figure.
        reason: why it is n/a.
        command: what measures the figure.
        project: the project file's name.
        device: cpu | cuda.

    >>> settled_by("tokens_per_s", "no entry of the batch counts tokens", "peakmark probe a.toml", "a.toml", "cpu")
    'set workload.batch.tokens in a.toml'
    >>> settled_by("others", "the kernel shares", "peakmark probe a.toml", "a.toml", "cpu")
    'nothing: not a figure of this device'
    """
    if "counts tokens" in reason:
        return f"set workload.batch.tokens in {project}"
    if reason == "no quality target is entered":
        return f"set quality.target in {project}"
    if device == "cpu" and key in _OF_THE_DEVICE:
        return NOT_OF_THIS_DEVICE
    if "timed iterations" in reason or "too few timed steps" in reason:
        return f"{command} --iterations N"
    if "peakmark params" in reason:
        return f"peakmark run {project} --steps params"
    return command
