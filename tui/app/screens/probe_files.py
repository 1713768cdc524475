"""What the panes of the Probe screen need from files: read in threads, and only while such a pane is open."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.app.page import Scene
from tui.app.probe_state import ProbeState
from tui.app.quiet import uncollected
from tui.app.screens.step import StepScreen
from tui.errors import PeakmarkError

if TYPE_CHECKING:
    from tui.app.alive import Alive
    from tui.app.course import Course
    from tui.app.forecast import Forecast
    from tui.project.prediction import Prediction

RUN, TIMELINE, ALIVE, BATCHES = range(4)


class ProbeReader(StepScreen):
    """Keeps ``state`` in step with what is looked at."""

    def __init__(self) -> None:
        super().__init__("probe")
        self.state = ProbeState()
        self._timeline_of: object = None
        """The ``Probe.timeline`` that was read, or is being read."""
        self._predicted_of = ""
        """The ``Prediction.timeline`` that was read to lie over it, or is being read."""
        self._lost = ""
        """The ``Prediction.timeline`` that could not be read."""
        self._looking = False
        self._made_for: object = None
        """The instant, and the prediction, that the table of what is alive is of, or is made for."""
        self._log: tuple[object, object] = (None, None)
        """(journal, stamp) of the log that is shown."""

    # --- what is shown

    @property
    def typing(self) -> bool:
        """Whether keys go into a text."""
        return self.state.search is not None

    def scene(self) -> Scene:
        """The app's, with what was read from files as far as it is known."""
        if self.peakmark.project is not None:
            self._look()
        return replace(super().scene(), probe=self.state)

    def _look(self) -> None:
        """Begin to read what the open pane needs and is not there yet."""
        if self.state.reading_output:
            self._look_at_log()
        elif self.cursor.pane in (TIMELINE, ALIVE):
            probe = self._shown()
            self._look_at_timeline(probe)
            if self.state.laid and probe is not None:
                self._look_at_predicted()
            if self.state.at is not None and not self._looking:
                self._look_at_instant()

    def _shown(self) -> Any:
        """The probe that the panes are about; None: nothing was measured."""
        from tui.app.views.probe import shown_probe

        found = shown_probe(super().scene(), self.cursor)
        return found[1] if found is not None else None

    def predicted_probe(self) -> Any:
        """The one that is shown."""
        return self._shown()

    def forecast(self) -> Prediction | None:
        """The prediction of what the panes are about."""
        from tui.app.predicted import prediction_for

        project = self.peakmark.project
        found = prediction_for(project.spec, project.measured, self._shown())
        return found[1] if found is not None else None

    def _look_at_timeline(self, probe: Any) -> None:
        of = self.forecast() if probe is None else probe
        if of is None or self._timeline_of == (name := of.timeline or of.at):
            return
        self._timeline_of, self._made_for, self._predicted_of = name, None, ""
        made, again = ("prediction", "p predicts") if probe is None else ("measurement", "r measures")
        why = of.unknown.get("timeline") or f"no timeline was kept of this {made}"
        said = None if of.timeline else f"{why}: {again} again"
        self.state = replace(
            self.state,
            alone=probe is None,
            course=said,
            event=None,
            moment=None,
            alive=None,
            search=None,
            predicted=None,
            forecast=None,
        )
        if of.timeline:
            reading = self._read_timeline(of.timeline, f"{again} again")
            self.run_worker(reading, group="timeline", exclusive=True, exit_on_error=False)

    async def _read_timeline(self, name: str, again: str) -> None:
        made = await self._course(name, again)
        if self._timeline_of == name:
            self.state = replace(self.state, course=made)
            self.redraw()

    async def _course(self, name: str, again: str) -> Course | str:
        def make() -> Course:
            from tui.app.course import course_of
            from tui.app.views import canvas

            canvas.warm()
            with uncollected():
                return course_of(self.peakmark.source.timeline(name))

        try:
            return await asyncio.to_thread(make)
        except PeakmarkError as error:
            return f"{error.message}: {again}"

    def _look_at_predicted(self) -> None:
        """Read the timeline that is to lie over the measured one."""
        found = self.forecast()
        if found is None or not found.timeline:
            self.state = replace(self.state, laid=False, predicted=None, forecast=None)
        elif self._predicted_of != found.timeline:
            self._predicted_of, self._made_for = found.timeline, None
            self.state = replace(self.state, predicted=None, forecast=None)
            reading = self._read_predicted(found.timeline)
            self.run_worker(reading, group="predicted", exclusive=True, exit_on_error=False)

    async def _read_predicted(self, name: str) -> None:
        made = await self._course(name, "p predicts again")
        if self._predicted_of != name:
            return
        self._made_for = None
        if isinstance(made, str):
            self._predicted_of, self._lost = "", name
            self.state = replace(self.state, laid=False)
            self.peakmark.say(made.replace("of this measurement", "of this prediction"))
        else:
            self.state = replace(self.state, predicted=made)
        self.redraw()

    def _look_at_instant(self) -> None:
        """Look up what is alive at the cursor, one instant at a time: the last one that was asked for counts."""
        at, state = self.state.at, self.state
        needed = (
            state.moment is None or state.moment.event != at
            if self.cursor.pane == TIMELINE
            else self._made_for != (at, state.over)
        )
        if needed:
            self._looking = True
            self.run_worker(self._read_instant(), group="instant", exit_on_error=False)

    async def _read_instant(self) -> None:
        from tui.app import course

        made, at, pane, over = self.state.course, self.state.at, self.cursor.pane, self.state.over
        assert at is not None
        assert made is not None
        assert not isinstance(made, str)
        try:
            if pane == TIMELINE:
                moment = await asyncio.to_thread(course.moment, made, at)
                if self.state.course is made:
                    self.state = replace(self.state, moment=moment)
            else:
                found, forecast = await asyncio.to_thread(_table, made, at, over)
                if self.state.course is made:
                    self._made_for = (at, over)
                    self.state = replace(self.state, alive=found, forecast=forecast)
        finally:
            self._looking = False
        self.redraw()

    def _look_at_log(self) -> None:
        live = self.peakmark.live
        probe = None if live is not None and live.child.journal else self._shown()
        journal = live.child.journal if probe is None and live is not None else getattr(probe, "journal", "")
        if not journal:
            self.state = replace(self.state, output="no measuring process has begun yet")
            return
        if self._log[0] != journal:
            self._log = (journal, None)
            self.state = replace(self.state, output=None)
        elif live is None and self.state.output is not None:
            return  # what is over writes no more
        if not self._looking:
            self._looking = True
            self.run_worker(self._read_log(journal), group="log", exit_on_error=False)

    async def _read_log(self, journal: str) -> None:
        before = self._log[1]
        try:
            found = await asyncio.to_thread(self.peakmark.source.output, journal, before)
        except PeakmarkError as error:
            found = error.message
        finally:
            self._looking = False
        if self._log[0] != journal or found is None:
            return
        self._log = (journal, getattr(found, "stamp", None))
        changed = found != self.state.output
        self.state = replace(self.state, output=found)
        if changed and self.state.reading_output:
            self.redraw()


def _table(course: Course, event: int, over: Course | None) -> tuple[Alive, Forecast | None]:
    """What is alive at an event, and what is predicted to be there at the same instant."""
    from tui.app import alive
    from tui.app.forecast import forecast_of, joined
    from tui.app.laid_over import event_over
    from tui.budget import timeline

    made = alive.table(timeline.alive(course.timeline, event), event)
    there = event_over(course, over, event) if over is not None else None
    if over is None or there is None:
        return made, None
    predicted = alive.table(timeline.alive(over.timeline, there), there)
    return joined(made, predicted), forecast_of(predicted)
