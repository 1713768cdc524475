"""A change of the spec before anybody measures it: one dotted key and its value, read from a few words.

Pure but for what ``project.load.parse`` looks up beside the file.  Nothing here writes.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tui.budget.params import ARGUMENTS, FAMILIES, formula
from tui.errors import ProjectError, UsageError
from tui.project import edit, load, marker
from tui.project.decode import closest, hints_of, names
from tui.project.keys import join, quote, split
from tui.project.load import Project
from tui.project.model import Spec
from tui.project.schema import SPEC_RULES

MICRO, ACCUMULATE, LENGTH = "workload.batch.micro", "workload.batch.accumulate", "workload.batch.length.max"
OPTIMIZER, ATTENTION = "workload.optimizer.name", "workload.args.attention"

SHORT: Mapping[str, str] = {
    "batch": MICRO,
    "accumulate": ACCUMULATE,
    "length": LENGTH,
    "precision": "precision.use",
    "optimizer": OPTIMIZER,
    "implementation": "workload.optimizer.implementation",
    "checkpoint": "workload.step.checkpoint",
    "ranks": "placement.ranks",
    "strategy": "placement.strategy",
    "offload": "placement.activations",
    "attention": ATTENTION,
    "clip": "workload.optimizer.clip_norm",
    "budget": "budget.job",
    "reserve": "budget.reserve",
}
"""Short names and the keys that they mean; ``offload`` is where saved activations are kept."""

OPTIMIZERS = (
    "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "Muon", "NAdam", "RAdam",
    "RMSprop", "Rprop", "SGD", "SparseAdam",
)  # fmt: skip
"""Classes of ``torch.optim`` that can be named alone, in any case."""

_TABLES = {"workload.batch.length": LENGTH, "workload.optimizer": OPTIMIZER}
"""Keys of tables that mean one key of theirs."""
NOTHING = ("none", "no", "off")


@dataclass(frozen=True, slots=True)
class Change:
    """One key of the spec and what becomes of it; None is a key that the file does not have."""

    key: str
    was: Any
    becomes: Any

    def __str__(self) -> str:
        """``workload.batch.micro 4 -> 16``."""
        return f"{self.key} {shown(self.was)} -> {shown(self.becomes)}"

    @property
    def is_nothing(self) -> bool:
        """Whether the key has that value already."""
        return shown(self.was) == shown(self.becomes)


def shown(value: Any) -> str:
    """A value as TOML writes it on one line; ``not set`` for None.

    >>> shown(("Block",)), shown(None), shown(True), shown("bf16")
    ('["Block"]', 'not set', 'true', '"bf16"')
    """
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(one) for one in cast(Sequence[Any], value))}]"
    if isinstance(value, Mapping):
        table = cast(Mapping[str, Any], value)
        return "{ " + ", ".join(f"{quote(key)} = {shown(one)}" for key, one in table.items()) + " }"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)


def parse(text: str, spec: Spec | None = None) -> Change:
    """The change that ``name=value`` asks for.

    Args:
        text: a short name (``SHORT``), a name that one of our keys has alone, what another tool calls it, or a
            dotted key; then ``=`` and the value as TOML has it, texts without quotes, lists with commas, ``none``
            for an empty list; no value deletes the key, so that it has its default.
        spec: where ``Change.was`` is looked up; None: it stays None.

    Raises:
        UsageError: no such key, with the nearest; or no value where one must be.

    >>> parse("batch=16")
    Change(key='workload.batch.micro', was=None, becomes=16)
    >>> parse("checkpoint=Block,Head").becomes, parse("optimizer=sgd").becomes
    (['Block', 'Head'], 'torch.optim.SGD')
    """
    name, equals, said = text.partition("=")
    name, said = name.strip(), said.strip()
    if not equals or not name:
        raise UsageError(f'"{text}" is not a change', hint="write name=value, such as batch=16")
    key = _key(name)
    value = _value(key, _hint(key, name), said, name)
    return Change(key, None if spec is None else lookup(spec, key), value)


def several(text: str, spec: Spec | None = None) -> list[Change]:
    """One change for every value of ``name=value,value``; commas within brackets do not divide.

    Raises:
        UsageError: see ``parse``.

    >>> [one.becomes for one in several("batch=4,8")]
    [4, 8]
    """
    name, equals, said = text.partition("=")
    found, depth = [""], 0
    for char in said:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    if not equals or not all(one.strip() for one in found):
        raise UsageError(
            f'"{text}" is not a list of values', hint="write name=value,value, such as batch=4,8,16"
        )
    return [parse(f"{name}={one}", spec) for one in found]


def merged(before: Sequence[Change], more: Sequence[Change]) -> list[Change]:
    """Both, of one key the later; what changes nothing is left out unless it is all there is.

    >>> [word(one) for one in merged([Change("a", 1, 2), Change("b", 1, 2)], [Change("a", 1, 1)])]
    ['b=2']
    """
    found = list({one.key: one for one in (*before, *more)}.values())
    return [one for one in found if not one.is_nothing] or found


def _key(name: str) -> str:
    meant = SHORT.get(name) or (None if "." in name else SPEC_RULES.elsewhere.get(name.lower()))
    if meant is None and "." not in name and name not in hints_of(Spec):
        near = closest(name, [*SHORT, *SPEC_RULES.elsewhere])
        known = f"short names: {', '.join(SHORT)}; or a dotted key such as workload.optimizer.args.lr"
        raise UsageError(f"{name} is not a key of the spec", hint=f"did you mean {near}?" if near else known)
    return _TABLES.get(meant or name, meant or name)


def _hint(key: str, name: str) -> Any:
    """The type of the value at ``key``; ``Any`` below a table of free names.

    Raises:
        UsageError: there is no such key, or it is a table.
    """
    try:
        parts = split(key)
    except ValueError as error:
        raise UsageError(
            f"{name} is not a key of the spec", hint="write names with dots between them"
        ) from error
    hint: Any = Spec
    for at, part in enumerate(parts):
        if hint is Any:
            return Any
        passed = join(*map(quote, parts[:at]))
        if typing.get_origin(hint) is dict:
            hint = typing.get_args(hint)[1]
        elif dataclasses.is_dataclass(hint):
            hint = _bare(_known(hints_of(cast(type[Any], hint)), part, passed))
        else:
            raise UsageError(
                f"{key} is not a key of the spec, {passed} is no table", hint=f"write {passed}=value"
            )
    if dataclasses.is_dataclass(hint):
        inner = ", ".join(hints_of(cast(type[Any], hint)))
        raise UsageError(f"{key} is a table", hint=f"name one of its keys: {inner}")
    return hint


def _known(hints: Mapping[str, Any], part: str, passed: str) -> Any:
    """The type of ``part`` in the table ``passed``."""
    if part in hints:
        return hints[part]
    meant = SPEC_RULES.elsewhere.get(part.lower(), "")
    near = closest(part, hints)
    if near is not None:
        meant = join(passed, near)
    hint = f"did you mean {meant}?" if meant else f"known in {passed or 'the spec'}: {', '.join(hints)}"
    raise UsageError(f"{join(passed, quote(part))} is not a key of the spec", hint=hint)


def _bare(hint: Any) -> Any:
    """``X`` of ``X | None``."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(hint) if one is not types.NoneType)
    return hint


