"""Which modules of somebody's own model are the parts that a formula names: the same number of elements, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tui.project.modules import Modules


def named(parts: Mapping[str, int], tree: Modules, groups: Mapping[str, int]) -> dict[str, int]:
    """The inventory's elements by part, under the formula's names where modules of those sizes are found.

    Args:
        parts: elements by part, by formula.
        tree: of the counted model.
        groups: elements by part, as the inventory named them.

    Returns:
        ``groups`` itself when its names are the formula's already, or no part is found.  Otherwise the parts that
        are, then the rest by the module that holds it.  Their sum is that of the tree.
    """
    wanted = {name: size for name, size in parts.items() if size}
    if set(wanted) <= set(groups):
        return dict(groups)
    places = _places(tree)
    taken: dict[str, str] = {}
    for name, size in wanted.items():
        fits = (path for path, elements in places.items() if elements == size and _apart(path, taken))
        first = next(fits, None)
        if first is not None:
            taken[first] = name
    if not taken:
        return dict(groups)
    found = {name: places[path] for path, name in taken.items()}
    if any(one.also for one in tree.parameters):
        found |= {name: 0 for name, size in parts.items() if not size}
    return {name: found[name] for name in parts if name in found} | _rest(tree, taken)


def _places(tree: Modules) -> dict[str, int]:
    """Elements of every module but the root, and of every parameter, by path; a module before what it holds."""
    found = {one.path: one.elements for one in tree.modules if one.path}
    return found | {one.name: one.elements for one in tree.parameters}


def _apart(path: str, taken: Iterable[str]) -> bool:
    """Whether ``path`` lies neither inside nor around any of ``taken``."""
    return not any(_inside(path, one) or _inside(one, path) for one in taken)


def _inside(path: str, around: str) -> bool:
    return path == around or path.startswith(around + ".")


def _rest(tree: Modules, taken: Iterable[str]) -> dict[str, int]:
    """Elements outside of ``taken``, by the largest module that holds none of it."""
    found: dict[str, int] = {}
    around = {one[:end] for one in taken for end in range(len(one)) if one[end] == "."}
    for one in tree.parameters:
        if any(_inside(one.name, path) for path in taken):
            continue
        parts = one.name.split(".")
        ends = range(1, len(parts) + 1)
        path = next(".".join(parts[:end]) for end in ends if ".".join(parts[:end]) not in around)
        found[path] = found.get(path, 0) + one.elements
    return found
