"""The what-if form of the Ledger: its keys, and the comparison that is made in the background."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui.app.line_edit import LineEdit
from tui.app.page import Scene
from tui.app.running import CPU
from tui.app.screens.step import StepScreen
from tui.app.what_if_state import WhatIfState, form_lines, typed_at_first
from tui.errors import PeakmarkError

PANE = 2
_GROUP = "what-if"


class WhatIfForm(StepScreen):
    """A step with a pane in which the spec is changed for a look at what would come of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "what_if", "What if", id="ledger.what-if", show=False),
        Binding("u", "use", "Use the changes", id="ledger.use", show=False),
    ]

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.what_if = WhatIfState()

    @property
    def on_what_if(self) -> bool:
        """Whether the form or its comparison is open."""
        return self.cursor.pane == PANE

    @property
    def typing(self) -> bool:
        """Whether keys go into a change."""
        return self.on_what_if and self.what_if.asking is not None

    def scene(self) -> Scene:
        """The app's, with the form."""
        return replace(super().scene(), what_if=self.what_if)

    # --- actions

    def action_what_if(self) -> None:
        """Open the form; from the comparison go back to it, and from it to the comparison."""
        if self.peakmark.project is None or self.peakmark.found is not None:
            return
        if not self.on_what_if:
            self._form(choosing=not self.what_if.changes)
            self._show(pane=PANE, row=0)
        elif self.what_if.changes:
            self._form(choosing=not self.what_if.choosing)
            self._show(row=0)

    def action_use(self) -> None:
        """Write the changes into the project; one that became impossible is said."""
        found = self.what_if.found
        if not self.on_what_if or found is None or self.what_if.choosing:
            return
        try:
            self.peakmark.source.accept(found.now.project, found.changes)
        except PeakmarkError as error:
            self._form(fault=error.sentence())
            self.redraw()
            return
        from tui.budget.what_if import word

        said = " ".join(word(one) for one in found.changes)
        self.leave_what_if()
        self.peakmark.reload()
        self.peakmark.say(f"written into the project: {said}")

    async def on_key(self, event: events.Key) -> None:
        """While a change is typed every key is its; before that the screen's own act here and now."""
        asking = self.what_if.asking
        if asking is None or not self.on_what_if:
            await self.act_now(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self._form(asking=None, fault="")
        elif event.key == "enter":
            self._take(asking.text.strip())
        else:
            self._form(asking=asking.pressed(event.key, event.character) or asking, fault="")
        self.redraw()

    # --- helpers

    def type_change(self, name: str) -> None:
        """Type another value of a line of the form."""
        lines = form_lines(self.peakmark.project, self.what_if.changes)
        for one in lines:
            if one.name == name:
                self._form(asking=LineEdit.of(typed_at_first(one)), fault="")
                self._show()

    def leave_what_if(self) -> None:
        """Back to the ledger; what is being predicted is given up, the changes are forgotten."""
        self.workers.cancel_group(self, _GROUP)
        self.what_if = WhatIfState()
        self._show(pane=0, row=-1)

    def _form(self, **changed: Any) -> None:
        self.what_if = replace(self.what_if, **changed)

    def _take(self, text: str) -> None:
        """Read the change that was typed; a wrong one stays in the line."""
        if not text:
            self._form(asking=None)
            return
        project = self.peakmark.project
        try:
            made = self.what_if.with_change(self.peakmark.source.change(project, text, self.what_if.changes))
        except PeakmarkError as error:
            self._form(fault=error.sentence())
            return
        self.what_if = replace(made, found=None, working=bool(made.changes))
        self.workers.cancel_group(self, _GROUP)
        if made.changes:
            self.run_worker(self._compare(), group=_GROUP, exclusive=True, exit_on_error=False)

    async def _compare(self) -> None:
        """What is declared at once, then the prediction."""
        app, changes = self.peakmark, self.what_if.changes
        probe = self.predicted_probe()
        device = "cpu" if app.gpu == CPU or (not app.gpu and probe and probe.device == "cpu") else ""
        gpu = "" if app.gpu == CPU else app.gpu
        try:
            untrusted = bool(app.source.untrusted(app.project))
            for predicting in (False,) if untrusted else (False, True):
                found = await app.source.what_if(app.project.path, changes, device, gpu, predicting)
                self._form(found=found, working=not predicting and not untrusted, untrusted=untrusted)
                self.redraw()
        except PeakmarkError as error:
            self._form(fault=error.sentence(), working=False)
        self.redraw()