def _value(key: str, hint: Any, text: str, name: str) -> Any:
    """``text`` as the file would have it; what is wrong with it the project's own rules say."""
    if not text:
        return None
    if key == OPTIMIZER:
        return _optimizer(text)
    found = _toml(text)
    if typing.get_origin(hint) is tuple and not isinstance(found, list):
        return [] if text.lower() in NOTHING else [one.strip() for one in text.split(",") if one.strip()]
    if hint is str:
        return found if isinstance(found, str) else text
    if typing.get_origin(hint) is dict and not isinstance(found, Mapping):
        raise UsageError(f"{name} is a table", hint=f"write one key of it, such as {key}.name=value")
    return cast(Any, found)


def _toml(text: str) -> Any:
    """The TOML value that ``text`` is; a text where it is none."""
    try:
        table = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):
        return text
    return table["x"] if set(table) == {"x"} else text


def _optimizer(text: str) -> str:
    text = text.strip("\"'")
    if "." in text or ":" in text:
        return text
    known = {one.lower(): one for one in OPTIMIZERS}
    if text.lower() not in known:
        near = closest(text.lower(), known)
        hint = f"did you mean {known[near]}?" if near else f"known are {names(OPTIMIZERS)}, or module:Class"
        raise UsageError(f"optimizer={text} is no class of torch.optim", hint=hint)
    return f"torch.optim.{known[text.lower()]}"


