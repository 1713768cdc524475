"""Pieces of Markdown: text from outside that stays text, tables, fences."""

from __future__ import annotations

from collections.abc import Sequence

from tui.report.lines import clean


def escaped(text: str) -> str:
    """Text from outside on one line, with nothing in it that Markdown would act on.

    >>> escaped("a | b <i> `c`\\n# d")
    "a \\\\| b &lt;i> 'c' # d"
    """
    plain = clean(text).replace("\\", "\\\\").replace("`", "'").replace("|", "\\|").replace("<", "&lt;")
    return plain.replace("[", "\\[").replace("*", "\\*").strip()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> list[str]:
    """A table whose columns after the first are aligned right when they are ``numbers``.

    >>> table(["row", "GiB"], [["weights", "0.464"]])
    ['| row | GiB |', '| --- | ---: |', '| weights | 0.464 |']
    """
    rule = ["---", *(["---:" if numbers else "---"] * (len(head) - 1))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def fenced(text: str, language: str = "") -> list[str]:
    """``text`` in a fence that is longer than any run of backticks in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + language, *text.rstrip("\n").split("\n"), fence]
