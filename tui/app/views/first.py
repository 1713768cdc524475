"""The screen without a project: what can be done now."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tui.app.frame import message_lines
from tui.app.lines import at, cut, ending, fit, line, rule

_PEAK = "▁▁▂▃▄▆▇█▇▆▄▃▂▁▁▁▂▃▄▅▄▃▂▁▁"
CHOICES = (
    ("d", "demo", "a complete sample on this machine:", "peakmark demo"),
    ("f", "a Python file", "build() and batch() of your own:", "peakmark new X.toml --from FILE.py"),
    ("m", "a config.json", "a Hugging Face configuration:", "peakmark new X.toml --from CONFIG.json"),
    ("n", "a family", "decoder, encoder, mlp, convnet:", "peakmark new X.toml --from decoder"),
    ("o", "open a project", "a .toml file, by its path", ""),
)


def lines(
    recent: Sequence[tuple[str, str, str]],
    terminal: Sequence[str],
    width: int,
    height: int,
    message: str = "",
) -> list[Text]:
    """The whole screen; ``recent`` are (title, path, date), ``terminal`` facts about this terminal."""
    made = [
        line(("          ▼", "amber")),
        line("   ", (_PEAK, "water"), "   ", ("peakmark", "strong")),
        at(line(""), 31, "what one training iteration really needs here", "dim"),
        line(" No project is open. Start with one of these:"),
    ]
    for key, name, what, command in CHOICES:
        text = at(at(line("  ", (key, "strong"), f"  {name}"), 21, what), 55, "")
        if command and text.cell_len + len(command) < width:
            text.append(command, "strong")
        made.append(cut(text, width))
        if command and width < 55 + len(command) + 1:
            made.append(cut(at(line(""), 21, command, "strong"), width))
    if recent:
        made.append(rule("recent", width))
        for number, (title, path, date) in enumerate(recent[:9], 1):
            text = at(
                line("  ", (str(number), "strong"), f"  {fit(title, 36)}"), 43, fit(path, width - 57), "dim"
            )
            made.append(cut(ending(text, width - 1, date, "dim"), width))
    made.append(rule("this machine", width))
    made += [line("  ", ("●", "dim"), f" {fit(one, width - 6)}") for one in terminal]
    made = made[: height - 2] + [line("")] * max(0, height - 2 - len(made))
    keys = "? help  q quit"
    foot = line(" ", ("o", "strong"), " open  ", ("1-9", "strong"), " recent")
    below = message_lines(message, width) or [line("")]
    return [*made[: height - 1 - len(below)], *below, ending(foot, width - 1, keys)]
