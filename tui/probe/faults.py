"""Turning what goes wrong in a child into one sentence for a person.

``TaskError`` is raised on purpose; everything else that a user's workload raises is described by the innermost
frame that lies in the user's own files.
"""

from __future__ import annotations

import os
import re
import traceback
from typing import Any, List, Optional

from .protocol import Failed

_ALLOCATE = re.compile(r"(?:tried to allocate|Tried to allocate) ([0-9.]+) ?(bytes|B|KiB|MiB|GiB)?")
_UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, None: 1}


class TaskError(Exception):
    """The task cannot go on; ``kind`` is one of those that ``protocol.Failed`` lists."""

    def __init__(self, kind: str, sentence: str, where: str = "", hint: str = "", **details: Any) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.where = where
        self.hint = hint
        self.details = details


def said_by(error: BaseException) -> str:
    """The error's own words; an error whose text cannot be made is no reason to lose the sentence."""
    try:
        return str(error)
    except Exception:
        return "%s, whose text cannot be made" % type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that an allocation failed, on any device and any torch from 2.1 on."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, MemoryError) or "OutOfMemoryError" in names:
        return True
    text = said_by(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "std::bad_alloc" in text or "out of memory" in text
    )


def asked_bytes(error: BaseException) -> Optional[int]:
    """Bytes that the failed allocation asked for, as the error's text says them, or None."""
    found = _ALLOCATE.search(said_by(error))
    if not found:
        return None
    return int(float(found.group(1)) * _UNITS[found.group(2)])


def place(error: BaseException, roots: List[str]) -> str:
    """``file:line`` of the innermost frame in the user's files (below ``roots``), or ""."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        path = os.path.realpath(frame.filename)
        for root in roots:
            inside = root and (path == root or path.startswith(root.rstrip(os.sep) + os.sep))
            if inside and "site-packages" not in path:
                return "%s:%s" % (os.path.relpath(path, _folder(root)), frame.lineno)
    return ""


def _folder(root: str) -> str:
    return root if os.path.isdir(root) else os.path.dirname(root)


def one_line(error: BaseException, limit: int = 300) -> str:
    """The error's own words on one line, without memory addresses."""
    text = " ".join(said_by(error).split()) or type(error).__name__
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def describe(error: BaseException, roots: List[str], phase: str, python: str, log: str) -> Failed:
    """The ``Failed`` event for any exception that ended a task; ``log`` names where its traceback is."""
    if isinstance(error, TaskError):
        return Failed(error.kind, error.sentence, error.where, error.hint, phase, dict(error.details))
    where = place(error, roots)
    if is_out_of_memory(error):
        return Failed("out-of-memory", one_line(error), where, "", phase, {"asked_bytes": asked_bytes(error)})
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Failed(
            "workload",
            "No module named '%s' in %s" % (error.name, python),
            where,
            "install it there, or name another interpreter as environment.python in the project's .local.toml",
            phase,
        )
    if isinstance(error, SyntaxError) and error.filename:
        return Failed(
            "workload",
            "not valid Python: %s" % error.msg,
            "%s:%s" % (os.path.basename(error.filename), error.lineno),
            "",
            phase,
        )
    said = "%s: %s" % (type(error).__name__, one_line(error))
    if isinstance(error, SystemExit):
        said = "it called exit(%r), which ends the measurement" % (error.code,)
    hint = "" if where else "the whole traceback is in %s of the state folder" % log
    return Failed("workload" if where else "internal", said, where, hint, phase)
