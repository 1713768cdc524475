"""Which room may import which, and what a start may load: asserted on the sources and in fresh processes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tui"

ALLOWED = {
    "errors": set(),
    "units": {"errors"},
    "probe": {"probe"},
    "budget": {"budget", "units", "errors", "project", "probe.protocol"},
    "project": {"project", "units", "errors", "probe.protocol"},
    "report": {"report", "budget", "project", "units", "errors", "probe.protocol"},
    "engine": {"engine", "report", "budget", "project", "units", "errors", "probe.protocol"},
    "commands": {"commands", "engine", "report", "budget", "project", "units", "errors", "probe", "app"},
    "app": {"app", "engine", "report", "budget", "project", "units", "errors", "probe.protocol"},
}
"""By room: what of ``tui`` its modules may import; ``probe.protocol`` is the one module of the child's side."""


def _sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in ALLOWED)


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> list[str]:
    """Absolute names of every module that a file imports, relative imports resolved."""
    package = ("tui", *path.relative_to(PACKAGE).parent.parts)
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found += [module, *(f"{module}.{name.name}" for name in node.names)]
    return found


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    room = _room(path)
    for name in _imports(path):
        if name == "tui" or not name.startswith("tui."):
            continue
        inner = name.removeprefix("tui.")
        target = inner.split(".")[0]
        if not (PACKAGE / target).exists() and not (PACKAGE / f"{target}.py").exists():
            continue  # a name of the package itself, such as its version
        own = {target, ".".join(inner.split(".")[:2])}
        assert own & ALLOWED[room] or inner == "probe", f"{path} imports {name}"


@pytest.mark.parametrize(
    ("library", "rooms"),
    [("torch", {"probe"}), ("textual", {"app"}), ("rich", {"app"}), ("pynvml", {"engine"})],
)
def test_a_library_stays_in_its_room(library: str, rooms: set[str]) -> None:
    users = [path for path in _sources() if any(name.split(".")[0] == library for name in _imports(path))]
    assert users or library == "rich"
    assert {_room(path) for path in users} <= rooms
    if library == "pynvml":
        assert [path.name for path in users] == ["nvml.py"]


def test_the_child_needs_torch_and_the_standard_library_alone() -> None:
    extra = {"torch", "transformers", "psutil", "pynvml", "numpy"}
    for path in (PACKAGE / "probe").rglob("*.py"):
        for name in _imports(path):
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or top in extra or top == "tui", f"{path} imports {name}"
            assert not name.startswith("tui.") or name.startswith("tui.probe"), f"{path} imports {name}"


def _loaded(code: str) -> list[str]:
    probe = f"{code}\nimport sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=ROOT, check=True)
    return ran.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(
    "module",
    ["tui", "tui.cli", "tui.budget.ledger", "tui.project.save", "tui.engine.runner", "tui.report.markdown"],
)
def test_headless_modules_load_neither_textual_nor_torch(module: str) -> None:
    assert not {"textual", "rich", "torch", "pynvml", "plotext"} & set(_loaded(f"import {module}"))


def test_help_loads_neither_textual_nor_torch() -> None:
    code = "import tui.cli\ntry:\n    tui.cli.main(['--help'])\nexcept SystemExit: pass"
    assert not {"textual", "rich", "torch", "pynvml", "tomlkit"} & set(_loaded(code))


def test_the_protocol_can_be_read_without_torch() -> None:
    assert "torch" not in _loaded("import tui.probe.protocol")
