"""One of the six screens: lays out the page of its step, and moves the cursor in it."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.app.frame import LEAST, place
from tui.app.page import Cursor, Scene
from tui.app.screens.placed import PlacedScreen
from tui.app.widgets.lines_view import LinesView
from tui.app.widgets.trace import StepTrace

_PANES = {"probe": 4, "report": 3}


class StepScreen(PlacedScreen):
    """Shows one step.  What it shows is a function of the app's scene and of its own cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", id="move.down", show=False),
        Binding("up,k", "move(-1)", "Up", id="move.up", show=False),
        Binding("pagedown", "move(10)", "Page down", id="move.page-down", show=False),
        Binding("pageup", "move(-10)", "Page up", id="move.page-up", show=False),
        Binding("home,g", "move(-100000)", "First", id="move.first", show=False),
        Binding("end,G", "move(100000)", "Last", id="move.last", show=False),
        Binding("left,h", "aside(-1)", "Left", id="move.left", show=False),
        Binding("right,l", "aside(1)", "Right", id="move.right", show=False),
        Binding("tab", "pane(1)", "Next pane", id="pane.next", show=False),
        Binding("shift+tab", "pane(-1)", "Pane before", id="pane.before", show=False),
        Binding("enter", "choose", "Fold or open", id="row.choose", show=False),
        Binding("escape", "back", "Back", id="row.back", show=False),
        Binding("c", "copy", "Copy the row", id="row.copy", show=False),
        Binding("s", "save", "Save the report", id="report.save", show=False),
    ]

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.cursor = Cursor()

    def compose(self) -> ComposeResult:
        yield LinesView()
        if self.step == "probe":
            yield StepTrace("steps", ascii_only=self.peakmark.ascii_only)
            yield StepTrace("allocated", ascii_only=self.peakmark.ascii_only)

    @property
    def typing(self) -> bool:
        """Whether keys go into a text."""
        return False

    @property
    def on_restore(self) -> bool:
        """Whether the Report's restore pane is open: ``r`` then rehearses one."""
        return self.step == "report" and self.cursor.pane == 1

    @property
    def help_of(self) -> str:
        """That of the step."""
        return self.step

    def predicted_probe(self) -> Any:
        """The measurement that a prediction started here is to stand beside; None: none."""
        return None

    # --- actions

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        picks = self._placed.picks if self._placed else 0
        self._show(row=max(0, min(self.cursor.row + rows, picks - 1)))

    def action_aside(self, by: int) -> None:
        """Choose the phase (Ledger) or the pane."""
        if self.step != "ledger":
            self.action_pane(by)
            return
        from tui.app.ledgers import ledger_of, phases_of

        made = ledger_of(self.peakmark.project, self.cursor.phase, self.cursor.chosen)
        names = phases_of(made)
        if made.phase in names:
            self._show(phase=names[(names.index(made.phase) + by) % len(names)])

    def action_pane(self, by: int) -> None:
        """Go to the next pane."""
        count = _PANES.get(self.step, 0)
        if count:
            self._show(pane=(self.cursor.pane + by) % count, row=-1)
        elif self.step == "precision":
            self._show(pane=max(0, self.cursor.pane + by))

    def action_choose(self) -> None:
        """Fold or unfold a sum; open a batch; watch a run that was found."""
        if self.peakmark.found is not None:
            self.peakmark.watch_found()
            return
        row = self._placed.picked if self._placed else None
        if row is None or not row.name:
            return
        if self.step == "ledger":
            turned = self.cursor.turned ^ {row.name}
            self._show(turned=turned)
        elif self.step == "probe" and self.cursor.pane == 3:
            self._show(chosen=row.name, pane=0, row=-1)

    def action_back(self) -> None:
        """Leave the banner, the message, or what was opened."""
        if self.peakmark.found is not None:
            self.peakmark.leave_found()
        elif self.cursor.chosen:
            self._show(chosen="", pane=3)
        else:
            self._show(row=-1, phase=None, turned=frozenset())

    def action_save(self) -> None:
        """Write the report's file."""
        if self.step == "report":
            self.peakmark.save_report()

    # --- drawing

    def _show(self, **changed: object) -> None:
        self.cursor = replace(self.cursor, **changed)  # type: ignore[arg-type]
        self.peakmark.hush()
        self.redraw()

    def scene(self) -> Scene:
        """What the view may look at."""
        return self.peakmark.scene(self.step, self.cursor)

    def redraw(self) -> None:
        """Lay the page out and show it; only what differs is sent to the terminal."""
        width, height = self.app.size
        view = importlib.import_module(f"tui.app.views.{self.step}")
        scene = self.scene()
        # A view is made for the least terminal at the least; a smaller one shows one line instead of it.
        page = view.page(scene, max(width, LEAST[0]), max(height, LEAST[1]), self.cursor)
        made = place(page, scene, self.step, width, height, self.cursor)
        self.cursor = made.cursor
        marked = made.picked is not None and made.picked.marked
        self.show_placed(made, None if marked else made.cursor_y)
        if self.step == "probe":
            self.redraw_traces()

    def redraw_traces(self) -> None:
        """Draw the live traces where the page has a place for them, and hide them where it has none."""
        if self.step != "probe" or self._placed is None:
            return
        live = self.peakmark.live
        slots = {slot.name: (y, slot) for y, slot in self._placed.slots}
        for trace in self.query(StepTrace):
            found = slots.get(trace.id or "")
            trace.display = found is not None and live is not None
            if found is None or live is None:
                continue
            y, slot = found
            trace.styles.offset = (slot.column, y)
            trace.styles.width, trace.styles.height = slot.width, slot.height
            trace.redraw(getattr(live.child, slot.name), slot.width, slot.height)
