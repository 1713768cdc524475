import io
import pickle
import resource
import subprocess
import sys

import pytest
from memory_records import MIB

from tui.probe import recorded, unpickle
from tui.probe.recorded import SnapshotError


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("touch pwned",)


def unpickled(content: bytes):
    return unpickle.read(io.BytesIO(content))


def test_a_pickle_that_asks_for_a_function_is_refused_and_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SnapshotError) as caught:
        unpickled(pickle.dumps({"segments": [], "device_traces": Evil()}))
    name = "nt.system" if sys.platform == "win32" else "posix.system"
    assert caught.value.message == f"asks to load {name}, which no memory snapshot needs"
    assert caught.value.hint == "refused, nothing of it was run"
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_by_hand_that_names_os_system_is_refused():
    with pytest.raises(SnapshotError, match=r"asks to load os\.system, which"):
        unpickled(b"cos\nsystem\n(S'true'\ntR.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (pickle.dumps({"segments": [1, 2, 3]})[:-4], "ends in the middle"),
        (b"PK\x03\x04 and more", "is a zip archive, such as a checkpoint"),
        (b"{'segments': []}", "is not a pickle"),
        (pickle.dumps({"segments": {1, 2}}), "holds a value of type set"),
        (pickle.dumps([b"bytes"]), "holds a value of type bytes"),
        (b"Pstranger\n.", "asks for an object outside the file"),
    ],
)
def test_a_file_that_is_no_plain_pickle_is_one_sentence(content, said):
    with pytest.raises(SnapshotError, match=said):
        unpickled(content)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02]r\xff\xff\xff\x7f.",  # LONG_BINPUT: entry 2,147,483,647 of the memo, 32 GiB of pointers
        b"]p99999999\n.",  # PUT
        b"\x80\x04\x8d" + (2**40).to_bytes(8, "little") + b"a.",  # BINUNICODE8: a text of 1 TiB
        b"\x80\x04\x95" + (2**40).to_bytes(8, "little") + b"a.",  # FRAME
    ],
    ids=["memo", "text memo", "string", "frame"],
)
@pytest.mark.parametrize("bounded", [True, False])
def test_a_few_bytes_that_announce_gigabytes_take_none_of_them(tmp_path, monkeypatch, content, bounded):
    if not bounded:  # as on a machine whose kernel does not hold a process to a size
        monkeypatch.setattr("tui.probe.bounded._limit", lambda allowed: None)
    path = tmp_path / "dump.pickle"
    path.write_bytes(content)
    before = resident_peak()
    with pytest.raises(SnapshotError):
        recorded.load(path)
    assert resident_peak() - before < 200 * MIB


def resident_peak():
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_the_limit_on_memory_is_lifted_again_after_reading():
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert unpickled(pickle.dumps([1])) == [1]
    with pytest.raises(SnapshotError, match="asks for far more memory than a file of its size can need"):
        unpickled(b"\x80\x02]r\xff\xff\xff\x7f.")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


FULL = """
import io, pickle
from tui.probe import bounded, unpickle
from tui.probe.recorded import SnapshotError
bounded._available = lambda: 3 << 20
content = pickle.dumps([0] * 6_000_000)
try:
    unpickle.read(io.BytesIO(content))
except SnapshotError as error:
    print(error.message, error.hint)
"""
"""A list of 48 MB, in a process that holds no memory of other work that it could take for it."""


def test_a_file_larger_than_the_machine_is_refused_with_what_to_do():
    said = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True).stdout
    assert "than the 3 MiB that this machine has left" in said
    assert "record fewer events" in said


def test_plain_values_come_back_as_they_were():
    shared = [1, 2.5, "x", None, True]
    value = {"a": (shared, shared), 7: {"deep": [[]]}}
    assert unpickled(pickle.dumps(value)) == value
