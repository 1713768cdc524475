"""The screen of a memory snapshot: over whatever is open, without a project too.

The file is read in a process of its own, once for each instant that is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from tui.app.frame import LEAST, place
from tui.app.line_edit import LineEdit
from tui.app.page import Cursor, Scene
from tui.app.screens.placed import PlacedScreen
from tui.app.snapshot_state import LIVE, PANES, TIMELINE, WHAT_IF, SnapshotState, capacity_of, moved
from tui.app.widgets.lines_view import LinesView
from tui.errors import PeakmarkError

REST_S = 0.25
"""The cursor must rest this long before what is alive there is looked up."""


class SnapshotScreen(PlacedScreen):
    """Panes: the timeline with a cursor, the live set, segments, and the same under other settings.

    Args:
        path: a file of ``torch.cuda.memory._dump_snapshot``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", id="snapshot.down", show=False),
        Binding("up,k", "move(-1)", "Up", id="snapshot.up", show=False),
        Binding("pagedown", "move(10)", "Page down", id="snapshot.page-down", show=False),
        Binding("pageup", "move(-10)", "Page up", id="snapshot.page-up", show=False),
        Binding("home,g", "move(-100000)", "First", id="snapshot.first", show=False),
        Binding("end,G", "move(100000)", "Last", id="snapshot.last", show=False),
        Binding("left,h", "aside(-1)", "Left", id="snapshot.left", show=False),
        Binding("right,l", "aside(1)", "Right", id="snapshot.right", show=False),
        Binding("tab", "pane(1)", "Next pane", id="snapshot.pane", show=False),
        Binding("shift+tab", "pane(-1)", "Pane before", id="snapshot.pane-before", show=False),
        Binding("enter", "peak", "To the peak", id="snapshot.peak", show=False),
        Binding("v", "view", "By frame or size", id="snapshot.view", show=False),
        Binding("w", "what_if", "Other settings", id="snapshot.what-if", show=False),
        Binding("c", "copy", "Copy the row", id="snapshot.copy", show=False),
        Binding("escape", "close", "Close", id="snapshot.close", show=False),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.state = SnapshotState(path.name)
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield LinesView()

    def on_mount(self) -> None:
        """Take the theme's styles, and read the file."""
        super().on_mount()
        self._read()

    @property
    def typing(self) -> bool:
        """Whether keys go into a text."""
        return self.state.asking is not None

    @property
    def help_of(self) -> str:
        """What the panes of a snapshot mean."""
        return "snapshot"

    # --- reading

    def _read(self) -> None:
        """Read the file for the instant and the settings that are asked for; what was being read is given up."""
        self.state = replace(self.state, reading=True, fault="")
        self.run_worker(self._load(self.state), group="snapshot", exclusive=True, exit_on_error=False)

    async def _load(self, asked: SnapshotState) -> None:
        try:
            view = await self.peakmark.source.snapshot(self.path, asked.at, asked.settings, asked.capacity)
        except PeakmarkError as error:
            # Settings that the reader refuses must not stand in the way of the next instant.
            replays = self.state.view.replays if self.state.view is not None else ()
            kept = tuple(one.settings for one in replays if one.settings)
            fault = error.sentence().replace("--alloc-conf: ", "").replace("--capacity: ", "")
            self.state = replace(self.state, fault=fault, reading=False, settings=kept)
        else:
            self.state = replace(self.state, view=view, reading=False)
        self.redraw()

    def _soon(self) -> None:
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(REST_S, self._read)

    # --- actions

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        picks = self._placed.picks if self._placed else 0
        self._show(row=max(0, min(self.state.row + rows, picks - 1)))

    def action_aside(self, by: int) -> None:
        """Along the time; elsewhere to the next pane."""
        if self.state.pane != TIMELINE:
            self.action_pane(by)
            return
        from tui.app.views.snapshot import canvas_width

        event = moved(self.state, by, canvas_width(max(LEAST[0], self.app.size.width)))
        if event is not None and event != self.state.event:
            self._show(event=event, fault="")
            self._soon()

    def action_pane(self, by: int) -> None:
        """Go to the next pane."""
        self._show(pane=(self.state.pane + by) % len(PANES), row=-1)

    def action_peak(self) -> None:
        """Back to the peak."""
        if self.state.event is not None:
            self._show(event=None, fault="")
            self._soon()

    def action_view(self) -> None:
        """The live set by frame or by size."""
        if self.state.pane == LIVE:
            self._show(by_size=not self.state.by_size, row=-1)

    def action_what_if(self) -> None:
        """Type settings or a capacity to replay the record under."""
        if self.state.view is not None:
            self._show(pane=WHAT_IF, row=-1, asking=LineEdit())

    def action_close(self) -> None:
        """Take away what was refused, else close the file; where nothing else is open that is the end of the app."""
        if self.state.fault and self.state.current:
            self._show(fault="")
        elif self.peakmark.alone:
            self.app.exit()
        else:
            self.dismiss()

    async def on_key(self, event: events.Key) -> None:
        """While settings are typed every key is theirs; before that the screen's own act here and now."""
        if self.state.asking is None:
            await self.act_now(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self._show(asking=None)
        elif event.key == "enter":
            self._take(self.state.asking.text.strip())
        else:
            self._show(asking=self.state.asking.pressed(event.key, event.character) or self.state.asking)

    def _take(self, typed: str) -> None:
        """Replay under what was typed: settings, or a capacity."""
        try:
            found = capacity_of(typed)
        except ValueError as error:
            self._show(asking=None, fault=str(error))
            return
        known = self.state.settings
        if found is None:
            self._show(asking=None, settings=(*known, typed) if typed not in known else known)
        else:
            self._show(asking=None, capacity=found or None)
        self._read()

    # --- drawing

    def _show(self, **changed: Any) -> None:
        self.state = replace(self.state, **changed)
        self.peakmark.hush()
        self.redraw()

    def redraw(self) -> None:
        """Lay the page out and show it."""
        from tui.app.views import snapshot

        width, height = self.app.size
        wide = max(width, LEAST[0])
        page = snapshot.page(self.state, self.peakmark.exact, wide, max(height, LEAST[1]))
        scene = Scene(message=self.peakmark.message)
        head = snapshot.head(self.state, wide)
        made = place(page, scene, "", width, height, Cursor(row=self.state.row), head=head)
        self.state = replace(self.state, row=made.cursor.row)
        self.show_placed(made, made.cursor_y)
