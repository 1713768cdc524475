"""The Ledger screen: the rows, and behind them what the prediction stands on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tui.app.page import Scene
from tui.app.screens.what_if import WhatIfForm
from tui.budget.ledger import Ledger, Timelines
from tui.budget.temporaries import ROWS
from tui.errors import PeakmarkError


class LedgerScreen(WhatIfForm):
    """Panes: the ledger of a measurement or prediction, the assumptions of its prediction, and the what-if form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "details", "What the prediction assumes", id="ledger.details", show=False),
        Binding("v", "scenario", "Which measurement or prediction", id="ledger.scenario", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("ledger")
        self._row_of_other = -1
        self._timelines: Timelines | None = None
        self._timelines_of: tuple[str, str] = ("", "")

    @property
    def on_assumptions(self) -> bool:
        """Whether the second pane is open."""
        return self.cursor.pane == 1

    def predicted_probe(self) -> Any:
        """The one whose ledger is shown."""
        from tui.app.ledgers import ledger_of

        return ledger_of(self.peakmark.project, None, self.cursor.chosen).probe

    def scene(self) -> Scene:
        """The app's, with the timelines of what is shown as far as they were read."""
        if self.cursor.pane == 0 and self.cursor.turned.intersection(ROWS):
            self._look()
        return replace(super().scene(), timelines=self._timelines)

    # --- actions

    def action_save(self) -> None:
        """Write what is shown as CSV and as Markdown, and say where."""
        if self.peakmark.project is None or self.cursor.pane != 0:
            return
        try:
            paths = self.peakmark.source.write_ledger(self.peakmark.project, self._made())
        except PeakmarkError as error:
            self.peakmark.say(error.sentence())
            return
        self.peakmark.say(f"written: {' and '.join(str(one) for one in paths)}")

    def action_details(self) -> None:
        """Open what the prediction assumes, or go back; each keeps its cursor."""
        if self.on_what_if:
            return
        row, self._row_of_other = self._row_of_other, self.cursor.row
        self._show(pane=1 - self.cursor.pane, row=row)

    def action_scenario(self) -> None:
        """Choose which measurement or prediction is shown, the latest first."""
        from tui.app.ledgers import ledger_of, scenarios
        from tui.app.screens.chooser import Chooser

        project = self.peakmark.project
        if self.on_what_if:
            return
        found = scenarios(project)
        if not found:
            self.peakmark.say("nothing is measured or predicted yet: r measures, p predicts")
            return
        made = ledger_of(project, None, self.cursor.chosen)
        shown = made.probe_id or made.prediction_id or ""
        choices = [(one.id, one.line) for one in found]
        title = "Whose ledger?"
        chooser = Chooser(title, choices, shown, ascii_only=self.peakmark.ascii_only)
        self.app.push_screen(chooser, self._answer_scenario)

    def action_pane(self, by: int) -> None:
        """The assumptions are the other pane."""
        self.action_details()

    def action_aside(self, by: int) -> None:
        """The phase; the assumptions are the same in all of them."""
        if self.cursor.pane == 0:
            super().action_aside(by)

    def action_choose(self) -> None:
        """Fold; among the assumptions choose the GPU to predict for."""
        if self.on_assumptions and self.peakmark.found is None:
            self.peakmark.choose_gpu()
        elif self.on_what_if and self.peakmark.found is None:
            row = self._placed.picked if self._placed else None
            if row is not None and self.what_if.choosing:
                self.type_change(row.name)
        else:
            super().action_choose()

    def action_back(self) -> None:
        """Back to the ledger first, then to that of the project's batch."""
        if self.peakmark.found is not None:
            super().action_back()
        elif self.on_assumptions:
            self.action_details()
        elif self.on_what_if:
            self.leave_what_if()
        else:
            self._show(row=-1, phase=None, turned=frozenset(), chosen="")

    # --- helpers

    def _made(self) -> Ledger:
        """The ledger that is shown."""
        from tui.app.ledgers import ledger_of

        return ledger_of(self.peakmark.project, self.cursor.phase, self.cursor.chosen, self._timelines)

    def _look(self) -> None:
        """Read the timelines of what is shown if they are not those that were read."""
        from tui.app.ledgers import ledger_of

        made = ledger_of(self.peakmark.project, self.cursor.phase, self.cursor.chosen)
        names = (
            made.probe.timeline if made.probe else "",
            made.prediction.timeline if made.prediction else "",
        )
        if names != self._timelines_of:
            self._timelines, self._timelines_of = None, names
            self.run_worker(self._read(names), group="timelines", exclusive=True, exit_on_error=False)

    async def _read(self, names: tuple[str, str]) -> None:
        def one(name: str) -> Any:
            with suppress(PeakmarkError):
                return self.peakmark.source.timeline(name) if name else None
            return None

        measured, predicted = [await asyncio.to_thread(one, name) for name in names]
        if names == self._timelines_of:
            self._timelines = Timelines(measured, predicted)
            self.redraw()

    def _answer_scenario(self, id: str | None) -> None:
        if id is not None:
            self._show(chosen=id, phase=None, row=-1)
