"""One cell's turn, as a desk takes it.

Owns what a mistake of ours comes to. When it is a cell's turn is `turns`' matter, how it runs the runner's.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from core.errors import RankbookError
from workbench.book.parts import Cell
from workbench.book.running import CellResult, Runner

_log = logging.getLogger("rankbook")


async def result(
    runner: Runner, cell: Cell, number: int, *, again: bool, allowed: Collection[str] | None
) -> CellResult:
    """What the runner says, or that something went wrong which should not."""
    try:
        return await runner.cell(cell, number, again=again, allowed=allowed)
    except RankbookError:
        raise  # somebody stopped it: all else of ours the runner has put into the result
    except Exception as error:  # a mistake of ours is one cell's failure, and no reason to leave the others out
        _log.error("unexpected error in a cell", exc_info=error)
        said = f"Something unexpected went wrong: {type(error).__name__}. What exactly stands in the terminal."
        return CellResult(cell, number, problem=said)
