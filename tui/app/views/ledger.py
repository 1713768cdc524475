"""3 Ledger: does it fit, and where does every byte go?"""

from __future__ import annotations

from rich.text import Text

from tui import units
from tui.app.choose import latest
from tui.app.ledgers import ledger_of, peaks_of, phases_of, prediction_of, scenarios
from tui.app.lines import at, bar, cut, ending, fit, line, wrap
from tui.app.page import BLANK, Cursor, Page, Row, Scene, Section
from tui.app.predicted import prediction_for, target_of
from tui.app.views import assumptions, ledger_parts, predicting
from tui.app.views.budget_bar import budget_bar
from tui.app.views.figures import MIB, Scale, aligned, plural, scale_of, signed, sized
from tui.app.views.ledger_answer import ledger_answer
from tui.app.views.ledger_cells import detail, known, span_of, starred, values, where
from tui.app.views.ledger_columns import Columns, columns_of, heading
from tui.budget.ledger import Ledger
from tui.budget.rows import Row as LedgerRow
from tui.probe.protocol import REQUESTED_ROWS

_SHORT = {
    "rounding": "tails",
    "context": "context",
    "others": "others",
    "heap_kept": "kept",
    "outside_heap": "code",
}
_TOTALS = ("device_total", "host_total")


def page(scene: Scene, width: int, height: int, cursor: Cursor) -> Page:
    """The budget as a bar, the phases, then every row of the ledger."""
    project = scene.project
    if cursor.pane == 1:
        return assumptions.page(scene, prediction_of(project, cursor.chosen), width)
    if cursor.pane == 2 and scene.what_if is not None:
        from tui.app.views import what_if

        return what_if.page(scene, scene.what_if, width)
    made = ledger_of(project, cursor.phase, cursor.chosen, scene.timelines)
    scale = scale_of(scene.exact, _largest(made))
    head = [Row(one) for one in budget_bar(made, width, scale_of(scene.exact, None))]
    if phases_of(made):
        head += [BLANK, Row(_phases(made, width, scale))]
    head += _broken(made, width)
    if made.probe is None and not predicting.going_on(scene, width):
        head += predicting.whole(scene, width)
    columns = columns_of(made, width, scale)
    head.append(Row(heading(columns, width, scale)))
    host = ledger_parts.host(made, scale, width)
    weighs = ledger_parts.host_weighs(made)
    room = height - 5 - len(head) - weighs * (1 if height <= 30 else 1 + len(host))
    rows = _rows(made, cursor, room, columns, width, scale)
    sections = [Section("", (*head, *rows))]
    aside = Section(f"main memory of one rank, {scale.unit}", host)
    if weighs:
        sections.append(aside)
    if height > 30:
        sections.append(Section("beside it", _beside(scene, made, width)))
        sections += [aside] if host and not weighs else []
    keys = (
        ("Enter", "fold"),
        ("←→", "phase"),
        *((("v", "which"),) if len(scenarios(project)) > 1 else ()),
        ("w", "what if"),
        ("d", "assumed"),
        ("p", "predict"),
        ("r", "run"),
        ("b", "bytes"),
        ("c", "copy"),
        ("s", "save"),
    )
    shown = predicting.going_on(scene, width) or ledger_answer(scene, made, width, cursor.chosen)
    return Page(shown, tuple(sections), _told(scene, made, width), keys)


def _largest(made: Ledger) -> int | None:
    """The largest peak of any phase; without a measurement the largest declared row."""
    peaks = [peak.requested_bytes for peak in peaks_of(made).values()]
    declared = [row.declared for row in made.rows if row.key in REQUESTED_ROWS and row.declared]
    return max(peaks or declared, default=None)


def _broken(made: Ledger, width: int) -> list[Row]:
    """Every sum that does not agree, as a sentence."""
    said = [
        f"sum {check.sum.replace('_', '-')} does not agree: {check.text}"
        for check in made.checks
        if check.agrees is False
    ]
    return [Row(line(" " + part)) for one in said for part in wrap(one, width - 2)]


def _phases(made: Ledger, width: int, scale: Scale) -> Text:
    """Each phase with the height of its peak; the open one in brackets, always visible."""
    names = phases_of(made)
    peaks = peaks_of(made)
    top = max((peaks[name].requested_bytes for name in names), default=0) or 1
    items: list[str] = []
    for name in names:
        peak = peaks[name].requested_bytes
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


