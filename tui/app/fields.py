"""The form of the Spec screen: which keys of a project have a field, what they mean, and what may stand in them.

Pure.  A field is a key of the hand-written part; the form never holds a value of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.budget.arguments import Argument
from tui.budget.params import ARGUMENTS
from tui.project.keys import quote
from tui.project.model import BudgetSpec, Spec
from tui.project.schema import CHOICES, FAMILIES, RESIDENCE

MORE = "more arguments"
"""Name of the fold of the arguments that the file leaves at their defaults."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value that can be changed in place."""

    key: str
    """Dotted key in the file; of kind "pair" the table that a new key goes into."""
    meaning: str
    kind: str = "text"
    """One of those that ``values`` reads, "pair" (a new key with its value), or "fold"."""
    choices: tuple[str, ...] = ()
    """Of kind "choice" in the order in which keys step through them; "" is what the file leaves out."""
    unset: str = "-"
    """What stands there when the file says nothing."""
    before: str = ""
    after: str = ""
    argument: Argument | None = None
    """The family's own declaration of it."""

    @property
    def closed(self) -> bool:
        """Whether keys step through a list instead of typing."""
        return self.kind in ("choice", "flag")


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that are read as one line."""

    label: str
    fields: tuple[Field, ...]
    after: str = ""


_NAMES = {"vocab": "vocabulary"}


def lookup(spec: Any, key: str) -> Any:
    """The value of a dotted key; None where the file says nothing and where a table above it is absent."""
    value = spec
    for name in _split(key):
        if value is None:
            return None
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _split(key: str) -> tuple[str, ...]:
    if '"' not in key:
        return tuple(key.split("."))
    from tui.project.keys import split

    return split(key)


def family_of(spec: Spec) -> str:
    """The family whose arguments ``[workload] args`` are; "" for other sources, whose arguments are their own."""
    work = spec.workload
    if work.source in FAMILIES:
        return work.source
    own = work.formula is not None and work.formula != "none" and work.formula_args is None
    return (work.formula or "") if own and work.source.endswith(".py") else ""


def model_groups(spec: Spec, unfolded: bool) -> tuple[Group, ...]:
    """Source, formula and arguments, each on a line of its own.

    Args:
        spec: the project's.
        unfolded: arguments that are at their defaults are shown too.
    """
    work = spec.workload
    declared = {one.name: one for one in ARGUMENTS.get(family_of(spec), ())}
    left = [one for name, one in declared.items() if name not in work.args]
    formula = [_FORMULA]
    if left:
        mark = "▼" if unfolded else "►"
        said = "the family's other arguments, at their defaults: Enter shows them"
        formula.append(Field(MORE, said, "fold", unset=f"{mark} {len(left)} more", before=" "))
    if work.formula_args is not None:
        formula += [*_arguments("workload.formula_args", work.formula_args), _FORMULA_ARGUMENT]
    source = [_SOURCE]
    if work.source not in FAMILIES:
        said = "another argument of the source: write name = value"
        source.append(Field("workload.args", said, "pair", unset="+ add", before="  "))
    groups = [Group("source", tuple(source)), Group("formula", tuple(formula))]
    groups += [
        Group(_NAMES.get(name, name), (argument(name, value, declared.get(name)),))
        for name, value in work.args.items()
    ]
    if unfolded:
        groups += [Group(_NAMES.get(one.name, one.name), (argument(one.name, None, one),)) for one in left]
    return tuple(groups)


def argument(name: str, value: Any, declared: Argument | None) -> Field:
    """The field of one key of ``workload.args``."""
    key = f"workload.args.{quote(name)}"
    if declared is None:
        return Field(key, "an argument of the source", kind_of(value))
    kind = "number" if declared.kind in ("share", "positive") else str(declared.kind)
    default = "default: " + (declared.otherwise or plain(declared.default))
    return Field(
        key,
        f"{declared.meaning}; {default}" if declared.meaning else default,
        kind,
        ("", *declared.choices) if kind == "choice" else declared.choices,
        declared.otherwise or plain(declared.default),
        argument=declared,
    )


def kind_of(value: Any) -> str:
    """How a value of somebody's own is typed: as TOML writes it, but texts that read like nothing else unquoted."""
    if isinstance(value, bool):
        return "flag"
    return "word" if isinstance(value, str) else "value"


