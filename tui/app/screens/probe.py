"""The Probe screen: a run that is going on, the timeline of a step, what is alive in it, and the batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui.app.line_edit import LineEdit
from tui.app.screens.probe_files import ALIVE, BATCHES, RUN, TIMELINE, ProbeReader

if TYPE_CHECKING:
    from tui.app.alive import Alive


class ProbeScreen(ProbeReader):
    """Four panes, each with the keys that its table or chart needs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "search_batch", "Search the largest batch", id="probe.search", show=False),
        Binding("o", "output", "Output of the child", id="probe.output", show=False),
        Binding("p", "lay", "Prediction", id="probe.predict", show=False),
        Binding("d", "meanings", "What readings mean", id="probe.meanings", show=False),
        Binding("v", "view", "Other view", id="probe.view", show=False),
        Binding("greater_than_sign", "sort", "Sort the table", id="probe.sort", show=False),
        Binding("slash", "find", "Search the table", id="probe.find", show=False),
        Binding("n", "again(1)", "Next found", id="probe.next", show=False),
        Binding("N", "again(-1)", "Found before", id="probe.before", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._wanted = ""

    # --- keys

    def action_output(self) -> None:
        """Open the log of the measuring process, or close it."""
        opened = not self.state.reading_output
        self._log = (None, None)
        self.state = replace(self.state, reading_output=opened, output=None, search=None)
        self._show(row=-1)

    def action_meanings(self) -> None:
        """Say what the readings mean, or again where they were read."""
        self.state = replace(self.state, meanings=not self.state.meanings)
        self._show(pane=RUN)

    def action_pane(self, by: int) -> None:
        """Go to the next pane."""
        self.state = replace(self.state, reading_output=False, search=None)
        super().action_pane(by)

    def action_aside(self, by: int) -> None:
        """Along the time, in and out of the table; elsewhere to the next pane."""
        if self._on_chart():
            self._step(by)
        elif (here := self._in_table()) is not None:
            from tui.app import alive

            self._browsed((alive.inward if by > 0 else alive.outward)(*here))
        elif not self.state.reading_output:
            self.action_pane(by)

    def action_choose(self) -> None:
        """To the peak; fold or unfold; open a batch."""
        if self.peakmark.found is None and self._on_chart():
            self.state = replace(self.state, event=None)
            self._show(row=-1)
        elif self.peakmark.found is None and (here := self._in_table()) is not None:
            from tui.app import alive

            self._browsed((alive.turned(*here), here[1]))
        else:
            super().action_choose()

    def action_back(self) -> None:
        """Close what is open over the pane, then the pane's own."""
        if self.state.reading_output and self.peakmark.found is None:
            self.action_output()
        elif self._on_chart() and self.peakmark.found is None and not self.cursor.chosen:
            self.action_choose()
        else:
            super().action_back()

    def action_view(self) -> None:
        """The chart or the phases' peaks; modules, categories or tensors."""
        if self.cursor.pane == TIMELINE:
            self.state = replace(self.state, phases=not self.state.phases and not self.state.alone)
            self._show(row=-1)
        elif self.cursor.pane == BATCHES:
            self.state = replace(self.state, table=not self.state.table)
            self._show()
        elif (here := self._in_table()) is not None:
            from tui.app import alive

            self.state = replace(self.state, alive=alive.reviewed(here[0]))
            self._show(row=0)

    def action_lay(self) -> None:
        """Lay the prediction over what was measured, or take it away; predict where there is none."""
        app = self.peakmark
        if app.project is None:
            return
        probe, found = self._shown(), self.forecast()
        here = self.cursor.pane in (TIMELINE, ALIVE) and probe is not None
        if not here or found is None or found.timeline in ("", self._lost):
            app.predict(probe)
        elif not self.state.reading_output:
            self.state = replace(self.state, laid=not self.state.laid, forecast=None)
            self._made_for = None
            self._show()

    def action_sort(self) -> None:
        """Sort the table by the next column."""
        if (here := self._in_table()) is not None:
            from tui.app import alive

            self._browsed(alive.resorted(*here))

    def action_find(self) -> None:
        """Type what to look for in the table."""
        if self._in_table() is not None:
            self.state = replace(self.state, search=LineEdit.of(self._wanted))
            self._show()

    def action_again(self, by: int) -> None:
        """Go to the next line that has what was looked for."""
        here = self._in_table()
        if here is None or not self._wanted:
            return
        from tui.app import alive

        made = alive.found(here[0], self._wanted, here[1], by)
        if made is None:
            self.peakmark.say(f"no line of this view has {self._wanted}")
        else:
            self._browsed(made)

    def action_search_batch(self) -> None:
        """Ask whether to search the largest batch that fits, saying what that would run."""
        if self.peakmark.project is not None:
            self.peakmark.ask_search()

    async def on_key(self, event: events.Key) -> None:
        """While a search is typed every key is a text's; before that the screen's own act here and now."""
        if self.state.search is None:
            await self.act_now(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self._wanted = self.state.search.text.strip()
            self.state = replace(self.state, search=None)
            self.action_again(1)
        elif event.key == "escape":
            self.state = replace(self.state, search=None)
        else:
            typed = self.state.search.pressed(event.key, event.character)
            self.state = replace(self.state, search=typed or self.state.search)
        self.redraw()

    # --- helpers

    def _on_chart(self) -> bool:
        """Whether the keys move along the time."""
        state = self.state
        return (
            self.cursor.pane == TIMELINE
            and state.at is not None
            and not (state.phases or state.reading_output)
        )

    def _in_table(self) -> tuple[Alive, int] | None:
        """The table of what is alive and the cursor's line in it; None while it is not shown."""
        made = self.state.alive
        if self.cursor.pane != ALIVE or made is None or not made.shown or self.state.reading_output:
            return None
        return made, max(0, min(self.cursor.row, len(made.shown) - 1))

    def _browsed(self, made: tuple[Alive, int]) -> None:
        self.state = replace(self.state, alive=made[0])
        self._show(row=made[1])

    def _step(self, by: int) -> None:
        """Move the cursor by columns of the chart as wide as it is now."""
        from tui.app.course import column_of, event_of
        from tui.app.views.probe_timeline import canvas_width

        course, at = self.state.course, self.state.at
        assert at is not None
        assert course is not None
        assert not isinstance(course, str)
        width = canvas_width(max(60, self.app.size.width))
        column = max(0, min(width - 1, column_of(course, at, width) + by))
        self.state = replace(self.state, event=event_of(course, column, width))
        self._show()
