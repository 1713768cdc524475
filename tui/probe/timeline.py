"""The storages of the steady iteration in a file beside the journal: too many for an event or a project.

``project.timeline`` reads it.  Events are births and deaths in order; whatever happens between two phases (the
making of a batch, dropping gradients) is one event, and what came and went within it is left out: it was not
there in any phase.  The storages alive after an event add up to the allocator's own total.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import module_tree

if TYPE_CHECKING:
    from .labels import Labelled

VERSION = 1
PHASES = ("forward", "backward", "step")


def path_of(journal: str) -> str:
    """``runs/<id>.timeline.json`` for ``runs/<id>.jsonl``."""
    return os.path.splitext(journal)[0] + ".timeline.json"


def keep(labelled: Labelled, iteration: int, journal: str) -> Dict[str, str]:
    """Write the timeline beside ``journal``; returns {"timeline": why it could not be} or nothing."""
    try:
        module_tree.write(table(labelled, iteration), path_of(journal))
    except OSError as error:
        return {"timeline": "the timeline could not be written: %s" % (error.strerror or error)}
    return {}


def table(labelled: Labelled, iteration: int) -> Dict[str, Any]:
    """The timeline of ``iteration`` as the file has it; without phases when it was not reached."""
    number, phases, first, last = _numbered(labelled, iteration)
    strings = {"": 0}

    def place(text: str) -> int:
        return strings.setdefault(text, len(strings))

    storages = []
    for index, one in enumerate(labelled.record.allocations):
        if one.born >= last or (one.died is not None and one.died < first):
            continue
        born = -1 if one.born < first else number[one.born - first]
        died = None if one.died is None or one.died >= last else number[one.died - first]
        if born == died:
            continue
        row = labelled.rows[index] or "unattributed"
        storages.append([born, died, one.nbytes, place(row), *map(place, words(labelled, index))])
    return {
        "version": VERSION,
        "events": number[-1] + 1 if number else 0,
        "phases": phases,
        "strings": list(strings),
        "storages": storages,
    }


def _numbered(labelled: Labelled, iteration: int) -> Tuple[List[int], List[List[Any]], int, int]:
    """(number of each event of the record from ``first`` to ``last``, phases, first, last)."""
    number: List[int] = []
    phases = []
    begun = last = 0
    following = 0
    between = False
    for interval in labelled.intervals:
        if interval.iteration != iteration or interval.phase == "collect":
            continue
        if not number and not phases:
            begun = interval.first
        last = interval.last
        count = interval.last - interval.first
        if interval.phase in PHASES:
            phases.append([interval.phase, interval.micro, following, following + count])
            number += range(following, following + count)
            following += count
            between = False
        elif count:
            following += not between
            number += [following - 1] * count
            between = True
    return number, phases, begun, last


def words(labelled: Labelled, index: int) -> Tuple[str, str, str, str]:
    """(module, operator, shape, dtype) of an allocation, "" for each that is not known."""
    one, label, held = labelled.record.allocations[index], labelled.labels[index], labelled.held.get(index)
    operator = label.op if label else one.op.rpartition("::")[2] if one.op.startswith("aten::") else ""
    module = held.module if held and held.module else label.module if label else ""
    shape, dtype = (held.shape, held.dtype) if held else (label.shape, label.dtype) if label else ((), None)
    return module, operator, _shape(shape, dtype, one.nbytes), dtype or ""


def _shape(shape: Sequence[int], dtype: Optional[str], nbytes: int) -> str:
    """ "8x128x768"; of a tensor that does not fill its storage, the number of elements that would."""
    size = _itemsize(dtype)
    if not size:
        return ""
    count = size
    for one in shape:
        count *= one
    if count == nbytes:
        return "x".join(map(str, shape)) or "1"
    return str(nbytes // size)


_ITEMSIZES: Dict[Optional[str], int] = {None: 0, "": 0}


def _itemsize(dtype: Optional[str]) -> int:
    if dtype not in _ITEMSIZES:
        _ITEMSIZES[dtype] = getattr(getattr(torch, dtype or "", None), "itemsize", 0)
    return _ITEMSIZES[dtype]
