"""Runs, pins, contests and votes from a backup. What has the same key here already is left as it is."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Table, column, func, literal, select, table, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from evals.backup import parts
from evals.backup.parts import OUTPUTS, RESULTS, Part
from evals.backup.taking import Taking, counted
from evals.store import chain

DIGITS = 32  # of a run's id
BEFORE_SHIPPED: Final = "e0011"  # marks what was kept until then in a store; in a backup of before it is done here
# Runs of before took excluded documents out after the search, so that fewer results were left than ship.
MARK_DEEP: Final = text(
    """
    UPDATE incoming_runs AS runs
    SET depth = CASE WHEN variant ->> 'top_k' ~ '^[0-9]{1,6}$' THEN CAST(variant ->> 'top_k' AS int) ELSE 10 END
    WHERE depth = 0 AND variant IS NOT NULL AND environment -> 'own indexes' IS NULL AND EXISTS (
        SELECT FROM incoming_query_sets AS sets JOIN incoming_exclusions ON set_key = sets.key
        WHERE sets.name = runs.query_set)
    """
)


async def adopt(taking: Taking, name: str, *, renamed: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Rows that came in and rows that were here, by table. Labels and sets were put aside before.

    Keys are made of what a run or a contest is of, its collection's name included: under another name they are others.
    """
    added: dict[str, int] = {}
    left: dict[str, int] = {}
    for part in RESULTS:
        incoming = await taking.aside(part)
        if part is RESULTS[0] and taking.archive.manifest.revisions.get(chain.name, "") < BEFORE_SHIPPED:
            await taking.connection.execute(MARK_DEEP)
        if part.through is not None:
            await _refuse_strangers(taking, part, part.through, incoming)
        total, came = await _insert(taking.connection, part.table, incoming, _values(part, incoming, name, renamed))
        added[part.name], left[part.name] = came, total - came
    return added, left


async def _refuse_strangers(taking: Taking, part: Part, owner: Part, incoming: Table) -> None:
    """Pins of runs, and votes in contests, that are not in the file: they would be about somebody else's."""
    owners = table(f"incoming_{owner.name}", column(part.key))
    strange = incoming.c[part.column].not_in(select(owners.c[part.key]))
    if await taking.connection.scalar(select(func.count()).select_from(incoming).where(strange)):
        raise taking.archive.wrong(f"It holds {part.name} of {owner.name} that it does not hold. Nothing was restored.")


def _values(part: Part, incoming: Table, name: str, renamed: bool) -> list[Any]:
    def value(column: str) -> Any:
        if column == "collection":
            return literal(name)
        is_key = part.through is None and column in {key.name for key in part.table.primary_key}
        if renamed and (is_key or (part.through is not None and column == part.column)):
            return _other_key(incoming.c[column], name)
        return incoming.c[column]

    return [value(column) for column in parts.columns(part.table)]


def _other_key(key: Any, name: str) -> Any:
    content = func.convert_to(key.concat(literal(f" {name}")), "UTF8")
    return func.left(func.encode(func.sha256(content), "hex"), DIGITS)


async def _insert(connection: AsyncConnection, table: Table, incoming: Table, values: list[Any]) -> tuple[int, int]:
    total = int(await connection.scalar(select(func.count()).select_from(incoming)) or 0)
    add = insert(table).from_select(parts.columns(table), select(*values), include_defaults=False)
    return total, await counted(connection, add.on_conflict_do_nothing())


async def adopt_outputs(taking: Taking) -> int:
    """What notebooks' cells showed."""
    incoming = await taking.aside(OUTPUTS)
    values = [incoming.c[column] for column in parts.columns(OUTPUTS)]
    return (await _insert(taking.connection, OUTPUTS, incoming, values))[1]
