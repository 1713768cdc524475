"""Settings of the caching allocator for CUDA, as PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF spell them.

``key:value,key:value``; blanks do not count.  Sizes are bytes inside, MiB in the text.  Source of keys, limits and
rounding: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp of PyTorch.

Standard library only, Python 3.9 syntax.
"""

import difflib
import math
import re
from dataclasses import dataclass
from typing import Callable, Dict, List, Tuple

from .blocks import BLOCK, LARGE_SEGMENT, OWN_SEGMENT, SEGMENT_STEP, SMALL_LIMIT, SMALL_SEGMENT, round_size

MIB = 1 << 20
NO_LIMIT = 1 << 63
"""``max_split_size`` when blocks of every size may be split."""
CLASSES = 16
"""Sizes have a rounding each from one power of two to the next: below 2 MiB, below 4 MiB, ..., from 32 GiB on."""
PROVED = "default: proved by recorded traces"
FROM_SOURCE = "from source, not yet verified"


class SettingsError(ValueError):
    """Settings that torch would refuse, or that cannot be simulated; one sentence without a full stop."""


@dataclass(frozen=True)
class AllocatorSettings:
    """What the allocator was told; the defaults are torch's."""

    expandable_segments: bool = False
    max_split_size: int = NO_LIMIT
    """Blocks from this size on are neither split nor used for smaller requests."""
    max_non_split_rounding: int = LARGE_SEGMENT
    """How much larger than an unsplittable request the block may be that it gets."""
    roundup_power2_divisions: Tuple[int, ...] = (0,) * CLASSES
    """By class of size: into how many steps the way to the next power of two is cut; 0 and 1: not at all."""
    garbage_collection_threshold: float = 0.0
    """Share of the limit from which on old free segments are given back; 0: never."""
    large_segment_size: int = LARGE_SEGMENT
    """Of a segment for requests of more than 1 MiB and less than 10 MiB."""
    per_process_memory_fraction: float = 1.0
    """Share of the device's memory that may be reserved."""
    without_effect: Tuple[str, ...] = ()
    """Keys that change nothing about where blocks lie."""

    @property
    def default(self) -> bool:
        """Whether blocks lie where they lie without any settings."""
        return self == AllocatorSettings(without_effect=self.without_effect)

    @property
    def collects(self) -> bool:
        """Whether old segments are given back early, which needs a fraction below 1 as well."""
        return self.garbage_collection_threshold > 0 and self.per_process_memory_fraction < 1

    def round_size(self, nbytes: int) -> int:
        """Bytes that a request of ``nbytes`` > 0 occupies before any unsplit tail."""
        divisions = self.roundup_power2_divisions[min(max(nbytes.bit_length() - 21, 0), CLASSES - 1)]
        if divisions <= 1 or nbytes <= BLOCK * divisions:
            return round_size(nbytes)
        floor = 1 << (nbytes.bit_length() - 1)
        step = floor // divisions
        return (nbytes + step - 1) // step * step

    def segment_size(self, rounded: int) -> int:
        """Bytes asked of the driver when no free block fits a request of ``rounded`` bytes."""
        if rounded <= SMALL_LIMIT:
            return SMALL_SEGMENT
        if rounded < OWN_SEGMENT:
            return self.large_segment_size
        return (rounded + SEGMENT_STEP - 1) // SEGMENT_STEP * SEGMENT_STEP

    def notes(self) -> List[str]:
        """What a reader must know of them, one sentence each, without a full stop."""
        found = ["%s changes nothing about where blocks lie" % key for key in self.without_effect]
        if self.garbage_collection_threshold and not self.collects:
            found.append(
                "garbage_collection_threshold does nothing without a per_process_memory_fraction below 1"
            )
        return found


DEFAULTS = AllocatorSettings()


