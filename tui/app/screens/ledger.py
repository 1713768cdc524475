"""The Ledger screen: the rows, and behind them what the prediction stands on."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tui.app.screens.step import StepScreen


class LedgerScreen(StepScreen):
    """Two panes: the ledger, and the assumptions of its prediction."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "details", "What the prediction assumes", id="ledger.details", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("ledger")
        self._row_of_other = -1

    @property
    def on_assumptions(self) -> bool:
        """Whether the second pane is open."""
        return self.cursor.pane == 1

    def predicted_probe(self) -> Any:
        """The one whose ledger is shown."""
        from tui.app.views.ledger import ledger_of

        return ledger_of(self.peakmark.project, None).probe

    def action_details(self) -> None:
        """Open what the prediction assumes, or go back; each keeps its cursor."""
        row, self._row_of_other = self._row_of_other, self.cursor.row
        self._show(pane=1 - self.cursor.pane, row=row)

    def action_pane(self, by: int) -> None:
        """The assumptions are the other pane."""
        self.action_details()

    def action_aside(self, by: int) -> None:
        """The phase; the assumptions are the same in all of them."""
        if not self.on_assumptions:
            super().action_aside(by)

    def action_choose(self) -> None:
        """Fold; among the assumptions choose the GPU to predict for."""
        if self.on_assumptions and self.peakmark.found is None:
            self.peakmark.choose_gpu()
        else:
            super().action_choose()

    def action_back(self) -> None:
        """Back to the ledger first."""
        if self.on_assumptions and self.peakmark.found is None:
            self.action_details()
        else:
            super().action_back()
