"""3 Ledger: does it fit, and where does every byte go?"""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.choose import latest, ledger_probe
from tui.app.lines import at, bar, cut, ending, fit, line
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section, answer
from tui.app.views.budget_bar import budget_bar
from tui.app.views.figures import Scale, aligned, plural, scale_of, signed, sized, when
from tui.budget import ledger as budget
from tui.budget.ledger import Ledger
from tui.budget.rows import Row as LedgerRow
from tui.probe.protocol import PHASES, REQUESTED_ROWS

_BADGES = {
    "FITS": ("●", "FITS"),
    "FITS ONLY WITHOUT THE RESERVE": ("!", "RESERVE"),
    "DOES NOT FIT": ("×", "NO FIT"),
    "UNKNOWN": ("?", "UNKNOWN"),
}
_SHORT = {
    "rounding": "tails",
    "context": "context",
    "others": "others",
    "heap_kept": "kept",
    "outside_heap": "code",
}


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """The budget as a bar, the phases, then every row of the ledger."""
    project = scene.project
    made = ledger_of(project, cursor.phase)
    scale = scale_of(scene.exact, _largest(made))
    head = [Row(one) for one in budget_bar(made, width, scale_of(scene.exact, None))]
    if len(made.phases) > 0:
        head += [BLANK, Row(_phases(made, width, scale))]
    head.append(Row(_heading(width, scale)))
    rows = _rows(made, cursor, height - 5 - len(head), width, scale)
    sections = [Section("", (*head, *rows))]
    if height > 30:
        sections.append(Section("beside it", _beside(scene, made, width)))
    keys = (("Enter", "fold"), ("←→", "phase"), ("b", "bytes"), ("c", "copy"), ("r", "run"))
    return Page(_answer(scene, made, width), tuple(sections), _told(made, width), keys)


def ledger_of(project: object, phase: str | None) -> Ledger:
    """The ledger that the screen shows: of the spec's batch if measured, in ``phase`` or the worst one."""
    spec, measured = project.spec, project.measured  # type: ignore[attr-defined]
    found = ledger_probe(spec, measured)
    key = found[0] if found else None
    known = phase if found and phase in found[1].phases else None
    return budget.ledger(spec, measured, key, known)


def _largest(made: Ledger) -> int | None:
    """The largest peak of any phase; without a measurement the largest declared row."""
    peaks = [peak.requested_bytes for peak in made.phases.values()]
    declared = [row.declared for row in made.rows if row.key in REQUESTED_ROWS and row.declared]
    return max(peaks or declared, default=None)


def phases_of(made: Ledger) -> tuple[str, ...]:
    """The measured phases in their order."""
    return tuple(name for name in PHASES if name in made.phases)


def _answer(scene: Scene, made: Ledger, width: int) -> Text:
    verdict = made.verdict
    right = when(made.probe.at) if made.probe and width > 100 else ""
    if made.probe is None:
        return answer(width, "○", "EMPTY", "not measured: declared rows only. r measures")
    if "ledger" in scene.stale:
        return answer(
            width, "~", "STALE", f"{scene.stale['ledger']}: r measures again", right=right, good=False
        )
    if not made.adds_up:
        broken = next(check for check in made.checks if check.agrees is False)
        return answer(width, "×", "DOES NOT ADD UP", (broken.text, "strong"), good=False)
    mark, word = _BADGES[verdict.word]
    good = verdict.word == "FITS"
    if verdict.why and verdict.spare_bytes is None:
        return answer(width, mark, word, verdict.why, right=right, good=good)
    spare, process = verdict.spare_bytes or 0, units.gib(verdict.process_bytes)
    budget_gib, reserve = units.gib(verdict.budget_bytes), units.gib(verdict.reserve_bytes)
    if verdict.word == "FITS":
        limit = units.gib((verdict.budget_bytes or 0) - verdict.reserve_bytes)
        less = f" ({_short(budget_gib)} less reserve {_short(reserve)})" if verdict.reserve_bytes else ""
        short = f"   process {process} of {limit}"
        room = width - len(f"  {mark} {word}  {units.gib(spare)} GiB to spare") - 1
        said = (
            (f"{units.gib(spare)} GiB to spare", "strong"),
            short + (less if len(short + less) <= room else ""),
        )
        return answer(width, mark, word, *said, right=right)
    if verdict.word == "DOES NOT FIT":
        over = units.gib(-spare - verdict.reserve_bytes)
        said = (f"{over} GiB short", "strong"), f": process {process} of {budget_gib}"
        return answer(width, mark, word, *said, right=right, good=False)
    text = f"fits only by using {units.gib(-spare)} GiB of the reserve of {reserve}"
    return answer(width, mark, word, (text, "strong"), right=right, good=False)