def parse(text: str) -> AllocatorSettings:
    """The settings in ``text``; "" are the defaults.

    Raises:
        SettingsError: torch refuses it too, or it cannot be simulated.

    >>> parse("expandable_segments:True,max_split_size_mb:64").max_split_size
    67108864
    """
    found: Dict[str, object] = {}
    without_effect: List[str] = []
    for key, value in _pairs(re.sub(r"\s", "", text), text):
        if key in _WITHOUT_EFFECT:
            without_effect.append(key)
        elif key in _IMPOSSIBLE:
            raise SettingsError("%s cannot be simulated: %s" % (key, _IMPOSSIBLE[key]))
        elif key == "backend":
            _refuse_backend(value)
        elif key in _KEYS:
            name, read = _KEYS[key]
            found[name] = read(key, value)
        else:
            raise SettingsError(_unknown(key))
    settings = AllocatorSettings(without_effect=tuple(without_effect), **found)  # type: ignore[arg-type]
    for name, key in (
        ("max_split_size", "max_split_size_mb"),
        ("max_non_split_rounding", "max_non_split_rounding_mb"),
    ):
        least, number = settings.large_segment_size, getattr(settings, name)
        if name in found and number < least:
            raise SettingsError("%s must be at least %d, got %d" % (key, least // MIB, number // MIB))
    return settings


def _pairs(text: str, shown: str) -> List[Tuple[str, str]]:
    """(key, value) of each setting; commas inside brackets do not part settings."""
    pairs = []
    for part in re.findall(r"(?:\[[^\]]*\]?|[^,\[])+|(?<=,)(?=,)|^(?=,)", text):
        key, colon, value = part.partition(":")
        if not key or not colon or not value:
            raise SettingsError(
                '"%s" is not key:value in "%s"; write settings as expandable_segments:True,max_split_size_mb:64'
                % (part, shown)
            )
        pairs.append((key, value))
    return pairs


def _unknown(key: str) -> str:
    known = [*_KEYS, *_WITHOUT_EFFECT, *_IMPOSSIBLE, "backend"]
    near = difflib.get_close_matches(key, known, 1, 0.5)
    meant = "did you mean %s?" % near[0] if near else "known are %s" % ", ".join(sorted(_KEYS))
    return "%s is not a setting of the allocator; %s" % (key, meant)


def _refuse_backend(value: str) -> None:
    if value == "cudaMallocAsync":
        raise SettingsError(
            "backend:cudaMallocAsync cannot be simulated: its blocks are placed inside the driver; "
            "leave it out for the native allocator"
        )
    if value != "native":
        raise SettingsError("backend is native or cudaMallocAsync, got %s" % value)


def _flag(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise SettingsError("%s is True or False, spelled so, got %s" % (key, value))
    return value == "True"


def _whole(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 12:
        raise SettingsError("%s takes a whole number, got %s" % (key, value))
    return int(value)


def _mebibytes(least: int) -> Callable[[str, str], int]:
    def read(key: str, value: str) -> int:
        number = _whole(key, value)
        if number < least:
            raise SettingsError("%s must be at least %d, got %d" % (key, least, number))
        return number * MIB

    return read


def _share(below: bool) -> Callable[[str, str], float]:
    def read(key: str, value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            raise SettingsError("%s takes a number, got %s" % (key, value)) from None
        if not (math.isfinite(number) and 0 < number <= 1 and (number < 1 or not below)):
            upper = "and below 1" if below else "and at most 1"
            raise SettingsError("%s must be above 0 %s, got %s" % (key, upper, value))
        return number

    return read


def _power_of_2(key: str, what: str, value: str, zero: bool) -> int:
    number = _whole(key, value)
    if number & (number - 1) or not (number or zero):
        raise SettingsError(
            "%s takes %s that %s, got %d"
            % (key, what, "are powers of two, or 0" if zero else "are powers of two", number)
        )
    return number


def _divisions(key: str, value: str) -> Tuple[int, ...]:
    """One number for all sizes, or ``[64:8,256:4,>:1]``: from 64 MiB on 8, from 256 MiB on 4, above 1.

    The first entry holds for smaller sizes too, and ``>`` for all above the last one.
    """
    if value[0] != "[":
        return (_power_of_2(key, "divisions", value, zero=False),) * CLASSES
    if value[-1] != "]":
        raise SettingsError("%s has no closing bracket" % key)
    found, last, first = [0] * CLASSES, -1, True
    for part in value[1:-1].split(","):
        size, colon, number = part.partition(":")
        if not colon:
            raise SettingsError('%s has the entry "%s", which is not MEBIBYTES:DIVISIONS' % (key, part))
        divisions = _power_of_2(key, "divisions", number, zero=True)
        if size == ">":
            found[last + 1 :] = [divisions] * (CLASSES - last - 1)
            continue
        index = min(_power_of_2(key, "sizes", size, zero=False).bit_length() - 1, CLASSES - 1)
        if first:
            found[:index] = [divisions] * index
            first = False
        found[index] = divisions
        last = index
    return tuple(found)


_KEYS: Dict[str, Tuple[str, Callable[[str, str], object]]] = {
    "expandable_segments": ("expandable_segments", _flag),
    "max_split_size_mb": ("max_split_size", _mebibytes(1)),
    "max_non_split_rounding_mb": ("max_non_split_rounding", _mebibytes(1)),
    "roundup_power2_divisions": ("roundup_power2_divisions", _divisions),
    "garbage_collection_threshold": ("garbage_collection_threshold", _share(below=True)),
    "large_segment_size_mb": ("large_segment_size", _mebibytes(11)),
    "per_process_memory_fraction": ("per_process_memory_fraction", _share(below=False)),
}
"""By torch's key: our field, and how its value is read."""

_WITHOUT_EFFECT = (
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "pinned_free_catch_all",
    "throw_on_cudamalloc_oom",
    "graph_capture_record_stream_reuse",
)
"""Keys about locks, pinned host memory, captures, and who raises the error."""

_IMPOSSIBLE = {
    "expandable_segments_reserve": "the address range that it asks for depends on the device",
    "expandable_segments_reserve_by_class": "the address ranges that it asks for depend on the device",
}
