"""Reading a pickle that may come from anybody: plain values only, nothing of it can run.

A memory snapshot holds dict, list, tuple, int, str, float, bool and None.  Whatever needs a class or a
function is refused when its name is read, before anything could be called.

Standard library only, Python 3.9 syntax.
"""

import pickle
from pathlib import Path
from typing import Any, BinaryIO, List

PLAIN = {int, str, float, bool, type(None)}
CONTAINERS = {dict, list, tuple}
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


class _PlainUnpickler(pickle.Unpickler):
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
        value = _PlainUnpickler(stream).load()
    except (SnapshotError, OSError):
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        if isinstance(error, EOFError) or "truncated" in str(error) or "exhausted" in str(error):
            raise SnapshotError("ends in the middle: it was cut off", "copy it again") from None
        raise SnapshotError(
            "is not a pickle (%s)" % (printable(str(error)) or type(error).__name__), HOW
        ) from None
    _refuse_others(value)
    return value


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
