"""What a notebook's cells came to, as a terminal shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from workbench.book.output import Output
    from workbench.book.running import CellResult


def show(result: CellResult) -> None:
    _tell(f"\n{result.number}. {result.title}")
    if result.problem:
        telling.complain(result.problem)
    if result.output:
        _show_output(result.output)


def _show_output(output: Output) -> None:
    from workbench.book.ipynb import tables_of
    from workbench.book.output import Code, Figure, Hits, Said, Table

    for block in output.blocks:
        match block:
            case Said():
                _tell(block.text)
            case Figure():
                _tell(f"({block.says})")
            case Code():
                _tell(f"{block.title}:\n{block.text}")
            case Table() | Hits():
                for table in tables_of(block):
                    rows = [[getattr(cell, "plain", cell) for cell in row] for row in table.rows]
                    telling.table(table.title, table.columns, rows, right=table.right)
                    for note in table.notes:
                        _tell(note)


def _tell(text: str) -> None:
    """To standard output, where the tables are: a result, and not a notice."""
    typer.echo(telling.printable(text))