def plain(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(plain(one) for one in value) or "none"
    return str(value)


_SOURCE = Field("workload.source", "a family, FILE.py[:NAME], CONFIG.json, timm:NAME or torchvision:NAME")
_FORMULA = Field(
    "workload.formula",
    "the family whose formula is checked",
    "choice",
    ("", *CHOICES["workload.formula"]),
    "as source",
)


_FORMULA_ARGUMENT = Field(
    "workload.formula_args",
    "an argument of the formula, where those of the source have other names: write name = value",
    "pair",
    unset="+ add",
    before="  ",
)
_FROZEN = Field(
    "workload.frozen",
    "names of parameters that are not trained, such as transformer.wte.*; empty: none",
    "names",
    unset="none",
    before=", frozen ",
)


def training_groups(spec: Spec, draft: Spec) -> tuple[Group, ...]:
    """How the model is trained and judged, one line a subject.

    Args:
        spec: as it is saved: its keys are the fields.
        draft: as it would be with what is typed: computed words follow it.
    """
    return (
        Group("batch", _batch(draft)),
        Group("length", _LENGTH),
        Group("optimizer", _optimizer(spec)),
        Group("scheduler", _scheduler(spec)),
        Group("precision", _PRECISION),
        Group("placement", _placement(draft), _resident(spec)),
        Group("budget", _budget(spec.budget)),
        Group("quality", _quality(spec)),
        Group("title", (Field("title", "what the project is called", unset="none"),)),
    )


def _batch(spec: Spec) -> tuple[Field, ...]:
    batch, ranks = spec.workload.batch, spec.placement.ranks
    total = batch.micro * batch.accumulate * ranks
    over = f" x {ranks} ranks" if ranks != 1 else ""
    return (
        Field("workload.batch.micro", "samples a rank and micro-batch", "whole"),
        Field(
            "workload.batch.accumulate",
            "micro-batches an optimizer step",
            "whole",
            before=" x ",
            after=f" accumulated{over} = {total:,} samples",
        ),
        Field(
            "workload.batch.global_batch",
            "micro x accumulate x ranks, for checking",
            "whole",
            before=", global ",
        ),
        Field(
            "workload.batch.weight_by",
            "how losses of accumulated micro-batches are weighted",
            "choice",
            CHOICES["workload.batch.weight_by"],
            before=", weighted by ",
        ),
    )


_LENGTH = (
    Field(
        "workload.batch.length",
        "max, or min..max, or min..typical..max; memory is measured at max",
        "length",
        unset="a fixed shape",
    ),
    Field(
        "workload.batch.remainder",
        "what happens to the last, partial batch",
        "choice",
        CHOICES["workload.batch.remainder"],
        before=", remainder ",
    ),
    Field("workload.batch.tokens", "entry of a batch that counts tokens", before=", tokens "),
    Field("workload.batch.dataset", "training samples in an epoch", "whole", before=", dataset "),
)


def _optimizer(spec: Spec) -> tuple[Field, ...]:
    made = spec.workload.optimizer
    return (
        Field("workload.optimizer.name", "class of the optimizer: torch.optim.NAME or module:Class"),
        Field(
            "workload.optimizer.implementation",
            "how torch runs the step",
            "choice",
            CHOICES["workload.optimizer.implementation"],
            before=" ",
        ),
        *_arguments("workload.optimizer.args", made.args),
        Field(
            "workload.optimizer.clip_norm",
            "largest norm of all gradients together; empty: no clipping",
            "number",
            unset="off",
            before=", clip ",
        ),
        *((_FROZEN,) if spec.workload.frozen else ()),
        _another("workload.optimizer.args"),
    )


def _scheduler(spec: Spec) -> tuple[Field, ...]:
    made = spec.workload.scheduler
    name = Field(
        "workload.scheduler.name",
        "class of the learning-rate scheduler; empty: none",
        unset="none",
    )
    if made is None:
        return (name,)
    steps = Field(
        "workload.scheduler.steps", "scheduler steps an optimizer step", "whole", before=", ", after=" a step"
    )
    return (
        name,
        *_arguments("workload.scheduler.args", made.args),
        steps,
        _another("workload.scheduler.args"),
    )


def _arguments(table: str, args: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(
        Field(
            f"{table}.{quote(name)}",
            "an argument of the class; empty: its default",
            kind_of(value),
            before=f", {name} ",
        )
        for name, value in args.items()
    )


def _another(table: str) -> Field:
    return Field(table, "another argument: write name = value", "pair", unset="+ add", before="  ")


_PRECISION = (
    Field("precision.use", "the setting that is trained with", "choice", CHOICES["precision.use"]),
    Field(
        "precision.compare",
        "settings that step 5 compares, the reference first",
        "names",
        CHOICES["precision.compare"],
        before=", compared ",
    ),
)


def _placement(spec: Spec) -> tuple[Field, ...]:
    word = " rank" if spec.placement.ranks == 1 else " ranks"
    return (
        Field("placement.ranks", "devices that train together", "whole", after=word),
        Field(
            "placement.strategy",
            "how they divide the model",
            "choice",
            CHOICES["placement.strategy"],
            before=", strategy ",
        ),
    )


def _resident(spec: Spec) -> str:
    place = spec.placement
    found = (place.weights, place.gradients, place.optimizer, place.activations)
    return ", everything on the device" if set(found) == {RESIDENCE[0]} else ""


def _budget(budget: BudgetSpec) -> tuple[Field, ...]:
    return (
        Field(
            "budget.job",
            "what this job may use, such as 60 GiB; empty: all",
            "size",
            unset="the whole device",
        ),
        Field("budget.reserve", "of it kept free on purpose", "size", before=", reserve "),
        Field("budget.reserve_for", "what the reserve is for", before=", for "),
    )


def _quality(spec: Spec) -> tuple[Field, ...]:
    return (
        Field("quality.metric", "what is validated"),
        Field(
            "quality.direction",
            "min: lower is better; max: higher is",
            "choice",
            CHOICES["quality.direction"],
            before=", ",
        ),
        Field(
            "quality.target",
            "learned enough when the metric reaches it",
            "number",
            unset="no target",
            before=" " if spec.quality.target is not None else ", ",
        ),
        Field("quality.batches", "validation batches", "whole", before=", ", after=" batches"),
    )