def _short(shown: str) -> str:
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _phases(made: Ledger, width: int, scale: Scale) -> Text:
    """Each phase with the height of its peak; the open one in brackets, always visible."""
    names = phases_of(made)
    top = max((made.phases[name].requested_bytes for name in names), default=0) or 1
    items: list[str] = []
    for name in names:
        peak = made.phases[name].requested_bytes
        worst = " worst" if name == made.verdict.worst_phase else ""
        level = " ▁▂▃▄▅▆▇█"[max(1, round(8 * peak / top))]
        items.append(f"{name} {sized(peak, scale)} {level}{worst}")
    here = names.index(made.phase) if made.phase in names else 0
    first = last = here
    whole = sum(len(item) + 2 for item in items) <= width - 7
    room = width - 7 - len(items[here]) - 2 - (0 if whole else 2)
    while True:  # grow from the open one to both sides while there is room
        if last + 1 < len(items) and len(items[last + 1]) + 2 <= room:
            last += 1
            room -= len(items[last]) + 2
        elif first > 0 and len(items[first - 1]) + 2 <= room:
            first -= 1
            room -= len(items[first]) + 2
        else:
            break
    text = line((" phase " if first == 0 else " phase…", "dim"))
    for index in range(first, last + 1):
        open_ = index == here
        text.append(f"[{items[index]}]" if open_ else f" {items[index]} ", "strong" if open_ else None)
    if last + 1 < len(items):
        text.append("…", "dim")
    return text


def _columns(width: int, scale: Scale) -> dict[str, int]:
    """Where each column ends; a column that is left out has none."""
    if not scale.exact:
        columns = {"declared": 32, "predicted": 42, "measured": 52, "difference": 63}
        return columns if width >= 72 else {"predicted": 38, "measured": 48, "difference": 59}
    if width >= 96:
        return {"declared": 43, "predicted": 60, "measured": 77, "difference": 94}
    return (
        {"predicted": 43, "measured": 60, "difference": 77}
        if width >= 78
        else {"measured": 43, "difference": 59}
    )


def _share_column(width: int, scale: Scale) -> int | None:
    return 65 if not scale.exact and width >= 79 else None


def _where_column(width: int, scale: Scale) -> int | None:
    column = 97 if scale.exact else 81
    return column if width >= column + 15 else None


def _heading(width: int, scale: Scale) -> Text:
    text = line("  " + scale.unit)
    columns = _columns(width, scale)
    for name, column in columns.items():
        ending(text, column, name)
    if (column := _share_column(width, scale)) is not None:
        at(text, column, "share")
    left_out = 4 - len(columns)
    if left_out:
        ending(text, width - 1, f"{left_out} more") if text.cell_len + 8 < width else None
    if (column := _where_column(width, scale)) is not None:
        at(text, column, "where it comes from")
    text.stylize("dim")
    return text


def _rows(made: Ledger, cursor: Cursor, room: int, width: int, scale: Scale) -> list[Row]:
    """Every sum with the rows above it, unfolded as far as there is room."""
    groups = _groups(made)
    levels = [_open(groups, cursor, level) for level in (2, 1, 0)]
    shown = next((one for one in levels if sum(len(rows) + 1 for rows, _, _ in one) <= room), levels[-1])
    total = made.row("requested").measured or made.row("requested").predicted
    lines: list[Row] = []
    for rows, hidden, sum_row in shown:
        lines += [_line(row, made, total, width, scale) for row in rows]
        lines.append(_line(sum_row, made, total, width, scale, hidden, folded=not rows and bool(hidden)))
    return lines


def _groups(made: Ledger) -> list[tuple[list[LedgerRow], LedgerRow]]:
    groups: list[tuple[list[LedgerRow], LedgerRow]] = []
    inside: list[LedgerRow] = []
    for row in made.rows:
        if row.kind == "sum":
            groups.append((inside, row))
            inside = []
        else:
            inside.append(row)
    return groups


def _open(
    groups: list[tuple[list[LedgerRow], LedgerRow]], cursor: Cursor, level: int
) -> list[tuple[list[LedgerRow], list[LedgerRow], LedgerRow]]:
    """(shown, hidden, sum) of each group at a level: 0 requested alone, 1 all, 2 all with rows at zero."""
    result = []
    for inside, sum_row in groups:
        open_ = level > 0 or sum_row.key == "requested"
        if sum_row.key in cursor.turned:
            open_ = not open_
        shown = [row for row in inside if open_ and (level == 2 or not _nothing(row))]
        result.append((shown, [row for row in inside if row not in shown], sum_row))
    return result


def _nothing(row: LedgerRow) -> bool:
    """Exactly zero, or not said at all; ``unattributed`` is always worth a line."""
    if row.key == "unattributed" or row.kind == "sum":
        return False
    said = (row.measured, row.predicted, row.declared)
    return not any(said) and (row.measured is not None or row.key in REQUESTED_ROWS)


