"""What the Probe screen has read from files and where its cursors are, as one value for its views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.app.alive import Alive
    from tui.app.course import Course, Moment
    from tui.app.forecast import Forecast
    from tui.app.line_edit import LineEdit
    from tui.app.output import Output


@dataclass(frozen=True, slots=True)
class ProbeState:
    """Everything beyond the project that a pane of the Probe screen may look at."""

    course: Course | str | None = None
    """The timeline, or a sentence on why there is none; None while it is read."""
    event: int | None = None
    """The instant that the cursor is on; None: the peak."""
    moment: Moment | None = None
    """What is alive then; None while it is looked up."""
    alive: Alive | None = None
    """The table of what is alive at the instant; None while it is made."""
    phases: bool = False
    """The timeline pane shows the phases' peaks instead of the chart."""
    table: bool = False
    """The batches pane gives its whole width to the table."""
    output: Output | str | None = None
    """The log that is open, or a sentence on why there is none; None: it is being read."""
    reading_output: bool = False
    """Whether the log is open."""
    meanings: bool = False
    """Readings say what they mean instead of where they were read."""
    search: LineEdit | None = None
    """What is typed into the search of the table."""
    alone: bool = False
    """The timeline is a predicted one: nothing was measured."""
    laid: bool = False
    """Whether the predicted timeline is to lie over the measured one."""
    predicted: Course | None = None
    """The timeline that lies over it; None while it is read."""
    forecast: Forecast | None = None
    """What is predicted to be alive at the instant of ``alive``; None: not laid over, or being looked up."""

    @property
    def over(self) -> Course | None:
        """The predicted timeline, when it is there and is to be shown over the measured one."""
        return self.predicted if self.laid else None

    @property
    def at(self) -> int | None:
        """The event of the cursor; None while there is no timeline."""
        if self.course is None or isinstance(self.course, str):
            return None
        return self.course.peak_event if self.event is None else self.event
