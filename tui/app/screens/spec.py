"""The Spec screen: a form that is edited in place, and the module tree of the last count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui.app.editing import Counted, Editing, FormState, Undo, begin, checked, inverse, pasted, pressed
from tui.app.fields import MORE, Field
from tui.app.page import Scene
from tui.app.screens.browse import TreeBrowser
from tui.app.views.form import FormLine
from tui.app.views.spec import laid
from tui.errors import PeakmarkError, ProjectError


class SpecScreen(TreeBrowser):
    """Edits one field at a time: Enter opens it, every key is checked, Enter saves, Esc gives up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo the last edit", id="field.undo", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("spec")
        self.editing: Editing | None = None
        self._base: Any = None
        """The project that the edit was checked against."""
        self._counted: tuple[Any, Counted] = (None, Counted())
        self._old = False
        self._undo: list[Undo] = []
        self._saving = False

    # --- what is shown

    @property
    def typing(self) -> bool:
        """Whether keys go into a text."""
        return self.editing is not None or self.search is not None

    def scene(self) -> Scene:
        """The app's, with the form as it is just now."""
        app = self.peakmark
        if self.editing is not None and self._base is not app.project:
            self._check(self.editing)  # the project was read again under the edit
        scene = super().scene()
        said = self.editing.sentence if self.editing is not None else ""
        return replace(scene, form=self._form(scene), message=said or scene.message)

    def _form(self, scene: Scene) -> FormState:
        undo = bool(self._undo) and self._undo[-1].spec == scene.project.spec
        old = self._old if self.editing is not None else "spec" in scene.stale
        return FormState(self._count(scene.project), self.editing, old, undo, self.search)

    def _count(self, project: Any) -> Counted:
        """The formula of a project, made once."""
        if self._counted[0] is not project:
            self._counted = (project, self._formula(project))
        return self._counted[1]

    def _formula(self, project: Any) -> Counted:
        try:
            return Counted(self.peakmark.source.formula(project))
        except ProjectError as error:
            return Counted(None, error.message)
        except ValueError as error:
            return Counted(None, str(error))

    def redraw(self) -> None:
        """Put the cursor's row where its field stands now, then show the page."""
        if self.peakmark.project is not None and self.cursor.pane == 0 and self.cursor.field:
            keys = self._keys()
            rows = [row for row, line in enumerate(keys) if self.cursor.field in line]
            if rows:
                self.cursor = replace(self.cursor, row=rows[0])
            else:  # the field has gone: the one that stands there now
                row = min(max(self.cursor.row, 0), len(keys) - 1)
                self.cursor = replace(self.cursor, row=row, field=keys[row][0])
        super().redraw()

    def _lines(self) -> list[FormLine]:
        scene = self.scene()
        first, then = laid(scene, scene.form, max(60, self.app.size.width), self.cursor)
        return [*first, *then]

    def _keys(self) -> list[tuple[str, ...]]:
        return [tuple(one.key for one in row.fields) for row in self._lines()]

    def _field(self) -> Field | None:
        return next(
            (one for row in self._lines() for one in row.fields if one.key == self.cursor.field), None
        )

    # --- moving

    def action_move(self, rows: int) -> None:
        """Move the cursor by lines, within a line to the field of the same place."""
        if self.cursor.pane == 1 or self.peakmark.project is None:
            super().action_move(rows)
            return
        keys, row = self._keys(), self.cursor.row
        place = keys[row].index(self.cursor.field) if self.cursor.field else 0
        picks = self._placed.picks if self._placed else len(keys)
        row = max(0, min(row + rows, picks - 1))
        field = keys[row][min(place, len(keys[row]) - 1)] if row < len(keys) else ""
        self._show(row=row, field=field)

    def action_aside(self, by: int) -> None:
        """To the next field of the line, then of the next line."""
        if self.cursor.pane == 1:
            self.browse_aside(by)
            return
        every = [key for line in self._keys() for key in line]
        here = every.index(self.cursor.field) if self.cursor.field in every else -1
        self._show(field=every[max(0, min(here + by, len(every) - 1))])

    def action_choose(self) -> None:
        """Edit the field, unfold the arguments; in the tree fold or unfold."""
        if self.peakmark.found is not None:
            self.peakmark.watch_found()
        elif self.cursor.pane == 1:
            self.browse_fold()
        elif self.cursor.field == MORE:
            self._show(turned=self.cursor.turned ^ {MORE})
        elif self.cursor.field:
            self._begin()
        elif self.cursor.row < 0:
            self.action_move(1)

    def action_back(self) -> None:
        """Leave the tree, the banner, the message, or the field."""
        if self.cursor.pane == 1 and self.peakmark.found is None:
            self.action_tree()
        else:
            self.cursor = replace(self.cursor, field="")
            super().action_back()

    # --- editing

    def _begin(self) -> None:
        if not self.peakmark.is_fresh():
            self.redraw()
            return
        field = self._field()
        if field is None:
            self.redraw()
            return
        project = self._base = self.peakmark.project
        self._old = "spec" in self.peakmark.scene(self.step, self.cursor).stale
        self.editing = begin(field, project, self._count(project))
        self.run_worker(self.peakmark.source.warm, thread=True, group="warm", exit_on_error=False)
        self.redraw()

    def _check(self, editing: Editing) -> None:
        app = self.peakmark
        self._base = app.project
        self.editing = checked(editing, app.project, app.source.check, self._formula)
        inventory, draft = app.project.measured.inventory, self.editing.draft
        if draft is not None:
            known = inventory is not None and bool(app.source.fingerprint(draft))
            self._old = known and not app.source.counted(draft)

    async def on_key(self, event: events.Key) -> None:
        """While something is typed every key is a text's; before that the screen's own act here and now."""
        if not self.typing:
            await self.act_now(event)
            return
        event.stop()
        event.prevent_default()
        if self.search is not None:
            self.browse_typed(event.key, event.character)
        elif self.editing is not None and not self._saving:
            self.peakmark.hush()
            self._typed(self.editing, event.key, event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Put what is pasted into the text."""
        event.stop()
        if self.search is not None:
            self.search = self.search.typed(event.text.strip("\r\n"))
        elif self.editing is not None and not self._saving:
            self._check(pasted(self.editing, event.text))
        self.redraw()

    def _typed(self, editing: Editing, key: str, character: str | None) -> None:
        if key == "escape" or (key == "enter" and not editing.fault and not editing.changes):
            self.editing = None
        elif key == "enter":
            if not editing.fault:
                self._save(editing.changes)
                return
        else:
            made = pressed(editing, key, character)
            if made is None:
                return
            if made.line.text == editing.line.text:
                self.editing = made  # the cursor moved
            else:
                self._check(made)
        self.redraw()

    def action_undo(self) -> None:
        """Bring back what stood there before the last edit."""
        spec = self.peakmark.project.spec if self.peakmark.project is not None else None
        if self.cursor.pane == 1 or not self._undo or self._undo[-1].spec != spec:
            self.peakmark.say("nothing to undo: no edit of this form is the last one of the file")
            return
        self._save(self._undo[-1].changes, undo=True)

    def _save(self, changes: Mapping[str, Any], undo: bool = False) -> None:
        self._saving = True
        self.run_worker(self._saved(changes, undo), group="save", exit_on_error=False)

    async def _saved(self, changes: Mapping[str, Any], undo: bool) -> None:
        from tui.project.atomic import ChangedOnDisk

        app = self.peakmark
        before = app.project
        try:
            back = inverse(app.source.written(before), changes)
            project = await asyncio.to_thread(app.source.save, before, changes)
        except ChangedOnDisk:
            self._ask_reload()
            return
        except (PeakmarkError, OSError) as error:
            said = error.sentence() if isinstance(error, PeakmarkError) else str(error)
            app.say(said)
            return
        finally:
            self._saving = False
        if undo:
            self._undo.pop()
            if self._undo:
                self._undo[-1] = replace(self._undo[-1], spec=project.spec)
        else:
            self._undo = [*self._undo[-99:], Undo(project.spec, back)]
        if self.editing is not None and self.editing.field.kind == "pair":
            self.cursor = replace(self.cursor, field=next(iter(changes)))  # to the argument that is new
        self.editing = None
        app.saved(project)
        why = self._count(project).why
        if why:
            app.say(f"saved, but the formula is n/a: {why}")

    def _ask_reload(self) -> None:
        from tui.app.screens.overlay import Overlay

        kept = (
            "Enter reads it again and keeps what you typed; Enter again then saves that."
            if self.editing is not None
            else "Enter reads it again."
        )
        body = ["Somebody has saved the file since it was read here. Nothing was overwritten.", "", kept]
        overlay = Overlay(
            "Changed on disk",
            body,
            "Enter reload   Esc back",
            {"enter": "reload"},
            ascii_only=self.peakmark.ascii_only,
        )
        self.app.push_screen(overlay, self._reload)

    def _reload(self, answer: str | None) -> None:
        if answer == "reload":
            self.peakmark.reload()
        self.redraw()
