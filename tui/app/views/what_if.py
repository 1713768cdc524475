"""The what-if form: what can be changed, then the ledger now and then, side by side."""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.lines import at, cut, ending, fit, line, wrap
from tui.app.page import BLANK, Page, Row, Scene, Section, answer
from tui.app.views.figures import Scale, aligned, scale_of, signed, sized
from tui.app.views.ledger_cells import span_of
from tui.app.what_if_state import OTHER, WhatIfState, form_lines, shown
from tui.budget import what_if
from tui.budget.what_if_rows import Case, Compared, Comparison, Side

_BADGES = {
    "FITS": ("●", "FITS"),
    "FITS ONLY WITHOUT THE RESERVE": ("!", "RESERVE"),
    "DOES NOT FIT": ("×", "NO FIT"),
}
_AROUND = ("device_total", "host_total", "reserve")


def page(scene: Scene, state: WhatIfState, width: int) -> Page:
    """The list of what can be changed, or the comparison; above it the line that is typed."""
    found = state.found
    listed = state.choosing or found is None
    scale = scale_of(scene.exact, None if found is None else _largest(found))
    rows = _typed(state, width)
    rows += _form(scene, state, width) if listed or found is None else _compared(found, scale, width)
    sections = [Section("", tuple(rows))]
    if not listed and found is not None and (differs := _diff(found, width)):
        sections.append(Section("in the file, once it is accepted", differs))
    typing = state.asking is not None
    return Page(
        _answer(state, width),
        tuple(sections),
        _told(state, listed, width),
        _keys(state, listed),
        typing=typing,
        folds=False,
    )


def _keys(state: WhatIfState, listed: bool) -> tuple[tuple[str, str], ...]:
    if state.asking is not None:
        return (("Enter", "take"), ("Esc", "give up"))
    if listed:
        back = (("w", "compare"),) if state.changes else ()
        return (("Enter", "change"), *back, ("Esc", "ledger"))
    return (("w", "change more"), ("u", "use this"), ("b", "bytes"), ("c", "copy"), ("Esc", "ledger"))


def _answer(state: WhatIfState, width: int) -> Text:
    if state.fault:
        return answer(width, "×", "NOT SO", state.fault, good=False)
    if not state.changes:
        return answer(
            width, "○", "WHAT IF", "one thing were changed? Nothing is run on a device, nothing saved"
        )
    said = ", ".join(what_if.word(one) for one in state.changes)
    if state.working or state.found is None:
        return answer(width, "»", "PREDICTING", fit(f"{said}; what is declared stands below", width - 18))
    if state.untrusted:
        why = "declared only; Esc p asks about its Python"
        return answer(width, "?", "UNKNOWN", f"{said}: {why}", good=False)
    then = state.found.then
    mark, word = _BADGES.get(then.verdict.word, ("?", "UNKNOWN"))
    if word == "UNKNOWN":
        told = _requested(state.found) or then.verdict.why
    else:
        told = f"{_spare(then)}; now {_spare(state.found.now)}"
    badge = f"{word}, by prediction"
    told = fit(f"{said}: {told}", width - len(badge) - 6)
    return answer(width, mark, badge, (told, "strong"), good=word == "FITS")


def _requested(found: Comparison) -> str:
    """What the program asks for, then and now: where nothing says whether it fits, that is known."""
    row = next(one for one in found.rows if one.key == "requested")
    if row.then.bytes is None or row.then.origin != "predicted":
        return ""
    now = "" if row.now.bytes is None else f", now {units.size(row.now.bytes)}"
    return f"{units.size(row.then.bytes)} requested{now}"


def _spare(case: Case) -> str:
    """Bytes to spare, at the most that the prediction says."""
    spare = case.verdict.spare_bytes
    if spare is None:
        return "n/a" if case.prediction is None else case.verdict.why or "n/a"
    return f"{units.gib(spare)} GiB to spare" if spare >= 0 else f"{units.gib(-spare)} GiB short"


def _told(state: WhatIfState, listed: bool, width: int) -> Text:
    if state.asking is not None:
        said = "name=value; no value takes the key out of the file"
    elif listed:
        said = "each change is one key of the project; u takes the changes into the file"
    else:
        said = "predicted with predicted, declared with declared: rows of different origin have no difference"
    return line((f" {fit(said, width - 2)}", "dim"))


def _typed(state: WhatIfState, width: int) -> list[Row]:
    if state.asking is None:
        return (
            [Row(line((" " + part, "amber"))) for part in wrap(state.fault, width - 2)] if state.fault else []
        )
    before, under, after = state.asking.window(width - 14)
    rows = [Row(line(" what if  ", (before, "edit"), (under, "caret"), (after, "edit")))]
    rows += [Row(line((" " + part, "amber"))) for part in wrap(state.fault, width - 2)] if state.fault else []
    return [*rows, BLANK]