def _rows(made: Ledger, cursor: Cursor, room: int, columns: Columns, width: int, scale: Scale) -> list[Row]:
    """Every sum with the rows above it, unfolded as far as there is room."""
    groups = _groups(made)
    levels = [_open(groups, cursor, level) for level in (2, 1, 0)]
    shown = next((one for one in levels if sum(len(rows) + 1 for rows, _, _ in one) <= room), levels[-1])
    total = made.row("requested").measured or made.row("requested").predicted
    lines: list[Row] = []
    for rows, hidden, sum_row in shown:
        for row in rows:
            lines.append(_line(row, made, total, columns, width, scale))
            if row.key in cursor.turned:
                lines += ledger_parts.below(made, row.key, columns, scale, width)
        folded = not rows and bool(hidden)
        lines.append(_line(sum_row, made, total, columns, width, scale, hidden, folded))
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
    columns: Columns,
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
    found = values(row, made, columns, scale, dim)
    unused = ""
    if row.key in _TOTALS and columns.share is not None:
        room = (columns.where or width) - columns.ends["measured"] - 4
        unused = _unused(hidden or [], scale, room)
    for name, column in columns.ends.items():
        if name == "difference" and unused:
            continue  # a total has none: the words need its place
        shown, role = found[name]
        ending(text, column, aligned(shown, scale), role)
    if columns.predicted and starred(row):
        text.append("*", "amber")
    if unused:
        at(text, columns.ends["measured"] + 3, unused, "dim")
    elif columns.share is not None:
        _share(text, columns.share, row, total, hidden, scale)
    if columns.where is not None:
        at(text, columns.where, fit(where(row, made, scale), width - columns.where - 1), "dim")
    return Row(cut(text, width), pick=True, detail=detail(row, made, width), name=row.key)


def _share(
    text: Text, column: int, row: LedgerRow, total: int | None, hidden: list[LedgerRow] | None, scale: Scale
) -> None:
    if row.kind == "sum":
        if row.key in _TOTALS:
            return
        at(text, column, _hidden(hidden or [], row, scale), "dim")
        return
    value = known(row)
    if value and value > 0 and total and row.key in REQUESTED_ROWS:
        at(text, column, bar(value / total, 14), "water")


def _hidden(hidden: list[LedgerRow], row: LedgerRow, scale: Scale) -> str:
    some = [one for one in hidden if known(one)]
    ranges = [one for one in hidden if one.measured is None and one.predicted_range is not None]
    if ranges and not some:
        return _hidden_range(ranges[0], scale)
    if not some:
        return _nothing_hidden(hidden) if row.key == "requested" else ""
    if len(some) == 1:
        only = some[0]
        return fit(f"{signed(known(only), scale)} {_SHORT.get(only.key, only.label)}", 14)
    return plural(len(some), "row")


def _hidden_range(row: LedgerRow, scale: Scale) -> str:
    """``+.5-.7 context``: rounded outwards, as short as the column is."""
    low, high = row.predicted_range or (0, 0)
    name = _SHORT.get(row.key, row.label)
    digits = units.span(low, high, 1).replace("0.", ".") if scale is not MIB else span_of(low, high, scale)
    return fit(f"+{digits} {name}", 14)


def _unused(hidden: list[LedgerRow], scale: Scale, room: int) -> str:
    """What is free, and the reserve beside it; nothing when free is n/a or has a line of its own."""
    known = {one.key: one.measured for one in hidden}
    if known.get("free") is None:
        return ""
    free = f"{sized(known['free'], scale)} free"
    both = f"{free}, {sized(known['reserve'], scale)} reserve" if known.get("reserve") else free
    return both if len(both) <= room else free


def _nothing_hidden(hidden: list[LedgerRow]) -> str:
    zeros = sum(1 for one in hidden if known(one) == 0)
    if zeros:
        return f"{zeros} more at 0"
    return f"{len(hidden)} not measured" if hidden else ""


def _told(scene: Scene, made: Ledger, width: int) -> Text:
    if made.probe is None and made.prediction is not None:
        return line((f" {fit(predicting.told(made.prediction), width - 2)}", "dim"))
    if made.probe is None:
        return line((" declared rows only; each has its formula", "dim"))
    probe = made.probe
    length = f" x {probe.length:,}" if probe.length else ""
    said = f"{made.probe_id}  {probe.precision}  {probe.micro_batch}{length}, phase {made.phase}"
    elsewhere = prediction_for(scene.project.spec, scene.project.measured, None)
    if (
        elsewhere is not None and made.prediction is None
    ):  # of another device than the one that was measured on
        said += f"; d: predicted for {target_of(elsewhere[1])}"
    return line((f" {fit(said, width - 2)}", "dim"))


def _beside(scene: Scene, made: Ledger, width: int) -> tuple[Row, ...]:
    """What is compared with the peak but is no part of it."""
    rows: list[Row] = []
    verified = latest(scene.project.measured.verify)
    on_disk = verified[1].checkpoint_bytes if verified else None
    if on_disk is not None:
        running = units.gib(made.verdict.process_bytes)
        by = ", by prediction" if made.verdict.by == "prediction" else ""
        said = f" checkpoint on disk {units.gib(on_disk)} GiB, running {running} GiB{by}: size on disk is no guide"
        rows.append(Row(line(said)))
    rows += [Row(line((f" {check.text}", "dim"))) for check in made.checks if check.agrees is not None]
    return tuple(rows)
