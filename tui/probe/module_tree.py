"""The module tree of a count: one row a module and one a parameter, in a file beside the journal.

Elements are logical.  A parameter counts in the first module that holds it, so the rows of a level add up to the one
above them, whatever is shared.  ``project.modules`` reads the file.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from .identity import Holdings

VERSION = 1


def table(
    found: Holdings, calls: Optional[Dict[str, int]] = None, received: Optional[Dict[str, bool]] = None
) -> Dict[str, Any]:
    """The tree as the file has it.

    Args:
        found: what the model holds.
        calls: {path of a module: how often one forward called it}; None: none was run.
        received: {name of a parameter: whether a backward gave it a gradient}; None: none was run.
    """
    rows: Dict[str, List[Any]] = {}
    for path, module in found.modules:
        # path, class, elements, own, trainable, bytes, tensors, buffers, calls
        called = None if calls is None else calls.get(path, 0)
        rows[path] = [path, type(module).__name__, 0, 0, 0, 0, 0, 0, called]
    for one in found.parameters:
        trained = one.elements if one.trainable else 0
        rows[one.path][3] += one.elements
        _add(rows, one.path, (one.elements, None, trained, one.bytes, 1))
    for path, one, _ in found.buffers:
        _add(rows, path, (None, None, None, None, None, one.numel()))
    parameters = [
        [
            one.name,
            list(one.shape),
            one.dtype,
            one.elements,
            one.bytes,
            one.trainable,
            None if received is None else received.get(one.name),
            one.names[1:],
        ]
        for one in found.parameters
    ]
    return {"version": VERSION, "modules": list(rows.values()), "parameters": parameters}


def _add(rows: Dict[str, List[Any]], path: str, values: Any) -> None:
    """Add ``values`` to the columns from the third on, in the row of ``path`` and in all above it."""
    while True:
        row = rows[path]
        for column, value in enumerate(values, 2):
            if value is not None:
                row[column] += value
        if not path:
            return
        path = path.rpartition(".")[0]


def path_of(journal: str) -> str:
    """``runs/<id>.modules.json`` for ``runs/<id>.jsonl``."""
    return os.path.splitext(journal)[0] + ".modules.json"


def write(made: Dict[str, Any], path: str) -> None:
    """Put the tree in ``path`` as a whole or not at all.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    part = "%s.%d.part" % (path, os.getpid())
    try:
        with open(part, "w", encoding="utf-8") as handle:
            handle.write(json.dumps(made, separators=(",", ":")))  # dump() is many times slower
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise
