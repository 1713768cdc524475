"""Where a module tree and a formula differ: causes that show by themselves, and sets of tensors of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tui.budget.params import Formula
from tui.project.modules import ModuleRow, Modules, ParameterRow

_DIGITS = re.compile(r"(?<![^.])\d+(?![^.])")
_HEAD = re.compile(r"(^|\.)(lm_head|head|output|embed_out|decoder|predictions)(\.|$)")
_TOKEN_HEAD = re.compile(r"(^|\.)(lm_head|predictions|embed_out|generator)(\.|$)")
_EXTRA_HEAD = re.compile(
    r"(^|\.)(classifier|score|qa_outputs|value_head|v_head|reward_head|seq_relationship|aux_head|aux_logits)(\.|$)"
)
_POSITIONS = re.compile(
    r"(^|\.)(wpe|posn?|positions?|pos(ition)?_?(table|emb\w*)|pos(itional)?_?(embed|encod)\w*|embed_positions)(\.|$)"
)
_SEGMENTS = re.compile(r"(^|\.)(token_type_emb\w*|segment_?emb\w*)(\.|$)")
_POOLER = re.compile(r"(^|\.)pooler(\.|$)")
_ADAPTER = re.compile(r"lora_?(a|b|down|up|embedding|magnitude)|(^|[._])adapters?([._]|$)", re.IGNORECASE)
_QK_NORM = re.compile(r"(^|\.)(q|k|query|key)_?(norm|ln|layernorm|layer_norm)(\.|$)")
_BLOCKS = re.compile(r"(\d+) (blocks|stages|layers)")


@dataclass(frozen=True, slots=True)
class Cause:
    """Elements that one thing adds to the inventory, or takes from it, against the formula."""

    count: int
    text: str
    names: frozenset[str] = frozenset()
    """Of the tensors that it is about."""


def evident(formula: Formula, tree: Modules) -> list[Cause]:
    """Causes that can be told from the tree and the formula's parts alone, each with its exact count."""
    found: list[Cause] = []
    for look in (_blocks, _head, _rows, _tables, _adapters, _qk_norms, _extra_heads):
        found += look(formula, tree)
    return found


def sets(formula: Formula, tree: Modules, wanted: int) -> list[Cause]:
    """Tensors that go by one name, and parts of the formula, as causes in the direction of ``wanted``.

    A set is one that the model has and the formula might not count, or a part that the formula counts and the model
    might not have; whether it is the cause is for the sum to say.
    """
    if wanted < 0:
        return [*_shared(tree), *_missing(formula)]
    classes = {row.path: row.cls for row in tree.modules}
    by_names: dict[frozenset[str], Cause] = {}
    for words, some in _named_alike(tree, classes):
        names = frozenset(one.name for one in some)
        count = sum(one.elements for one in some)
        if count <= wanted and names not in by_names:
            by_names[names] = Cause(count, words, names)
    return list(by_names.values())


def token_table(tree: Modules) -> ParameterRow | None:
    """The largest embedding of the tree that is not one of positions or segments."""
    classes = {row.path: row.cls for row in tree.modules}
    tables = [
        one
        for one in tree.parameters
        if len(one.shape) == 2
        and "Embedding" in classes.get(_owner(one.name), "")
        and not _POSITIONS.search(one.name)
        and not _SEGMENTS.search(one.name)
    ]
    return max(tables, key=lambda one: one.elements, default=None)


def blocks(tree: Modules) -> list[ModuleRow]:
    """The blocks of the longest numbered list of modules of one class: the model's layers."""
    lists: dict[tuple[str, str], list[ModuleRow]] = {}
    for row in tree.modules:
        above, _, last = row.path.rpartition(".")
        if last.isdigit() and row.elements:
            lists.setdefault((above, row.cls), []).append(row)
    longest: list[ModuleRow] = []
    most = 0
    for rows in lists.values():
        if (size := sum(row.elements for row in rows)) > most:
            longest, most = rows, size
    return longest


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _sized(one: ParameterRow) -> str:
    return " x ".join(str(length) for length in one.shape) or "1"


def _blocks(formula: Formula, tree: Modules) -> Iterator[Cause]:
    part = next((name for name in formula.parts if _BLOCKS.fullmatch(name)), None)
    if part is None:
        return
    asked, has = int(part.split()[0]), blocks(tree)
    each = formula.parts[part] // max(1, asked)
    if len(has) != asked and {row.elements for row in has} == {each}:
        text = f"{len(has)} block{'' if len(has) == 1 else 's'}, the formula counts {asked} of {each:,} each"
        yield Cause((len(has) - asked) * each, text)


def _head(formula: Formula, tree: Modules) -> Iterator[Cause]:
    table = token_table(tree)
    asked = formula.parts.get("output head")
    if table is None or asked is None:
        return
    if asked and asked >= table.elements and table.also and _ties_head(table):
        text = f"{table.also[-1]} is {table.name}: counted once, so set tied = true"
        yield Cause(-table.elements, text)
    if not asked or asked < table.elements:
        for one in tree.parameters:
            if one.name != table.name and one.shape == table.shape and _HEAD.search(one.name):
                text = f"{one.name} is a tensor of its own, {_sized(one)}: set tied = false or tie it"
                yield Cause(one.elements, text, frozenset([one.name]))


def _ties_head(table: ParameterRow) -> bool:
    return any(_HEAD.search(name) for name in (table.name, *table.also))


def _rows(formula: Formula, tree: Modules) -> Iterator[Cause]:
    table, asked = token_table(tree), formula.parts.get("token embedding")
    if table is None or not asked or asked == table.elements or asked % table.shape[1]:
        return
    rows = asked // table.shape[1]
    text = f"{table.name} has {table.shape[0]:,} rows, the formula {rows:,}"
    yield Cause(table.elements - asked, text)
    if formula.parts.get("output head") == asked:
        text = f"the output head has {table.shape[0]:,} rows too, the formula {rows:,}"
        yield Cause(table.elements - asked, text)


