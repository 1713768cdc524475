"""A program on a pseudo-terminal of 80 x 24, with every byte that it wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLAY = Path(__file__).with_name("play.py")
_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_()#=>78].?", re.S
)
LEAVES = b"\x1b[?1049l"
"""What restores the screen that was there before."""


class Terminal:
    """Starts ``argv`` as the leader of a session whose terminal this is; use as a context manager."""

    def __init__(self, argv: list[str], **environment: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.written = bytearray()
        base = {
            key: value for key, value in os.environ.items() if not key.startswith(("TEXTUAL", "LC_", "LANG"))
        }
        base |= {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
        }
        self.child = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=base | environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.close()

    def close(self) -> None:
        """Let the terminal vanish."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def read(self, seconds: float) -> None:
        """Read for at most ``seconds`` whatever comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return
            try:
                self.written += os.read(self.master, 1 << 16)
            except OSError:
                return

    def text(self, since: int = 0) -> str:
        """What was written from byte ``since`` on, without escape sequences."""
        return _ESCAPES.sub(b"", bytes(self.written[since:])).decode("utf-8", "replace")

    def wait_for(self, wanted: str, since: int = 0, limit_s: float = 20.0) -> None:
        """Read until ``wanted`` was written."""
        end = time.monotonic() + limit_s
        while wanted not in self.text(since):
            assert time.monotonic() < end, f"no {wanted!r} in {self.text(since)[-2000:]!r}"
            assert self.child.poll() is None or self._more(), (
                f"ended without {wanted!r}: {self.text(since)!r}"
            )
            self.read(0.05)

    def _more(self) -> bool:
        before = len(self.written)
        self.read(0.05)
        return len(self.written) > before

    def press(self, keys: str) -> None:
        """Send keys as a terminal does."""
        os.write(self.master, keys.encode())

    def end(self, limit_s: float = 8.0) -> int:
        """Read until the program has ended; its exit code."""
        end = time.monotonic() + limit_s
        while self.child.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self.read(0.05)
        self.read(0.05)
        return self.child.returncode


def play(*words: str, **environment: str) -> Terminal:
    """The app over a sample project; see play.py for the words."""
    return Terminal([sys.executable, str(PLAY), *words], **environment)
