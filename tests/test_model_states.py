"""Published model states are ours plus bytes that are named, and docs/model-states.md shows them as they are."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from published_states import BILLION, Row, accelerate, anatomy, deepspeed, mixed, zero_figure, zero_table

from tests.bench import model_states
from tui import cli

ROWS = [*zero_figure(), *zero_table(), *deepspeed(), *anatomy(), *accelerate()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.case)
def test_a_published_figure_is_ours_and_what_is_named_between(row):
    if row.ours is None:
        assert row.unknown
        return
    assert row.shown(row.explained) == row.theirs
    assert all(size for size, _ in row.gaps), "a reason for no bytes"


@pytest.mark.parametrize("row", [row for row in ROWS if row.estimate is not None], ids=lambda row: row.case)
def test_the_sources_own_formula_that_is_named_beside_ours_gives_theirs(row):
    assert row.shown(row.estimate) == row.theirs


def test_where_nothing_lies_between_ours_alone_is_theirs():
    alone = [row for row in ROWS if row.ours is not None and not row.gaps]
    assert len(alone) >= 70
    assert [row.case for row in alone if row.shown(row.explained) != row.theirs] == []


def test_a_wrong_figure_is_seen():
    right = Row("a paper", "7.5B", "16.6", "GB", mixed(7_500_000_000, "zero2", 64).states_bytes)
    assert model_states.holds(right)
    assert not model_states.holds(Row("a paper", "7.5B", "16.7", "GB", right.ours))
    assert Row("a page", "its GB are GiB", "15.46", "GiB", right.ours).shown(16_600_000_000) == "15.46"


@pytest.mark.parametrize(("strategy", "said"), [("zero1", "31.4"), ("zero2", "16.6"), ("zero3", "1.9")])
def test_the_papers_example_is_what_the_command_says(capsys, strategy, said):
    words = ["7.5B", "--ranks", "64", "--strategy", strategy, "--dtype", "bf16", "--master", "--json"]
    assert cli.main(["calc", "ranks", *words]) == 0
    assert f"{json.loads(capsys.readouterr().out)['states_bytes'] / BILLION:.1f}" == said


def test_the_page_is_what_its_command_prints():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert model_states.main() == 0
    page = Path(__file__).parents[1] / "docs" / "model-states.md"
    assert page.read_text() == printed.getvalue()
