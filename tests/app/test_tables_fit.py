"""Tables in terminals that are narrower than they are."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from evals.evaluation.board import Board
from tests.evals.boards import QUERIES, SPLIT, run
from workbench.commands import output

COLUMNS = ("name", "first\nmetric", "second\nmetric", "cost")
ROWS = [("bm25", "0.706 *\n[0.66, 0.75]", "0.910\n[0.87, 0.94]", "12"), ("a long name", "0.5", "0.6", "7")]


def drawn(width: int, **options: object) -> list[str]:
    stream = io.StringIO()
    told = Console(width=width, file=stream, force_terminal=True, color_system=None)
    output.table("Title", COLUMNS, ROWS, on=told, **options)  # type: ignore[arg-type]
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_table_with_room_has_each_row_on_a_line():
    lines = drawn(100, spare=("cost",))
    assert any("0.706 * [0.66, 0.75]" in line and "0.910 [0.87, 0.94]" in line for line in lines)
    assert any("first metric" in line for line in lines)


def test_a_table_with_less_breaks_its_cells_where_they_may_be_broken():
    lines = drawn(50, spare=("cost",))
    assert max(map(len, lines)) <= 50
    assert any(line.split() == ["bm25", "0.706", "*", "0.910", "12"] for line in lines)
    assert any(line.split() == ["[0.66,", "0.75]", "[0.87,", "0.94]"] for line in lines)


def test_a_table_with_still_less_leaves_out_what_it_was_told_and_says_so(capsys):
    lines = drawn(30, spare=("cost", "second\nmetric"))
    assert max(map(len, lines)) <= 30
    assert any(line.split() == ["[0.66,", "0.75]"] for line in lines)
    assert capsys.readouterr().err.startswith("No room for: second metric, cost. A wider terminal")


def test_columns_of_one_name_each_show_their_own(capsys):
    output.table("Facts", ("", ""), [("split", "test")])
    assert "split │ test" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "room"), [("vector", True), ("hybrid with linear fusion (k1 = 1.2), and more of a name", False)]
)
def test_a_board_of_three_metrics_reads_well_at_80_columns(name, room, capsys):
    runs = [replace(run(each), name=each, milliseconds=dict.fromkeys(QUERIES, 120.0)) for each in ("good", "poor")]
    runs += [replace(run("bare"), name=name)]
    stream = io.StringIO()
    output.show_board(
        Board(SPLIT, runs, ("ndcg@10", "recall@100", "mrr@10")),
        Console(width=80, file=stream, force_terminal=True, color_system=None),
    )
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    row = next(at for at, line in enumerate(lines) if line.startswith("poor"))
    assert lines[row].split()[:7] == ["poor", "0.620", "▼", "1.000", "*=", "0.500", "▼"]
    assert lines[row + 1].split()[:2] == ["[0.59,", "0.64]"]
    assert ("No room for: judged ndcg@10" in capsys.readouterr().err) is not room
