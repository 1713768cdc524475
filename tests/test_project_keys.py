"""Dotted keys, and the line that each key of a file stands on."""

import tomllib

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.project.keys import Place, join, quote, scan, split

TEXT = '''\
# a comment with = and [brackets]
title = "text with # and ] and \\" in it"
dotted.inner = 1

[table]
"quoted key" = { a = 1, b = [1, 2], "c.d" = """x""" }   # [not.a.table]
'literal' = 2026-12-01 14:12:03Z
several = """
[fake]
key = 1
ends with two quotes"""""
list = [
    "first",   # a comment, with a comma
    [ { deep = 1 } ],
    'it''s' , ]
[[array]]
x = 1
[ table . "sub.table" ]
y = -0x1F
'''.replace("'it''s' , ]", "'its' , ]").replace("-0x1F", "0x1F")


def test_every_key_is_found_on_its_line():
    tomllib.loads(TEXT)
    assert scan(TEXT) == {
        "title": 2,
        "dotted": 3,
        "dotted.inner": 3,
        "table": 5,
        'table."quoted key"': 6,
        'table."quoted key".a': 6,
        'table."quoted key".b': 6,
        'table."quoted key"."c.d"': 6,
        "table.literal": 7,
        "table.several": 8,
        "table.list": 12,
        "table.list[0]": 13,
        "table.list[1]": 14,
        "table.list[1][0]": 14,
        "table.list[1][0].deep": 14,
        "table.list[2]": 15,
        "array": 16,
        "array.x": 17,
        'table."sub.table"': 18,
        'table."sub.table".y': 19,
    }


def test_windows_line_ends_and_a_later_start_only_move_the_numbers():
    assert scan(TEXT.replace("\n", "\r\n")) == scan(TEXT)
    assert scan(TEXT, 11) == {key: line + 10 for key, line in scan(TEXT).items()}


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | names | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


def keys_of(value: object, key: str = "") -> set[str]:
    """Every table and key in a parsed text; arrays are left out."""
    if not isinstance(value, dict):
        return set()
    inner = {join(key, quote(name)): one for name, one in value.items()}
    return set(inner).union(*(keys_of(one, name) for name, one in inner.items()))


@settings(deadline=None)
@given(st.dictionaries(names, values, max_size=4), st.booleans())
def test_whatever_the_parser_finds_has_a_line(table, multiline):
    text = tomli_w.dumps(table, multiline_strings=multiline)
    lines = scan(text)
    assert keys_of(tomllib.loads(text)) <= set(lines)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(st.lists(names, min_size=1, max_size=4))
def test_a_joined_key_splits_into_its_names_again(parts):
    assert split(join(*map(quote, parts))) == tuple(parts)


@pytest.mark.parametrize("key", ["", "a..b", "a b", ".a", "a.", "a.'b", "ü"])
def test_what_is_not_a_key_is_refused(key):
    with pytest.raises(ValueError, match="is not a key; write names with dots"):
        split(key)


def test_a_key_that_stands_nowhere_is_placed_at_the_table_around_it():
    place = Place("f.toml", {"a": 3, "a.b": 4, "a.list": 5})
    assert place.at("a.b") == "f.toml:4"
    assert place.at("a.b.c.d") == "f.toml:4"
    assert place.at("a.x") == "f.toml:3"
    assert place.at("a.list[2]") == "f.toml:5"
    assert place.at("z") == place.at("") == "f.toml"
