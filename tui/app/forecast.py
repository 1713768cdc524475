"""What is predicted to be alive, line by line of the table of what was measured.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tui.app.alive import Alive, Node, key_of, walked

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted bytes of one instant by view and by the path of a line."""

    event: int
    bytes: int
    sizes: dict[str, dict[Path, int]] = field(repr=False)

    def size(self, view: str, path: Path) -> int | None:
        """Of the line at ``path``; None: the prediction has no such line."""
        return self.sizes.get(view, {}).get(path)


def forecast_of(made: Alive) -> Forecast:
    """The predicted figures of a table that was made of a predicted timeline."""
    sizes = {view: dict(_flat(nodes)) for view, nodes in made.forests.items()}
    return Forecast(made.event, made.bytes, sizes)


def _flat(nodes: Iterable[Node]) -> Iterable[tuple[Path, int]]:
    left = [(one, (key_of(one),)) for one in nodes]
    while left:
        node, path = left.pop()
        yield path, node.bytes
        left += [(one, (*path, key_of(one))) for one in node.inner]


def joined(made: Alive, predicted: Alive) -> Alive:
    """``made`` with a line at zero for each module and category that only the prediction has."""
    forests = {
        view: nodes if view == "tensor" else nodes + _lacking(nodes, predicted.forests[view])
        for view, nodes in made.forests.items()
    }
    return walked(replace(made, forests=forests))


def _lacking(nodes: tuple[Node, ...], others: tuple[Node, ...]) -> tuple[Node, ...]:
    known = {key_of(one) for one in nodes}
    return tuple(_zeroed(one) for one in others if key_of(one) not in known)


def _zeroed(node: Node) -> Node:
    """A line of the prediction of which nothing was measured."""
    inner = tuple(_zeroed(one) for one in node.inner)
    said = f"{node.detail.partition(':')[0]}: predicted alone"
    return replace(node, bytes=0, count=0, rows={}, detail=said, inner=inner)
