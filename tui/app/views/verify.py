"""2 Verify: can figures from this machine and this model be trusted?"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tui import units
from tui.app.choose import latest
from tui.app.lines import at, fit, line
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer
from tui.app.views.empty import nothing
from tui.app.views.figures import plural, when
from tui.probe.protocol import CheckDone
from tui.project.measured import Check, Environment, Verify

_MARKS = {"pass": ("●", "dim"), "fail": ("×", "amber.strong"), "note": ("!", "amber"), "n/a": ("-", "dim")}
_TITLE, _TEXT = 3, 31
_GROUPS = {"step": "one small step", "checkpoint": "a checkpoint, reloaded in a fresh process"}


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """What was recorded, the small step, the checkpoint in a fresh process: one line a check."""
    if scene.live and scene.live.step == "verify":
        return _running(scene, width)
    newest = latest(scene.project.measured.verify)
    if newest is None:
        return nothing("verify", width)
    key, verify = newest
    environment = scene.project.measured.environment.get(verify.environment)
    sections = [Section("recorded", _recorded(environment, width, height > 24))] if environment else []
    sections += _groups(verify.checks.values(), width)
    told = line((f" {key}   {verify.precision}   steps 3 to 6 rely on this", "dim"))
    keys = (("r", "run"), ("c", "copy"), ("e", "edit file"))
    return Page(_answer(scene, verify, width), (Section("", (BLANK,)), *sections), told, keys)


def _answer(scene: Scene, verify: Verify, width: int) -> Text:
    outcomes = [check.outcome for check in verify.checks.values()]
    failed, passed = outcomes.count("fail"), outcomes.count("pass")
    said = [f"{passed} of {len(outcomes)} pass"]
    if notes := outcomes.count("note"):
        said.append(plural(notes, "note"))
    if left := outcomes.count("n/a"):
        said.append(f"{left} n/a")
    said.append(f"{failed} fail")
    right = f"{when(verify.at)}, {units.duration(verify.seconds)}"
    if "verify" in scene.stale:
        return answer(
            width, "~", "STALE", f"{scene.stale['verify']}: r verifies again", right=right, good=False
        )
    if failed or verify.outcome != "verified":
        return answer(width, "×", "FAILED", (", ".join(said), "strong"), right=right, good=False)
    return answer(width, "●", "VERIFIED", (said[0], "strong"), ", " + ", ".join(said[1:]), right=right)


def _running(scene: Scene, width: int) -> Page:
    live = scene.live
    assert live is not None
    child = live.child
    now = line(" ", ("»", "water"), " ", (child.title or child.task or "starting", "strong"))
    if child.phase:
        at(now, _TEXT, child.phase.replace(".", ", "))
    if child.total:
        now.append(f"  {child.done} of {child.total} {child.what}")
    sections = _groups(live.checks.values(), width)
    right = units.duration(live.elapsed_s) if live.elapsed_s is not None else ""
    head = answer(width, "»", "RUNNING", plural(len(live.checks), "check") + " done", right=right)
    return Page(
        head,
        (Section("", (BLANK, Row(now), BLANK)), *sections),
        line((f" {child.id}   a child process of its own; this app only looks", "dim")),
        (("x", "stop"), ("c", "copy")),
    )


def _recorded(environment: Environment, width: int, tall: bool) -> tuple[Row, ...]:
    half = max(39, width // 2 - 1)
    pairs = [
        ("device", environment.device, "torch", environment.torch),
        ("id", environment.device_id, "driver", environment.driver or _why(environment, "driver")),
        (
            "capability",
            environment.capability or _why(environment, "capability"),
            "python",
            _python(environment),
        ),
    ]
    if tall:
        threads = "n/a" if environment.threads is None else str(environment.threads)
        pairs.append(("threads", threads, "platform", environment.container or environment.platform or "n/a"))
    rows = []
    for name, value, other, its in pairs:
        text = at(at(line(""), 1, name, "dim"), 12, fit(value, half - 13))
        rows.append(Row(at(at(text, half, other, "dim"), half + 9, fit(its, width - half - 10))))
    return tuple(rows)


def _why(environment: Environment, key: str) -> str:
    return f"n/a: {environment.unknown[key]}" if key in environment.unknown else "n/a"


def _python(environment: Environment) -> str:
    return environment.python + (f", glibc {environment.glibc}" if environment.glibc else "")


def _groups(checks: Iterable[Check | CheckDone], width: int) -> list[Section]:
    """Sections of check lines; ``checks`` are Check or CheckDone, which have the same fields."""
    groups: dict[str, list[Row]] = {}
    for check in checks:
        mark, role = _MARKS.get(check.outcome, ("?", "amber"))
        failed = check.outcome == "fail"
        text = line(
            " ", (mark, role), " ", (fit(check.title, _TEXT - _TITLE - 2), "strong" if failed else "")
        )
        prefix = "n/a: " if check.outcome == "n/a" and not check.text.startswith("n/a") else ""
        at(text, _TEXT, fit(prefix + check.text, width - _TEXT - 1), "strong" if failed else "")
        detail = line(f" {check.title}: {prefix}{check.text}")
        groups.setdefault(check.group, []).append(Row(text, pick=True, detail=detail, name=check.title))
    return [Section(_GROUPS.get(name, name), tuple(found)) for name, found in groups.items()]
