"""What the recorder asks of a device's semantics at every operator; of the CPU itself there is nothing to add.

All sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

Scratch = Tuple[int, str]
"""(bytes, what they are for, such as ``reduction of sum``)."""


class Target(NamedTuple):
    """The device that is predicted for; ``capability`` is (major, minor), unknown numbers are None."""

    name: str
    total_bytes: Optional[int] = None
    capability: Optional[Tuple[int, int]] = None
    sm_count: Optional[int] = None
    threads_per_sm: Optional[int] = None

    @classmethod
    def of(cls, table: Optional[Dict[str, Any]]) -> Optional[Target]:
        """The target that a plan names; None where it names none."""
        if table is None:
            return None
        capability = table.get("capability")
        return cls(
            table["name"],
            table.get("total_bytes"),
            None if capability is None else (int(capability[0]), int(capability[1])),
            table.get("sm_count"),
            table.get("threads_per_sm"),
        )


_RECURRENT = getattr(getattr(torch.ops.aten, "mkldnn_rnn_layer", None), "default", None)


class Assumptions:
    """What a prediction stands on, in the order in which it was met."""

    def __init__(self) -> None:
        self._noted: Dict[Tuple[str, str, str], int] = {}
        self.approximations: List[str] = []
        self.uncovered: List[str] = []
        self.ranges: Dict[str, List[int]] = {}
        """{what: [lowest, highest] bytes} of what is declared as a range."""

    def note(self, what: str, value: str, because: str) -> None:
        """``what`` was taken to be ``value``; repeats are counted."""
        key = (what, value, because)
        self._noted[key] = self._noted.get(key, 0) + 1

    def approximate(self, sentence: str) -> None:
        """Say once that a part of the figures is not exact."""
        if sentence not in self.approximations:
            self.approximations.append(sentence)

    def not_covered(self, sentence: str) -> None:
        """Say once what the figures leave out."""
        if sentence not in self.uncovered:
            self.uncovered.append(sentence)

    def table(self) -> List[Dict[str, Any]]:
        """The assumptions as events have them: {"what", "value", "because", "count"}."""
        return [
            {"what": what, "value": value, "because": because, "count": count}
            for (what, value, because), count in self._noted.items()
        ]


class Semantics:
    """The CPU's, to which fake tensors of a CPU are true; others derive from it.

    ``open`` may change what torch's operators do in this whole process, so one child has one semantics.
    """

    kind = "cpu"

    def __init__(self, target: Optional[Target] = None) -> None:
        self.target = target
        self.assumptions = Assumptions()

    def open(self) -> None:
        """Change what operators do; called once, before anything is built."""

    def close(self) -> None:
        """Undo of ``open`` what can be undone."""

    def before(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> Sequence[Scratch]:
        """Scratch that the operator takes before its results; freed at its end."""
        return ()

    def after(self, func: Any, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> Sequence[Scratch]:
        """Scratch that the operator takes after its results; freed at its end."""
        if func is _RECURRENT:
            self.assumptions.approximate("recurrent layers on the CPU: oneDNN's workspace is not known")
        return ()

    def kept(self, func: Any, in_backward: bool) -> Sequence[Scratch]:
        """What libraries take at this call and keep; each once, by thread of the caller."""
        return ()

    def nbytes(self, func: Any, position: int, tensor: Any) -> Optional[int]:
        """Bytes of the operator's result number ``position`` where the device keeps others; None: the fake's own."""
        return None
