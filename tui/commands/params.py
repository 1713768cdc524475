"""``peakmark params``: count, and print formula against inventory, with the module tree when asked for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.budget.checked import formula_of
from tui.budget.params import Formula
from tui.commands import stale, steps
from tui.commands.output import Output
from tui.engine.context import Options
from tui.errors import ProjectError, RunError
from tui.project import configuration, modules
from tui.project.load import Project, load
from tui.project.modules import Modules
from tui.report.documents_params import params_document
from tui.report.lines import wrap
from tui.report.text_params import params_lines
from tui.report.text_tree import DEPTH, tree_lines
from tui.report.tree import Order


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How the module tree is printed."""

    depth: int | None = DEPTH
    """Levels below the model, None: all."""
    order: Order = "model"


def asked(tree: bool, depth: int | None, order: Order | None) -> TreeOptions | None:
    """What the command line says of the tree; a depth or an order asks for it too.  None: nothing."""
    if not tree and depth is None and order is None:
        return None
    return TreeOptions(depth or DEPTH, order or "model")


def params(project: Path, options: Options, output: Output, tree: TreeOptions | None = None) -> int:
    """Count and print; ``tree``: the module tree too.  Code 1 when formula and inventory disagree."""
    code, ended = steps.do(project, ("params",), options, output)
    if (error := ended.failed(code)) is not None:
        raise error
    show(project, output, tree)
    return code


def show(project: Path, output: Output, tree: TreeOptions | None = None) -> None:
    """Print what the last count found."""
    loaded = load(project)
    found = steps.source(project)
    name, formula = shlex.quote(str(project)), _formula(loaded)
    held, why = _tree(found.measured.inventory.journal if found.measured.inventory else "")

    def lines(width: int) -> Sequence[str]:
        between: list[str] = []
        if tree is not None and held is None:
            between = wrap(f"tree n/a: {why}", width)
        elif tree is not None and held is not None:
            between = ["", *tree_lines(held, depth=tree.depth, order=tree.order, width=width), ""]
        return params_lines(
            found.spec,
            found.measured,
            project=name,
            width=width,
            formula=formula,
            tree=held,
            between=between,
        )

    def document() -> dict[str, object]:
        listed = output.json or tree is not None
        return params_document(found, formula=formula, tree=held, listed=listed, no_tree=why)

    output.answer(stale.said(project, "params", None, found, lines, output), document)


def _formula(loaded: Project) -> Formula | None:
    try:
        return formula_of(loaded.spec, configuration.of(loaded))
    except (ValueError, ProjectError):
        return None  # it was counted by another spec, and the step says what is wrong with this one


def _tree(journal: str) -> tuple[Modules | None, str]:
    """The tree of the last count, or why there is none."""
    if not journal:
        return None, "nothing was counted by this version yet"
    try:
        return modules.read(modules.path_of(journal)), ""
    except RunError as error:
        return None, str(error)