def lookup(spec: Spec, key: str) -> Any:
    """The value of the spec at a dotted key; None where it has none."""
    value: Any = spec
    for part in split(key):
        table = isinstance(value, Mapping)
        value = cast(Mapping[str, Any], value).get(part) if table else getattr(value, part, None)
    return value


def edits(project: Project, changes: Sequence[Change]) -> dict[str, Any]:
    """Values by dotted key as ``project.edit`` takes them: a length that is a plain number there stays one."""
    found: dict[str, Any] = {}
    for one in changes:
        key, table = one.key, one.key.rpartition(".")[0]
        if key == LENGTH and table in project.lines and key not in project.lines:
            key = table
        found[key] = one.becomes
    return found


def apply(project: Project, changes: Sequence[Change]) -> Project:
    """The project as it would be; the file is untouched, and what was measured stays beside it.

    Args:
        project: as it is.
        changes: in order; of one key the last counts.

    Raises:
        UsageError: a value that the key cannot have, or one that contradicts another key: which, and the mend.
    """
    name = str(project.path)
    said = " ".join(word(one) for one in changes)
    _refuse(project, changes)
    user = marker.divide(project.text, name).user
    try:
        then = load.parse(
            project.path, edit.changed(user, edits(project, changes), name).encode(errors="replace")
        )
        _check_family(then.spec, changes)
    except ProjectError as error:
        raise UsageError(f"{said}: {error.message}", hint=error.hint) from error
    except ValueError as error:
        what, _, mend = str(error).partition("; ")
        raise UsageError(f"{said}: {what}", hint=mend) from error
    return dataclasses.replace(then, measured=project.measured)


def _refuse(project: Project, changes: Sequence[Change]) -> None:
    """What the words could say and the workload has not."""
    spec = project.spec
    for one in changes:
        if one.key == LENGTH and spec.workload.batch.length is None:
            raise UsageError(
                "length: this project's samples have no length",
                hint="give [workload.batch] a length, or change what makes the samples in workload.args",
            )
        if (
            one.key == ATTENTION
            and spec.workload.source in FAMILIES
            and not _has_attention(spec.workload.source)
        ):
            known = names([family for family in FAMILIES if _has_attention(family)])
            raise UsageError(
                f"attention: {spec.workload.source} has no choice of attention kernels",
                hint=f"{known} have one",
            )


def _has_attention(family: str) -> bool:
    return any(one.name == "attention" for one in ARGUMENTS[family])


def _check_family(spec: Spec, changes: Sequence[Change]) -> None:
    """Refuse arguments that a family of ours does not have, which else only a child would say."""
    touched = any(one.key == "workload.source" or one.key.startswith("workload.args") for one in changes)
    if touched and spec.workload.source in FAMILIES:
        formula(spec.workload.source, spec.workload.args)


def difference(project: Project, then: Project, lines: int = 3) -> str:
    """The unified diff of the hand-written parts, with so many lines around every change; "" for none."""
    name = project.path.name
    before, after = (marker.divide(one.text, name).user.splitlines() for one in (project, then))
    return "\n".join(difflib.unified_diff(before, after, name, name, n=lines, lineterm=""))


def word(change: Change) -> str:
    """The change as the command line has it, with its short name where it has one.

    >>> word(Change("workload.batch.micro", 4, 16)), word(Change("workload.step.checkpoint", (), ["Block", "Head"]))
    ('batch=16', 'checkpoint=Block,Head')
    >>> word(Change("workload.optimizer.args.betas", [0.9, 0.95], None)), word(Change("a.b", None, [8, 8]))
    ('workload.optimizer.args.betas=', 'a.b=[8, 8]')
    """
    name = next((short for short, key in SHORT.items() if key == change.key), change.key)
    value: Any = change.becomes
    if value is None:
        return f"{name}="
    if isinstance(value, str):
        return f"{name}={value}"
    items = cast("list[Any]", value) if isinstance(value, list) else []
    if change.key == SHORT["checkpoint"] and all(isinstance(one, str) for one in items):
        return f"{name}={','.join(items) or NOTHING[0]}"
    return f"{name}={shown(value)}"
