"""A box over a screen that asks one thing: every key that answers is named in its foot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events

from tui.app.lines import wrap
from tui.app.screens.boxed import BoxScreen, Content


class Overlay(BoxScreen[str]):
    """Shows lines in a box; the key that is pressed decides what it ends with.

    Args:
        title: on the upper edge.
        body: sentences or ready lines; longer ones are wrapped.
        foot: the keys, for people.
        answers: key to result; Esc always answers "".
    """

    def __init__(
        self,
        title: str,
        body: Sequence[str],
        foot: str,
        answers: Mapping[str, str],
        *,
        ascii_only: bool = False,
    ) -> None:
        super().__init__(ascii_only=ascii_only)
        self._parts = title, tuple(body), foot
        self._answers = {"escape": "", **answers}

    def content(self, width: int, height: int) -> Content:
        """The lines, wrapped, as many as find room."""
        title, body, foot = self._parts
        wrapped = [part for one in body for part in (wrap(one, width - 4) if len(one) > width - 4 else [one])]
        return Content(title, wrapped[: max(1, height - 5)], foot)

    def on_key(self, event: events.Key) -> None:
        """End with the answer of a key; every other key is for nobody."""
        event.stop()
        if event.key in self._answers:
            self.dismiss(self._answers[event.key])