def _tables(formula: Formula, tree: Modules) -> Iterator[Cause]:
    """Parts that a model has as a whole or not at all."""
    for part, pattern in (
        ("position embedding", _POSITIONS),
        ("segment embedding", _SEGMENTS),
        ("pooler", _POOLER),
    ):
        some = [one for one in tree.parameters if pattern.search(one.name)]
        has, asked = sum(one.elements for one in some), formula.parts.get(part, 0)
        if has == asked:
            continue
        names = frozenset(one.name for one in some)
        if not asked:
            yield Cause(has, f"{_listed(some)}: the formula has no {part}", names)
        elif not has:
            yield Cause(-asked, f"no tensor is named like the {part} of {asked:,} in the formula")
        else:
            yield Cause(has - asked, f"{part}: {_listed(some)}, the formula {asked:,}", names)


def _adapters(formula: Formula, tree: Modules) -> Iterator[Cause]:
    some = [one for one in tree.parameters if _ADAPTER.search(one.name)]
    if some and not any("adapter" in text for text in _term_texts(formula)):
        yield _whole(some, "adapters that the formula does not count: set lora_rank")


def _qk_norms(formula: Formula, tree: Modules) -> Iterator[Cause]:
    some = [one for one in tree.parameters if _QK_NORM.search(one.name)]
    if some and formula.terms and not any("2 x head_dim" in text for text in _term_texts(formula)):
        yield _whole(some, "norms of queries and keys that the formula does not count: set qk_norm = true")


def _extra_heads(formula: Formula, tree: Modules) -> Iterator[Cause]:
    some = [one for one in tree.parameters if _EXTRA_HEAD.search(one.name)]
    if not some:
        return
    asked = formula.parts.get("output head", 0)
    if not asked:
        yield _whole(some, "a head that the formula does not count")
    elif not any(_TOKEN_HEAD.search(name) for one in tree.parameters for name in (one.name, *one.also)):
        count = sum(one.elements for one in some)
        if count != asked:
            text = f"the head is {_listed(some)}, against {asked:,} in the formula"
            yield Cause(count - asked, text, frozenset(one.name for one in some))


def _whole(some: Sequence[ParameterRow], what: str) -> Cause:
    count = sum(one.elements for one in some)
    return Cause(count, f"{_listed(some)}: {what}", frozenset(one.name for one in some))


def _listed(some: Sequence[ParameterRow]) -> str:
    if len(some) == 1:
        return f"{some[0].name}, {_sized(some[0])}"
    return f"{len(some):,} tensors such as {some[0].name}, {sum(one.elements for one in some):,} elements"


def _term_texts(formula: Formula) -> Iterator[str]:
    """Names and symbols of all terms, inner ones too."""
    stack = list(formula.terms)
    while stack:
        one = stack.pop()
        yield one.name
        yield one.symbols
        stack += one.inner


def _shared(tree: Modules) -> Iterator[Cause]:
    """Each shared tensor as if the formula counted it under every name."""
    for one in tree.parameters:
        if one.also:
            times = len(one.also)
            text = f"{' and '.join(one.also[:3])} {'is' if times == 1 else 'are'} {one.name}: counted once"
            yield Cause(-one.elements * times, text, frozenset([one.name]))


def _missing(formula: Formula) -> Iterator[Cause]:
    """Parts of the formula, and of its blocks in all of them, as if the model had none of it."""
    for part in formula.terms:
        if part.value:
            yield Cause(-part.value, f"as many as the formula's {part.name}: does the model have it?")
        found = _BLOCKS.fullmatch(part.name)
        for inner in part.inner if found else ():
            count = int(found.group(1)) if found else 1
            text = f"as many as the {inner.name} of {count} blocks in the formula: does the model have them?"
            yield Cause(-inner.value * count, text)


def _named_alike(tree: Modules, classes: dict[str, str]) -> Iterator[tuple[str, list[ParameterRow]]]:
    """(words, tensors) of every set worth trying, those with a meaning first."""
    for words, belongs in _meanings(classes):
        some = [one for one in tree.parameters if belongs(one)]
        if some:
            yield _words(some, f"{len(some):,} {words} such as {some[0].name}"), some
    for ending in (0, 3, 2, 1):  # 0: the whole name
        alike: dict[str, list[ParameterRow]] = {}
        for one in tree.parameters:
            parts = _DIGITS.sub("*", one.name).split(".")
            alike.setdefault(".".join(parts[-ending:]), []).append(one)
        for name, some in alike.items():
            yield _words(some, f"{len(some):,} tensors {name}"), some


def _words(some: Sequence[ParameterRow], many: str) -> str:
    return (
        f"{many} hold exactly as many"
        if len(some) > 1
        else f"{some[0].name}, {_sized(some[0])}, holds as many"
    )


def _meanings(classes: dict[str, str]) -> list[tuple[str, Callable[[ParameterRow], bool]]]:
    def last(one: ParameterRow) -> str:
        return one.name.rpartition(".")[2]

    def is_norm(one: ParameterRow) -> bool:
        return "norm" in classes.get(_owner(one.name), "").lower()

    def is_bias(one: ParameterRow) -> bool:
        return last(one) in ("bias", "b") or last(one).endswith("_bias")

    return [
        ("biases", is_bias),
        ("biases of layers that are no norms", lambda one: is_bias(one) and not is_norm(one)),
        ("biases of norms", lambda one: is_bias(one) and is_norm(one)),
        ("tensors of norms", is_norm),
        ("tensors of adapters", lambda one: _ADAPTER.search(one.name) is not None),
    ]
