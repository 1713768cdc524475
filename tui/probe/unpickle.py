"""Reading a pickle that may come from anybody: plain values only, nothing of it can run.

A memory snapshot holds dict, list, tuple, int, str, float, bool and None.  Whatever needs a class or a
function is refused when its name is read, before anything could be called.  Memory is bounded by the file's size:
the fast unpickler believes a few bytes that announce millions of entries.

Standard library only, Python 3.9 syntax.
"""

import os
import pickle
from pathlib import Path
from typing import Any, BinaryIO, List

from . import bounded

PLAIN = {int, str, float, bool, type(None)}
CONTAINERS = {dict, list, tuple}
DEEPEST = 20_000
"""Levels of nesting that the smallest usual stack (2 MiB) bears at 64 B each, with room to spare."""
_NESTING = (b"t", b"\x85", b"\x86", b"\x87", b"\x91")
"""Pickle's codes TUPLE, TUPLE1, TUPLE2, TUPLE3, FROZENSET; they occur in texts and numbers too."""
HOW = "write it with torch.cuda.memory._dump_snapshot"


class SnapshotError(ValueError):
    """A memory snapshot that cannot be used; ``hint`` says how to mend it, or is empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("%s; %s" % (message, hint) if hint else message)
        self.message = message
        self.hint = hint


def printable(text: str) -> str:
    """Text from a file, safe to show: whatever could steer a terminal is a question mark."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text)


class _Plain:
    def find_class(self, module: str, name: str) -> Any:
        raise SnapshotError(
            "asks to load %s.%s, which no memory snapshot needs" % (printable(module), printable(name)),
            "refused, nothing of it was run",
        )

    def persistent_load(self, pid: Any) -> Any:
        raise SnapshotError(
            "asks for an object outside the file, which no memory snapshot needs",
            "refused, nothing of it was run",
        )


class _PlainUnpickler(_Plain, pickle.Unpickler):
    pass


class _CautiousUnpickler(_Plain, pickle._Unpickler):  # type: ignore[name-defined]
    """Ten times slower; takes memory only for what was really read."""


def is_shallow(path: Path) -> bool:
    """Whether too few bytes could begin a tuple or frozen set for their nesting to overflow the stack when hashed.

    Raises:
        OSError: the file cannot be read.
    """
    found = 0
    with path.open("rb") as stream:
        while found <= DEEPEST:
            part = stream.read(1 << 20)
            if not part:
                return True
            found += sum(part.count(code) for code in _NESTING)
    return False


def survives(path: Path) -> bool:
    """Whether a process that reads ``path`` comes to an end by itself: tried in a copy of this one.

    Python hashes nested tuples by recursion without a limit, which ends the process.  Call it where no other thread
    runs.
    """
    if not hasattr(os, "fork"):
        return True
    pid = os.fork()
    if pid == 0:
        try:
            _die_quietly()
            load(path)
        finally:
            os._exit(0)
    return not os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def _die_quietly() -> None:
    """Leave no core file and no traceback behind."""
    import faulthandler
    import resource

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def load(path: Path) -> Any:
    """The plain value pickled in ``path``.

    Raises:
        SnapshotError: not a pickle, cut off, or it holds anything but plain values.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return read(stream)


def read(stream: BinaryIO) -> Any:
    """The plain value pickled in a ``stream`` that can seek; see ``load`` for what it raises."""
    head = stream.read(4)
    stream.seek(0)
    if not head:
        raise SnapshotError("is empty", HOW)
    if head == b"PK\x03\x04":
        raise SnapshotError("is a zip archive, such as a checkpoint, and no memory snapshot", HOW)
    try:
        with bounded.reading(stream_size(stream)) as is_bounded:
            value = (_PlainUnpickler if is_bounded else _CautiousUnpickler)(stream).load()
            _refuse_others(value)
    except (SnapshotError, OSError):
        raise
    except bounded.TooMuch as error:
        raise too_much(error) from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        if isinstance(error, EOFError) or "truncated" in str(error) or "exhausted" in str(error):
            raise SnapshotError("ends in the middle: it was cut off", "copy it again") from None
        raise SnapshotError(
            "is not a pickle (%s)" % (printable(str(error)) or type(error).__name__), HOW
        ) from None
    return value


def stream_size(stream: BinaryIO) -> int:
    """Bytes from here to the end."""
    at = stream.tell()
    size = stream.seek(0, os.SEEK_END) - at
    stream.seek(at)
    return size


def too_much(error: bounded.TooMuch) -> SnapshotError:
    """The sentence for a file that wants too much memory."""
    if error.machine:
        return SnapshotError(
            "needs more memory to be read than the %d MiB that this machine has left" % (error.allowed >> 20),
            "record fewer events, _record_memory_history(max_entries=...), or read it on a larger machine",
        )
    return SnapshotError("asks for far more memory than a file of its size can need", "refused")


def _refuse_others(value: Any) -> None:
    """Raise unless everything inside is plain; shared and cyclic parts are looked at once."""
    seen = set()
    waiting: List[Any] = [[value]]
    while waiting:
        held = waiting.pop()
        if id(held) in seen:
            continue
        seen.add(id(held))
        inside = list(held) + list(held.values()) if type(held) is dict else held
        nested = set(map(type, inside)) - PLAIN
        if not nested:
            continue
        others = nested - CONTAINERS
        if others:
            name = min(kind.__name__ for kind in others)
            raise SnapshotError("holds a value of type %s, which no memory snapshot has" % name)
        waiting.extend(one for one in inside if type(one) in CONTAINERS)