def _line(
    row: LedgerRow,
    made: Ledger,
    total: int | None,
    width: int,
    scale: Scale,
    hidden: list[LedgerRow] | None = None,
    folded: bool = False,
) -> Row:
    is_sum = row.kind == "sum"
    dim = not is_sum and _nothing(row)
    text = line("")
    if is_sum:
        text.append("► " if folded else "▼ ", "strong").append(row.label, "strong")
    else:
        at(text, 3, row.label, "dim" if dim else "")
    star = _starred(row)
    values = {
        "declared": (_declared(row, made, scale), "dim"),
        "predicted": ("-" if row.predicted is None else sized(row.predicted, scale), "dim" if dim else ""),
        "measured": (_measured(row, made, scale), "dim" if dim else "strong"),
        "difference": (
            "-" if row.difference is None else signed(row.difference, scale),
            "dim" if dim else "",
        ),
    }
    if row.key == "process":
        values["measured"] = (values["measured"][0], "water.strong")
    for name, column in _columns(width, scale).items():
        shown, role = values[name]
        ending(text, column, aligned(shown, scale), role)
    if star:
        text.append("*", "amber")
    if (column := _share_column(width, scale)) is not None:
        _share(text, column, row, total, hidden, scale)
    if (column := _where_column(width, scale)) is not None:
        at(text, column, fit(_where(row, made), width - column - 1), "dim")
    return Row(cut(text, width), pick=True, detail=_detail(row, width), name=row.key)


def _starred(row: LedgerRow) -> bool:
    if row.difference is None or row.measured is None:
        return False
    return abs(row.difference) > max(2**20, abs(row.measured) // 100)


def _declared(row: LedgerRow, made: Ledger, scale: Scale) -> str:
    if row.key != "requested":
        return "-" if row.declared is None else sized(row.declared, scale)
    parts = [one.declared for one in made.rows if one.key in REQUESTED_ROWS]
    known = [one for one in parts if one is not None]
    if not any(known):
        return "-"
    return ("" if len(known) == len(parts) else "≥") + sized(sum(known), scale)


def _measured(row: LedgerRow, made: Ledger, scale: Scale) -> str:
    if row.measured is None:
        return "-" if made.probe is None else "n/a"
    return f"({sized(row.measured, scale)})" if row.key == "reserve" else sized(row.measured, scale)


def _share(
    text: Text, column: int, row: LedgerRow, total: int | None, hidden: list[LedgerRow] | None, scale: Scale
) -> None:
    if row.kind == "sum":
        at(text, column, _hidden(hidden or [], row, scale), "dim")
        return
    value = row.measured if row.measured is not None else row.predicted
    if value and value > 0 and total and row.key in REQUESTED_ROWS:
        at(text, column, bar(value / total, 14), "water")


def _hidden(hidden: list[LedgerRow], row: LedgerRow, scale: Scale) -> str:
    some = [one for one in hidden if one.measured]
    if row.key in ("device_total", "host_total") and some:
        return f"{signed(sum(one.measured or 0 for one in some), scale)} unused"
    if not some:
        return f"{len(hidden)} more at 0" if hidden and row.key == "requested" else ""
    if len(some) == 1:
        only = some[0]
        return fit(f"{signed(only.measured, scale)} {_SHORT.get(only.key, only.label)}", 14)
    return plural(len(some), "row")


def _where(row: LedgerRow, made: Ledger) -> str:
    if row.measured is None and made.probe is not None:
        return f"n/a: {row.unknown}" if row.unknown else "n/a"
    return row.declared_as or row.origin or row.unknown


def _detail(row: LedgerRow, width: int) -> Text:
    if row.measured is not None:
        said = f"{row.measured:,} B" + (f" ({row.origin})" if row.origin else "")
        if row.difference:
            said += f", {row.difference:+,} to predicted"
    elif row.declared is not None:
        said = f"{row.declared:,} B declared: {row.declared_as}"
    else:
        said = f"n/a: {row.unknown}" if row.unknown else "n/a"
    star = ("* ", "amber") if _starred(row) else ""
    return line(" ", star, (row.label.removeprefix("= "), "strong"), f" {said}: {row.meaning}")


def _told(made: Ledger, width: int) -> Text:
    if made.probe is None:
        return line((" declared rows only; each has its formula", "dim"))
    probe = made.probe
    length = f" x {probe.length:,}" if probe.length else ""
    return line(
        (f" {made.probe_id}  {probe.precision}  {probe.micro_batch}{length}, phase {made.phase}", "dim")
    )


def _beside(scene: Scene, made: Ledger, width: int) -> tuple[Row, ...]:
    """What is compared with the peak but is no part of it."""
    rows: list[Row] = []
    verified = latest(scene.project.measured.verify)
    on_disk = verified[1].checkpoint_bytes if verified else None
    if on_disk is not None:
        running = units.gib(made.verdict.process_bytes)
        said = f" checkpoint on disk {units.gib(on_disk)} GiB, running {running}: size on disk is no guide"
        rows.append(Row(line(said)))
    rows += [Row(line((f" {check.text}", "dim"))) for check in made.checks if check.agrees is not None]
    return tuple(rows)
