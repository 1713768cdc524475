"""``peakmark runs`` and ``peakmark stop``: what is running or was left running."""

from __future__ import annotations

from tui import __version__, units
from tui.commands.output import Output
from tui.engine import runs as engine
from tui.engine.record import Run

SHOWN = 20


def runs(output: Output) -> int:
    """List the runs of this user, newest first."""
    found = engine.runs()[:SHOWN]
    output.answer(lambda width: _lines(found), lambda: _document(found))
    return 0


def _lines(found: list[Run]) -> list[str]:
    if not found:
        return ["no run is known here. Start one: peakmark run PROJECT"]
    lines: list[str] = []
    for one in found:
        state = _state(one)
        lines.append(
            f"{one.id}  {state:12}  {units.when(one.started_at)}  {one.device}  {', '.join(one.steps)}"
        )
        lines.append(f"  {one.project}")
    if any(one.alive for one in found):
        lines.append("watch one: peakmark PROJECT   end one: peakmark stop RUN")
    return lines


def _state(one: Run) -> str:
    if one.alive is None:
        return f"on {one.host}"
    if one.alive:
        return "running"
    return "was killed" if one.ended is None else f"ended with {one.ended}"


def _why_no_code(one: Run) -> str:
    if one.alive is None:
        return f"it was started on {one.host} and has not ended yet, as far as can be seen here"
    return "it is still running" if one.alive else "it was killed before it could say"


def _document(found: list[Run]) -> dict[str, object]:
    unknown = {
        f"runs.{place}.{key}": _why_no_code(one)
        for place, one in enumerate(found)
        for key, value in (("exit_code", one.ended), ("alive", one.alive))
        if value is None
    }
    rows = [
        {
            "id": one.id,
            "pid": one.pid,
            "alive": one.alive,
            "exit_code": one.ended,
            "started_at": one.started_at.isoformat().replace("+00:00", "Z"),
            "device": one.device,
            "steps": list(one.steps),
            "project": str(one.project),
        }
        for one in found
    ]
    return {"schema": 1, "document": "runs", "peakmark": __version__, "runs": rows, "unknown": unknown}


def stop(prefix: str, output: Output) -> int:
    """End a run; what it measured so far is kept."""
    run = engine.find(prefix)
    was_running = run.alive is not False
    text = f"{run.id} is not running: it {_state(run)}"
    if was_running:
        engine.stop(run)
        text = f"{run.id} was stopped; what it had finished is saved in {run.project}"
    output.answer(
        lambda width: [text],
        lambda: {
            "schema": 1,
            "document": "stop",
            "peakmark": __version__,
            "run": run.id,
            "was_running": was_running,
            "project": str(run.project),
            "unknown": {},
        },
    )
    return 0
