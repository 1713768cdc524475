"""Browsing the module tree of the last count: it is read in a thread, and only when it is looked at."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from tui.app.line_edit import LineEdit
from tui.app.page import Scene
from tui.app.screens.step import StepScreen
from tui.errors import PeakmarkError

if TYPE_CHECKING:
    from tui.app.tree import Tree


class TreeBrowser(StepScreen):
    """A step whose second pane is the module tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tree", "Module tree", id="tree.open", show=False),
        Binding("o", "sort", "Sort the tree", id="tree.sort", show=False),
        Binding("slash", "search", "Search the tree", id="tree.search", show=False),
        Binding("n", "again(1)", "Next found", id="tree.next", show=False),
        Binding("N", "again(-1)", "Found before", id="tree.before", show=False),
    ]

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.modules: Tree | str | None = None
        """Or a sentence on why there is none; None while it is read."""
        self.search: LineEdit | None = None
        self._wanted = ""
        self._tree_of: object = None
        self._row_of_other = 0

    def scene(self) -> Scene:
        """The app's, with the tree as far as it was read."""
        if self.cursor.pane == 1:
            self._look()
        return replace(super().scene(), tree=self.modules)

    def _look(self) -> None:
        """Read the tree if it is not that of the project's last count."""
        inventory = self.peakmark.project.measured.inventory
        if inventory is None:
            self.modules, self._tree_of = "nothing was counted yet: r counts", None
        elif not inventory.journal:
            self.modules, self._tree_of = "the last count kept no module tree: r counts again", None
        elif self._tree_of != inventory.journal:
            self.modules, self._tree_of = None, inventory.journal
            reading = self._read(self.peakmark.project, inventory.journal)
            self.run_worker(reading, group="tree", exclusive=True, exit_on_error=False)

    async def _read(self, project: Any, journal: str) -> None:
        def grow() -> Tree:
            from tui.app.tree import grown

            return grown(self.peakmark.source.modules(project))

        try:
            made: Tree | str = await asyncio.to_thread(grow)
        except PeakmarkError as error:
            made = f"{error.message}; r counts again"
        if self._tree_of == journal:
            self.modules = made
            self.cursor = replace(self.cursor, row=max(0, self.cursor.row))
            self.redraw()

    # --- actions

    def action_tree(self) -> None:
        """Open the tree, or go back to the form; each keeps its cursor."""
        if self.peakmark.project is None:
            return
        row, self._row_of_other = self._row_of_other, self.cursor.row
        self.search = None
        self._show(pane=1 - self.cursor.pane, row=row)

    def action_pane(self, by: int) -> None:
        """The tree is the other pane."""
        self.action_tree()

    def _at(self) -> tuple[Tree, int] | None:
        """The tree and the cursor's line in it; None while there is none."""
        tree = self.modules if self.cursor.pane == 1 else None
        if tree is None or isinstance(tree, str) or not tree.shown:
            return None
        return tree, max(0, min(self.cursor.row, len(tree.shown) - 1))

    def _browsed(self, made: tuple[Tree, int]) -> None:
        self.modules, row = made
        self._show(row=row)

    def browse_fold(self) -> None:
        """Fold or unfold the line under the cursor."""
        from tui.app.tree import turned

        if here := self._at():
            self._browsed((turned(*here), here[1]))

    def browse_aside(self, by: int) -> None:
        """Right unfolds and goes in, left folds and goes out."""
        from tui.app.tree import inward, outward

        if here := self._at():
            self._browsed((inward if by > 0 else outward)(*here))

    def action_sort(self) -> None:
        """Sort by the next column."""
        from tui.app.tree import resorted

        if here := self._at():
            self._browsed(resorted(*here))

    def action_search(self) -> None:
        """Type what to look for."""
        if self._at():
            self.search = LineEdit.of(self._wanted)
            self._show()

    def action_again(self, by: int) -> None:
        """Go to the next module that has it."""
        from tui.app.tree import found

        here = self._at()
        if here is None or not self._wanted:
            return
        made = found(here[0], self._wanted, here[1], by)
        if made is None:
            self.peakmark.say(f"no module has {self._wanted} in its path or class")
        else:
            self._browsed(made)

    def browse_typed(self, key: str, character: str | None) -> None:
        """A key into the search."""
        if self.search is None:
            return
        if key == "escape":
            self.search = None
        elif key == "enter":
            self._wanted, self.search = self.search.text.strip(), None
            self.action_again(1)
        else:
            self.search = self.search.pressed(key, character) or self.search
        self.redraw()
