"""Reported faults of estimators and of estimates of activations: the tests of each, and whether they pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ("tests/test_reported_estimators.py", "tests/probe/test_probe_reported_activation.py")
_LINE = re.compile(
    r"^(PASSED|FAILED|ERROR|SKIPPED) (?P<file>\S+)::test_(?P<case>[a-z]\d+)_(?P<words>\w+)", re.MULTILINE
)


def outcomes() -> list[tuple[str, str, str]]:
    """(case, what is tested, outcome), each test once."""
    files = [one for one in FILES if (ROOT / one).exists()]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rA", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found: dict[tuple[str, str], str] = {}
    for line in _LINE.finditer(done.stdout):
        key = (line["case"].upper(), line["words"].replace("_", " "))
        if found.get(key) != "failed":
            found[key] = line[1].lower()
    return [(*key, outcome) for key, outcome in sorted(found.items())]


def section() -> list[str]:
    """The lines of the page."""
    found = outcomes()
    passed = sum(1 for *_, outcome in found if outcome == "passed")
    return [
        "## Reported cases of estimators and activations",
        "",
        f"{passed} of {len(found)} tests of {len({case for case, *_ in found})} cases pass.",
        "",
        "| case | what is shown | outcome |",
        "| --- | --- | --- |",
        *(f"| {case} | {words} | {outcome} |" for case, words, outcome in found),
        "",
    ]
