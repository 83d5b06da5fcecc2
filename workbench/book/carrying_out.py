"""One cell's turn, as a desk takes it: what is to be allowed before it may run, and what comes of it.

Owns what a mistake of ours comes to. When it is a cell's turn is `turns`' matter, how it runs the runner's.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from core.errors import RankbookError
from workbench.book.announced import announced, unallowed
from workbench.book.parts import Cell
from workbench.book.running import CellResult, Runner

_log = logging.getLogger("rankbook")


async def asked(runner: Runner, cell: Cell, allowed: Collection[str], *, again: bool) -> tuple[str, ...]:
    """What is to be allowed first; what has an output of today asks nobody."""
    spec = runner.meaning.specs.get(cell.id)
    said = unallowed(await announced(runner.context, spec), allowed) if spec is not None else ()
    if not said or again:
        return said
    kept = next(iter(await runner.kept([cell.id])), None)
    return said if kept is None or kept.output is None or kept.stale else ()


async def result(runner: Runner, cell: Cell, number: int, *, again: bool) -> CellResult:
    """What the runner says, or that something went wrong which should not."""
    try:
        return await runner.cell(cell, number, again=again)
    except RankbookError:
        raise  # somebody stopped it: all else of ours the runner has put into the result
    except Exception as error:  # a mistake of ours is one cell's failure, and no reason to leave the others out
        _log.error("unexpected error in a cell", exc_info=error)
        said = f"Something unexpected went wrong: {type(error).__name__}. What exactly stands in the terminal."
        return CellResult(cell, number, problem=said)
