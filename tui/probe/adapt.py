"""What the spec changes of a model after the workload has built it: parameters that are not trained.

Standard library only; a model is anything with ``named_parameters(remove_duplicate=...)``.
"""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase
from typing import Any, Iterable, List, Sequence, Tuple

from .faults import TaskError

SHOWN = 3
"""Names that a sentence offers at most."""


def freeze(model: Any, patterns: Sequence[str]) -> List[str]:
    """Set ``requires_grad`` to False on every parameter with a name that one of ``patterns`` matches.

    Args:
        model: an ``nn.Module``; shared parameters are matched by each of their names.
        patterns: of ``fnmatch``, upper and lower case apart: ``*`` and ``?``, and ``[abc]``; a dot is a
            character like any other, so ``wte.*`` is everything below ``wte``.

    Returns:
        The names that matched, in the model's order.

    Raises:
        TaskError: a pattern that matches no parameter.
    """
    named: List[Tuple[str, Any]] = list(model.named_parameters(remove_duplicate=False))
    names = [name for name, _ in named]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise TaskError(
                "workload",
                "workload.frozen names %r, which matches no parameter" % pattern,
                hint=_hint(pattern, names),
            )
    matched = []
    for name, parameter in named:
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            parameter.requires_grad_(False)
            matched.append(name)
    return matched


def refuse_untrained(model: Any, patterns: Sequence[str]) -> None:
    """Raise when no parameter of ``model`` needs a gradient.

    Raises:
        TaskError: with ``patterns`` named where they are why.
    """
    if any(parameter.requires_grad for parameter in model.parameters()):
        return
    raise TaskError(
        "workload",
        "no parameter needs a gradient, so there is nothing to train",
        hint="workload.frozen leaves none: narrow %s" % ", ".join(patterns)
        if patterns
        else "build() must leave requires_grad on for what is trained",
    )


def _hint(pattern: str, names: Sequence[str]) -> str:
    near = _near(pattern, names)
    if near:
        return "did you mean %s?" % " or ".join(near)
    if not names:
        return "the model has no parameters"
    return "its parameters are named such as %s" % ", ".join(names[:SHOWN])


def _near(pattern: str, names: Sequence[str]) -> List[str]:
    """What the pattern was most likely meant to be: the modules and parameters that it nearly or partly names."""
    plain = pattern.strip("*?.")
    if not plain:
        return []
    below = [pattern + end for end in (".*", "*") if any(fnmatchcase(name, pattern + end) for name in names)]
    if below:
        return below[:1]
    inside = [one for one in ("*%s*" % plain,) if any(fnmatchcase(name, one) for name in names)]
    if inside:
        return inside
    return difflib.get_close_matches(plain, list(_parts(names)), SHOWN)


def _parts(names: Iterable[str]) -> Iterable[str]:
    """Every name, and every module that is a beginning of one, once and in order."""
    seen = {}
    for name in names:
        pieces = name.split(".")
        for count in range(1, len(pieces) + 1):
            seen[".".join(pieces[:count])] = None
    return seen
