"""Every error that peakmark raises on purpose.

PeakmarkError            shown as one sentence, without a traceback; the CLI exits with ``code``
├── VerdictError         a negative verdict: does not fit, a check failed     (1)
├── UsageError           bad command line                                     (2)
├── ProjectError         the project or workload file is wrong                (2)
├── StaleError           the saved configuration is no longer valid           (3)
├── RunError             it could not run: interpreter, device, crash         (4)
└── SaveError            a result could not be saved                          (5)
"""

from __future__ import annotations


class PeakmarkError(Exception):
    """Base of all of them.

    Args:
        message: one sentence without a full stop: what happened, with the value.
        where: ``file:line`` (or a file, a device id) that it is about; printed before the message.
        hint: how to mend it; printed after a semicolon.
    """

    code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def sentence(self) -> str:
        """``where: message; hint``, leaving out what is empty."""
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head}; {self.hint}" if self.hint else head

    def __str__(self) -> str:
        return self.sentence()


class VerdictError(PeakmarkError):
    """The workload does not fit, or a check of it failed."""

    code = 1


class UsageError(PeakmarkError):
    """The command line asks for something that does not exist."""

    code = 2


class ProjectError(PeakmarkError):
    """The project or workload file cannot be read, or says something impossible."""

    code = 2


class StaleError(PeakmarkError):
    """The saved operating configuration no longer describes this machine or workload."""

    code = 3


class RunError(PeakmarkError):
    """Nothing was measured: no interpreter, a busy device, a crashed child."""

    code = 4


class SaveError(PeakmarkError):
    """A result exists but could not be written to the project."""

    code = 5