def _form(scene: Scene, state: WhatIfState, width: int) -> list[Row]:
    head = at(at(line(("  what", "dim")), 24, "now", "dim"), 52, "then", "dim")
    rows = [Row(head)]
    for one in form_lines(scene.project, state.changes):
        text = at(
            line("   ", fit(one.name, 20)), 24, fit(one.was, width - 25 if one.name == OTHER else 27), "dim"
        )
        if one.becomes:
            at(text, 52, fit(one.becomes, width - 53), "strong")
        detail = line(
            (f" {one.key}: Enter types another value" if one.key else " Enter types name=value", "dim")
        )
        rows.append(Row(cut(text, width), pick=True, detail=detail, name=one.name))
    return rows


def _compared(found: Comparison, scale: Scale, width: int) -> list[Row]:
    rows = [
        Row(
            line(
                f" {name} ",
                (shown(one.was, one.key), "dim"),
                " becomes ",
                (shown(one.becomes, one.key), "strong"),
            )
        )
        for one in found.changes
        for name in [what_if.word(one).partition("=")[0]]
    ]
    if found.then.prediction is None and found.then.refused:
        said = wrap(f"not predicted: {found.then.refused}", width - 2)
        rows += [Row(line((" " + part, "amber"))) for part in said]
    ends = _ends(scale, width)
    head = line("  " + scale.unit)
    for name, end in ends.items():
        ending(head, end, name)
    if ends["difference"] + 10 < width:
        at(head, ends["difference"] + 3, "from")
    head.stylize("dim")
    rows += [BLANK, Row(cut(head, width))]
    for one in found.rows:
        if _counts(one):
            rows.append(_row(one, ends, scale, width))
    unknown = [one.label.removeprefix("= ") for one in found.unknown if one.key not in _AROUND]
    for part in wrap(f"n/a on both sides: {', '.join(unknown)}", width - 2) if unknown else []:
        rows.append(Row(line((" " + part, "dim"))))
    return rows


def _ends(scale: Scale, width: int) -> dict[str, int]:
    """The column before which each side ends; with every digit on a narrow terminal the present one has no room."""
    if scale.exact:
        return {"now": 43, "then": 60, "difference": 77} if width >= 78 else {"then": 42, "difference": 59}
    return (
        {"now": 38, "then": 50, "difference": 62}
        if width >= 64
        else {"now": 36, "then": 46, "difference": 58}
    )


def _counts(one: Compared) -> bool:
    """Whether the row says anything: another figure, or one that is not zero."""
    sides = (one.now, one.then)
    return one.is_changed or any(side.range or side.bytes for side in sides)


def _row(one: Compared, ends: dict[str, int], scale: Scale, width: int) -> Row:
    text = line("  ", (one.label, "strong")) if one.kind == "sum" else line("   " + one.label)
    for name, side in (("now", one.now), ("then", one.then)):
        if name in ends:
            ending(text, ends[name], _cell(side, scale), "dim" if side.origin == "declared" else "")
    off = one.difference
    shown_off = "n/a" if off is None else signed(off, scale)
    last = ends["difference"]
    ending(text, last, aligned(shown_off, scale), "strong" if off else "dim")
    if last + 10 < width:
        at(text, last + 3, fit(_origin(one, width - last - 4), width - last - 4), "dim")
    return Row(cut(text, width), pick=True, detail=_detail(one, width), name=one.key)


def _cell(side: Side, scale: Scale) -> str:
    if side.range is not None:
        return f"{side.range[0]:,}+" if scale.exact else span_of(*side.range, scale)
    return "n/a" if side.bytes is None else aligned(sized(side.bytes, scale), scale)


def _origin(one: Compared, room: int) -> str:
    now, then = one.now.origin or "n/a", one.then.origin or "n/a"
    if now != then:
        return f"{now} to {then}"
    return one.then.text if then == "declared" and one.then.text and len(one.then.text) <= room else then


def _detail(one: Compared, width: int) -> Text:
    sides = [
        f"{side.range[0]:,} to {side.range[1]:,} B"
        if side.range is not None
        else "n/a"
        if side.bytes is None
        else f"{side.bytes:,} B"
        for side in (one.now, one.then)
    ]
    why = one.then.text or one.why or one.then.origin
    said = f"{sides[0]} now, {sides[1]} then: {why}"
    label = one.label.removeprefix("= ")
    return line(" ", (label, "strong"), " " + fit(said, max(8, width - len(label) - 3)))


def _diff(found: Comparison, width: int) -> tuple[Row, ...]:
    """The lines of the file that change, without their surroundings."""
    said = what_if.difference(found.now.project, found.then.project, 0).splitlines()
    shown_lines = [one for one in said if one[:1] in "+-" and not one.startswith(("+++", "---"))]
    return tuple(Row(line(" " + fit(one, width - 2))) for one in shown_lines)


def _largest(found: Comparison) -> int | None:
    sizes = [
        side.bytes
        for one in found.rows
        for side in (one.now, one.then)
        if one.key not in _AROUND and side.bytes is not None
    ]
    return max(sizes, default=None)
