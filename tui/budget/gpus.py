"""A table of GPUs, so that a workload can be predicted for one that is not here.

The figures are in ``gpus.toml`` with their sources.  Sizes are bytes; ``None`` is unknown, with a reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import Any

from tui import units
from tui.errors import UsageError

MIB = 2**20
SHOWN = 4
"""Names that a sentence proposes at most."""
NO_GPU = "no GPU of the table was named: give its name, such as --gpu 'H100 80GB HBM3'"

_SIZE = re.compile(r"\s*[\d.,_]+\s*[KMGT]?i?B\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*\d+(?:\.\d+)?\s*")
MOST_GIB = 1024
"""A number up to it may be meant as the memory of a GPU."""
_NOISE = re.compile(r"nvidia|geforce|tesla|generation|[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or no more than a number of bytes."""

    name: str
    """As NVML gives it; of bytes alone such as ``80.000 GiB``."""
    total_bytes: int | None
    """As NVML reports the total; a program can use less of it."""
    aliases: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None
    sm_count: int | None = None
    threads_per_sm: int | None = None
    """Threads that are resident on an SM at most."""
    context_bytes: tuple[int, int] | None = None
    """What a process takes beside the caching allocator, at least and at most."""
    context_from: str = ""
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """Where a figure comes from, by field."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def bytes_alone(self) -> bool:
        """Whether nothing but its size is known."""
        return self.capability is None and not self.aliases and self.sm_count is None


def table() -> tuple[Gpu, ...]:
    """Every GPU that is known, in the order of the file."""
    return tuple(_read().values())


def parse(text: str) -> Gpu:
    """The GPU that ``--gpu`` names, or one of which only the bytes are known.

    Raises:
        UsageError: a size that cannot be read, no such GPU, or several.

    >>> parse("h100 80gb hbm3").sm_count, parse("80 GiB").total_bytes, parse("80GiB").sm_count
    (132, 85899345920, None)
    """
    if _NUMBER.fullmatch(text) and float(text) <= MOST_GIB:
        number = text.strip()
        sized = [one.name for one in table() if f" {number}gb" in one.name.lower().replace("-", " ")]
        near = ", ".join(sized[:SHOWN]) or "peakmark predict --gpus lists them"
        raise UsageError(
            f"--gpu: {number} has no unit", hint=f"write --gpu {number}GiB for its memory; or a name: {near}"
        )
    if _SIZE.fullmatch(text) is None:
        return find(text)
    try:
        size = units.parse_bytes(text.strip())
    except ValueError as error:
        what, _, mend = str(error).partition("; ")
        raise UsageError(f"--gpu: {what}", hint=mend) from error
    if not size:
        raise UsageError("--gpu: a GPU without memory holds nothing", hint="write its size, such as 80GiB")
    return Gpu(
        units.size(size),
        size,
        unknown=dict.fromkeys(("capability", "sm_count", "threads_per_sm", "context"), NO_GPU),
    )


def find(name: str) -> Gpu:
    """The GPU of the table that ``name`` means: case, spaces and the maker's name do not matter.

    Raises:
        UsageError: there is no such GPU (the nearest are named), or several.

    >>> find("nvidia  rtx4090").name
    'NVIDIA GeForce RTX 4090'
    """
    found = candidates(name)
    if len(found) == 1:
        return found[0]
    if found:
        said = ", ".join(one.name for one in found[: SHOWN + 2])
        raise UsageError(f'GPU "{name}" could be {said}', hint="write more of its name")
    near = ", ".join(_nearest(name))
    raise UsageError(
        f'GPU "{name}" is not in the table',
        hint=(f"nearest: {near}; " if near else "")
        + "peakmark predict --gpus lists it, --gpu 80GiB gives bytes",
    )


def known(name: str) -> Gpu | None:
    """The GPU that the driver calls ``name``; None: the table has it not."""
    found = candidates(name)
    return found[0] if len(found) == 1 else None


def candidates(name: str) -> list[Gpu]:
    """Those of the table that ``name`` may mean: the one that is called so, else all whose names begin with it."""
    wanted = _plain(name)
    if not wanted:
        return []
    exact = [one for one in table() if wanted in _names(one)]
    return exact or [one for one in table() if any(called.startswith(wanted) for called in _names(one))]


def same(one: str, other: str) -> bool:
    """Whether two names mean the same GPU.

    >>> same("NVIDIA H100 80GB HBM3", "h100 80gb hbm3"), same("A100", "")
    (True, False)
    """
    if not one or not other:
        return False
    first, second = known(one), known(other)
    if first is not None and second is not None:
        return first.name == second.name
    return _plain(one) == _plain(other)


def widest_context() -> tuple[int, int]:
    """The range of contexts over all GPUs of which it is known, for one of which it is not."""
    ranges = [one.context_bytes for one in table() if one.context_bytes is not None]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _nearest(name: str) -> list[str]:
    by_plain = {called: one.name for one in table() for called in _names(one)}
    found = get_close_matches(_plain(name), list(by_plain), n=SHOWN, cutoff=0.4)
    return list(dict.fromkeys(by_plain[one] for one in found))


def _plain(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _names(one: Gpu) -> list[str]:
    return [_plain(one.name), *(_plain(alias) for alias in one.aliases)]


@lru_cache(maxsize=1)
def _read() -> Mapping[str, Gpu]:
    text = resources.files("tui.budget").joinpath("gpus.toml").read_text(encoding="utf-8")
    held = tomllib.loads(text)
    return {name: _gpu(name, one, held) for name, one in held["gpus"].items()}


def _gpu(name: str, one: Mapping[str, Any], held: Mapping[str, Any]) -> Gpu:
    major, minor = (int(part) for part in one["capability"].split("."))
    context = one.get("context")
    low_high = held["contexts"][context] if context else None
    sources = {key: held["sources"][source] for key, source in one["from"].items()}
    sources["threads_per_sm"] = held["sources"]["guide"]
    if context:
        sources["context"] = held["sources"][context]
    return Gpu(
        name=name,
        total_bytes=one["total_mib"] * MIB,
        aliases=tuple(one["aliases"]),
        capability=(major, minor),
        sm_count=one.get("sm_count"),
        threads_per_sm=held["threads_per_sm"][one["capability"]],
        context_bytes=None if low_high is None else (low_high[0] * MIB, low_high[1] * MIB),
        context_from=f"published: {held['sources'][context]}" if context else "",
        sources=sources,
        unknown=dict(one.get("unknown", {})),
    )
